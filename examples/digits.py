"""A federation that stops by itself: softmax regression on scikit-learn's digits, 20 clients, FedAvg.

The server sees parameters only. The validation images are used for nothing but the comparison at
the end: where would rules that need data have stopped, and with what accuracy? The mean of the last
ten models is evaluated beside the last one: early on it lags, later it makes no difference here.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from fedhalt import EarlyStopper, GrowthRate, Plateau, Trajectory, stop_round

CLIENTS, COHORT, ROUNDS, RATE, STEPS = 20, 5, 500, 0.05, 10


def federation(rng):
    """Clients with a few classes each (Dirichlet 0.3 over clients, per class), validation and test images."""
    images, labels = load_digits(return_X_y=True)
    images = np.hstack([images / 16 - 0.5, np.ones((len(images), 1))])
    order = rng.permutation(len(labels))
    val, test, train = order[:300], order[300:600], order[600:]
    parts = [[] for _ in range(CLIENTS)]
    for z in range(10):
        mine = train[labels[train] == z]
        cuts = np.cumsum(rng.dirichlet(np.full(CLIENTS, 0.3))[:-1]) * len(mine)
        for part, piece in zip(parts, np.split(mine, cuts.astype(int)), strict=True):
            part.extend(piece)
    pick = lambda index: (images[index], labels[index])  # noqa: E731
    return [pick(part) for part in parts if part], pick(val), pick(test)


def gradient(w, images, labels):
    logits = images @ w
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(labels)), labels] + 1e-12).mean()
    p[np.arange(len(labels)), labels] -= 1
    return images.T @ p / len(labels), loss


def accuracy(w, images, labels):
    return float(((images @ w).argmax(1) == labels).mean())


def train(record: Path, seed: int = 0) -> tuple[Trajectory, list[float]]:
    """500 rounds of FedAvg, recorded, and the accuracy of the average after each; verdicts are printed as they fall."""
    rng = np.random.default_rng(seed)
    clients, val, test = federation(rng)
    theta = np.zeros((65, 10))
    stopper = EarlyStopper(start=theta, threshold=0.01, patience=10, trajectory=record, average=10)
    stopped, averaged = False, []
    for r in range(1, ROUNDS + 1):
        models = []
        for n in rng.choice(len(clients), COHORT, replace=False):
            w = theta.copy()
            for _ in range(STEPS):
                w -= RATE * 0.998**r * gradient(w, *clients[n])[0]
            models.append(w)
        theta = np.mean(models, axis=0)
        status = stopper.update(
            theta,
            val_loss=gradient(theta, *val)[1],
            val_accuracy=accuracy(theta, *val),
            test_accuracy=accuracy(theta, *test),
        )
        averaged.append(accuracy(stopper.model("average"), *test))
        if not stopped and (r <= 3 or r % 20 == 0 or status.stop):
            growth = "   -   " if status.signal is None else f"{status.signal:.5f}"
            print(f"round {r:3}  distance {status.value:6.3f}  growth {growth}  streak {status.streak:2}/10")
        if status.stop and not stopped:
            print(f"-> stop at round {r} of {ROUNDS}: growth below threshold for 10 rounds\n")
            stopped = True  # a real server would break here; we continue to see what the other rules do
    return stopper.trajectory, averaged


def compare(trajectory: Trajectory, averaged: list[float]) -> None:
    rules = {
        "growth (no data)": GrowthRate(),
        "validation loss": Plateau("val_loss"),
        "validation accuracy": Plateau("val_accuracy"),
    }
    stops = {name: stop_round(rule, trajectory) for name, rule in rules.items()}
    print(f"{'rule':20} {'stops at':>8} {'rounds saved':>13} {'test accuracy':>14} {'of the average':>15}")
    for name, stop in {**stops, "ten rounds": 10, f"all {ROUNDS} rounds": ROUNDS}.items():
        at = stop or ROUNDS
        reached = trajectory.column("test_accuracy")[at - 1]
        print(f"{name:20} {stop or 'never':>8} {1 - at / ROUNDS:>13.0%} {reached:>14.1%} {averaged[at - 1]:>15.1%}")


def draw(trajectory: Trajectory, path: Path) -> None:
    """The picture of the README: what the server never sees, what it measures, and what the rule compares."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, red = "#1b1f24", "#c2410c"
    distance, rounds = trajectory.column("distance"), trajectory.column("round")
    accuracy = trajectory.column("test_accuracy")
    stop = stop_round(GrowthRate(), trajectory)
    there, end = accuracy[stop - 5 : stop].mean(), accuracy[-5:].mean()
    figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(7.6, 6), sharex=True, layout="constrained")
    figure.suptitle(
        f"Growth below threshold for 10 rounds: stop after round {stop} of {len(rounds)}", fontsize=12, weight="bold"
    )
    top.plot(rounds, 100 * accuracy, color=ink, lw=1)
    top.set(ylabel="test accuracy (%)\nnot seen by the server", ylim=(0, 102))
    top.text(stop + 8, 30, f"{there:.1%} at the stop,\n{end:.1%} after {len(rounds)} rounds", color=red, fontsize=9)
    middle.plot(rounds, distance, color=ink)
    middle.set(ylabel="distance from\nthe start", ylim=(0, None))
    middle.text(stop + 8, 1.2, "the model still moves, but ever more slowly", color=red, fontsize=9)
    bottom.semilogy(rounds[1:], np.abs(np.diff(distance)) / distance[:-1], color=ink, lw=1)
    bottom.axhline(0.01, color=red, ls="--", lw=1)
    bottom.text(rounds[-1], 0.012, "threshold 0.01", color=red, fontsize=9, ha="right")
    bottom.axvspan(stop - 10, stop, color=red, alpha=0.2, lw=0)
    bottom.text(stop + 8, 0.2, "10 rounds in a row below it", color=red, fontsize=9)
    bottom.set(
        ylabel="growth of the distance\nper round",
        xlabel="federated round (softmax regression on digits, 20 clients, 5 per round)",
    )
    for axis in (top, middle, bottom):
        axis.axvline(stop, color=red, lw=1.5)
        axis.margins(x=0.01)
        axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="draw the run to this file (needs matplotlib)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fedhalt-demo-"))
    recorded, averaged = train(folder / "trajectory.jsonl")
    compare(recorded, averaged)
    print(f"\nrecorded in {recorded.path}; judge it again under other settings:")
    print(f"  .venv/bin/fedhalt replay {recorded.path} --threshold 0.005,0.01,0.05,0.1 --patience 1,5,10")
    if arguments.picture:
        draw(recorded, arguments.picture)
