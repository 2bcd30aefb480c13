"""A federation that stops by itself: softmax regression on scikit-learn's digits, 20 clients, FedAvg.

The server sees parameters only. The validation images are used for nothing but the comparison at
the end: where would rules that need data have stopped, and with what accuracy?
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


def train(record: Path, seed: int = 0) -> Trajectory:
    """500 rounds of FedAvg, recorded; the verdict of every round is printed as it falls."""
    rng = np.random.default_rng(seed)
    clients, val, test = federation(rng)
    theta = np.zeros((65, 10))
    stopper = EarlyStopper(start=theta, threshold=0.01, patience=10, trajectory=record)
    stopped = False
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
        if not stopped and (r <= 3 or r % 20 == 0 or status.stop):
            growth = "   -   " if status.growth is None else f"{status.growth:.5f}"
            print(f"round {r:3}  distance {status.value:6.3f}  growth {growth}  streak {status.streak:2}/10")
        if status.stop and not stopped:
            print(f"-> stop at round {r} of {ROUNDS}: the distance from the start is {status.reason}\n")
            stopped = True  # a real server would break here; we go on to see what the other rules do
    return stopper.trajectory


def compare(trajectory: Trajectory) -> None:
    rules = {
        "growth (no data)": GrowthRate(),
        "validation loss": Plateau("val_loss"),
        "validation accuracy": Plateau("val_accuracy"),
    }
    print(f"{'rule':20} {'stops at':>8} {'rounds saved':>13} {'test accuracy':>14}")
    for name, rule in rules.items():
        stop = stop_round(rule, trajectory)
        at = stop or len(trajectory)
        saved, reached = 1 - at / len(trajectory), trajectory.column("test_accuracy")[at - 1]
        print(f"{name:20} {stop or 'never':>8} {saved:>13.0%} {reached:>14.1%}")
    print(f"{'all 500 rounds':20} {'-':>8} {0:>13.0%} {trajectory.column('test_accuracy')[-1]:>14.1%}")


def draw(trajectory: Trajectory, path: Path) -> None:
    """The picture of the README."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    distance, rounds = trajectory.column("distance"), trajectory.column("round")
    stop = stop_round(GrowthRate(), trajectory)
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7.2, 4.4), sharex=True, layout="constrained")
    top.plot(rounds, distance, color="#007C97", label="distance from the start, ‖θᵣ - θ₀‖")
    top.plot(rounds, trajectory.column("test_accuracy") * distance[-1], color="#888888", ls="--", lw=1,
             label="test accuracy (scaled; the server never sees it)")  # fmt: skip
    bottom.semilogy(rounds[1:], np.abs(np.diff(distance)) / distance[:-1], color="#007C97", lw=1, label="growth rate")
    bottom.axhline(0.01, color="#ED1C24", ls=":", label="threshold τ = 0.01")
    for axis in (top, bottom):
        axis.axvline(stop, color="#ED1C24", lw=1.5)
        axis.legend(loc="best", frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    top.annotate(
        f"stop: round {stop}", (stop, distance[stop - 1]), (stop + 12, distance[stop - 1] * 0.55), color="#ED1C24"
    )
    bottom.set_xlabel("federated round (softmax regression on digits, 20 clients, 5 a round)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="draw the run to this file (needs matplotlib)")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fedhalt-demo-"))
    recorded = train(folder / "trajectory.jsonl")
    compare(recorded)
    print(f"\nrecorded in {recorded.path}; judge it again under other settings:")
    print(f"  .venv/bin/fedhalt replay {recorded.path} --threshold 0.005 0.01 0.05 0.1 --patience 1 5 10")
    if arguments.picture:
        draw(recorded, arguments.picture)
