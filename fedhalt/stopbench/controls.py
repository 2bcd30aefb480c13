"""Synthetic runs for which the right answer is known: a walk, a drift, a standstill, an explosion, a goal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .runs import Run

DIMENSIONS = 2000
Path = NDArray[np.float64]


def controls(rounds: int = 300, seed: int = 0) -> dict[str, Run]:
    """Trajectories in parameter space that are made, not trained; only what a server measures is recorded of them."""
    rng = np.random.default_rng(seed)
    step = rng.standard_normal((rounds, DIMENSIONS))
    r = np.arange(1, rounds + 1)[:, None]
    along = np.eye(1, DIMENSIONS)
    with np.errstate(over="ignore"):
        paths = {
            "straight drift": r * along,
            "random walk": np.cumsum(step, axis=0),
            "random walk, decaying rate": np.cumsum(0.998**r * step, axis=0),
            "reaches its goal": (1 - 0.95**r) * along + 1e-4 * step,
            "thrown about": 10 * step,
            "frozen": np.zeros((rounds, DIMENSIONS)),
            "diverging": 1.5**r * along + np.where(r < 250, 0.0, np.inf),
        }
    return {name: _run(name, path) for name, path in paths.items()}


def _run(name: str, path: Path) -> Run:
    before = np.concatenate([np.zeros((1, path.shape[1])), path[:-1]])
    with np.errstate(invalid="ignore", over="ignore"):
        update = path - before
        columns = {
            "distance": np.linalg.norm(path, axis=1),
            "update_norm": np.linalg.norm(update, axis=1),
            "parameter_norm": np.linalg.norm(1 + path, axis=1),
            "alignment": np.einsum("rd,rd->r", update, before),
            "lr": 0.998 ** np.arange(len(path)),
            "cohort_size": np.full(len(path), 10.0),
        }
    cells = {column: values.tolist() for column, values in columns.items()}
    rows = [{"round": r + 1, **{column: cells[column][r] for column in cells}} for r in range(len(path))]
    return Run(name, {"data": "control"}, rows, np.zeros(len(path)))
