"""The numbers in docs/authors.md: what the authors' deviations do, on problems small enough to check.

python benchmarks/authors.py
"""

from __future__ import annotations

import statistics

import torch

from fedhalt import GrowthAuthors, GrowthRate, methods, stop_round
from fedhalt.methods.authors import Split, scalar_indexed
from fedhalt.methods.local import Local, step_weight
from fedhalt.methods.vector import unit
from fedhalt.simulation import toy

SEEDS = range(5)


def federation(seed: int, clients: int = 20, d: int = 10, **settings) -> toy.Quadratics:
    draw = torch.Generator().manual_seed(seed)
    A = 0.5 + torch.rand(clients, d, generator=draw, dtype=torch.float64)
    b = torch.randn(clients, d, generator=draw, dtype=torch.float64)
    return toy.Quadratics(A.tolist(), b.tolist(), [0.0] * d, **{"steps": 5, "lr": 0.02, "momentum": 0.9, **settings})


def distance(name: str, local_iteration: float | None, seed: int, rounds: int = 400, **settings) -> float:
    """Distance from the optimum after training with our normalizer (None) or theirs."""
    task = federation(seed, **settings)
    setting = methods.Setting(local_iteration or 1.0, sizes=(10,))
    method = methods.create(name, compat="authors" if local_iteration else None, setting=setting)
    x = toy.run(method, task, rounds)
    return float(torch.linalg.vector_norm(x - task.optimum()))


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1e} ({min(values):.0e} to {max(values):.0e})"


def normaliser() -> None:
    print("normaliser: S_K(0.9) / K =", {k: round(step_weight(k, 0.9) / k, 2) for k in (1, 5, 20)})
    print(f"distance from the optimum after 400 rounds, 20 quadratics, K = 5, median (range) of {len(SEEDS)} seeds")
    rows = [
        ("S_K(mu), ours", None, {}),
        ("K = 5 with momentum 0.9", 5.0, {}),
        ("K = 5 without momentum", 5.0, {"momentum": 0.0}),
        ("K = 1.504 (DermaMNIST, label skew)", 1.504, {}),
        ("K = 5/256 (client 0 holds one image)", 5 / 256, {}),
    ]
    for clip in (None, 10.0):
        for title, k, settings in rows:
            print(
                f"  clip {clip}  {title:38}",
                spread([distance("scaffold", k, seed, clip=clip, **settings) for seed in SEEDS]),
            )


def indexing() -> None:
    lengths, angles = [], []
    for seed in SEEDS:
        v = torch.randn(100_000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        theirs = scalar_indexed(v, 1.0, methods.Setting(1.0, sizes=(1000,) * 100))
        lengths.append(float(torch.linalg.vector_norm(theirs)))
        angles.append(float(torch.dot(theirs, unit(v)) / torch.linalg.vector_norm(theirs)))
    print("\nscalar indexing, 100 tensors of 1,000 random entries: length of the perturbation / rho", spread(lengths))
    print("  cosine with the direction it should have", spread(angles))


def split_prox() -> None:
    x = torch.full((10_000,), 107 / 100, dtype=torch.float64)  # ||x|| = 107, that of a ConvNeXtV2-nano at its start
    gradient = 1e-6 * torch.ones_like(x)
    for title, wrap in (("whole", lambda local: local), ("split", lambda local: Split(local, 0.1))):
        local = wrap(Local([], 1.0, optimizer=torch.optim.SGD, clip=10.0))
        moved = local.step(x, gradient + 0.1 * (x - x))
        print(
            f"split prox, lam 0.1, at y = x: {title:6} pull toward the origin",
            f"{float(torch.linalg.vector_norm(moved - x)):.4f}",
        )


def rule() -> None:
    print("\nstop rounds at threshold 0.1, patience 10 (paper, authors)")
    cases = {
        "frozen: the distance never changes": [1.0] * 60,
        "diverged: NaN from round 5": [1.0, 2.0, 3.0, 4.0] + [float("nan")] * 50,
        "growth below the threshold from round 2": [1.0 + 0.01 * r for r in range(60)],
        "shrinking by 20 % a round": [0.8**r for r in range(60)],
        "straight line": [float(r) for r in range(1, 200)],
    }
    for title, values in cases.items():
        print(f"  {title:42}", stop_round(GrowthRate(0.1, 10), values), stop_round(GrowthAuthors(0.1, 10), values))


if __name__ == "__main__":
    normaliser()
    indexing()
    split_prox()
    rule()
