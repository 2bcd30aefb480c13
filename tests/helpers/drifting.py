"""Runs of StopBench 2 whose answers are known."""

from __future__ import annotations

import numpy as np

from fedhalt.stopbench import Run

ROUNDS = 100


def made(name="run", last=0.5, average=0.8, rounds=ROUNDS, **spec):
    """A straight drift with constant accuracies."""
    rows = [
        {"round": r, "distance": float(r), "update_norm": 1.0, "parameter_norm": float(r), "alignment": float(r - 1),
         "lr": 0.1, "cohort_size": 10, "val_loss": 1 / r, "val_accuracy": 0.5, "val_loss_average": 0.5 / min(r, 40),
         "val_accuracy_average": 0.5, "drift_5": 25.0, "drift_10": None if r < 20 else 55.0,
         "drift_20": None if r < 40 else 30.0 - r / 4,
         "turn": None if r == 1 else 1.0, "cohort_squares": 2.0, "train_loss_before": 4.0,
         "train_loss_after": 1.0, "distance_average": (r + 1) / 2 if r < 10 else r - 4.5}
        for r in range(1, rounds + 1)
    ]  # fmt: skip
    about = {"data": "blood", "model": "cnn", "method": "fedavg", "skew": "iid", "c": 1.0, "lr": 0.1, "seed": 0}
    curve = [np.broadcast_to(np.asarray(values, float), rounds).copy() for values in (last, average)]
    return Run(name, {**about, **spec}, rows, curve[0], curve[1])
