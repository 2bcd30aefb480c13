"""The paper's own scale starts and trains a round of the right shapes; more than a start is not for a CPU."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")
pytest.importorskip("matplotlib")

from safetensors.torch import save_file

from fedhalt.simulation.datasets import load as load_data
from fedhalt.simulation.datasets import resized

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("FEDHALT_DATA", ROOT.parent / "shared" / "data"))
PARAMETERS = 14_987_287
"""ConvNeXtV2-nano with seven classes."""


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "dermamnist.npz").exists(), reason=f"no dermamnist.npz in {DATA}")
def test_a_round_at_the_papers_scale(tmp_path):
    # no hub and no 64-pixel file here: the 28-pixel images enlarged, and weights of the right shapes
    data = resized(load_data("derma", 28, DATA), 64)
    splits = {name: getattr(data, name) for name in ("train", "val", "test")}
    images = {f"{name}_images": part.images.permute(0, 2, 3, 1).numpy() for name, part in splits.items()}
    np.savez(tmp_path / "dermamnist_64.npz", **images, **{f"{n}_labels": p.labels.numpy() for n, p in splits.items()})
    save_file(timm.create_model("convnextv2_nano", num_classes=7).state_dict(), tmp_path / "nano.safetensors")
    command = [
        sys.executable, "-c", "from fedhalt.cli import main; main()", "reproduce", "fig-result1", "--scale", "paper",
        "--parallel", "1", "--data-root", tmp_path, "--weights", tmp_path / "nano.safetensors",
        "--out", tmp_path / "runs", "--results", tmp_path / "results",
    ]  # fmt: skip
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        row = first_row(tmp_path / "runs", process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=1800) == 130
    finally:
        process.kill()
    assert row["bytes_down"] == row["bytes_up"] == 10 * 4 * PARAMETERS and len(row["cohort"]) == 10
    assert row["distance"] == pytest.approx(row["update_norm"]) and 0 < row["distance"] < 100
    assert {"val_loss", "val_accuracy", "test_balanced_accuracy", "test_accuracy"} <= set(row)
    spec = json.loads(next((tmp_path / "runs").glob("*/spec.json")).read_text())
    assert (spec["model"], spec["size"], spec["clients"], spec["cohort"]) == ("convnextv2_nano", 64, 100, 10)
    print(f"a round of the paper's scale on skin lesions: {row['seconds']:.0f} s")


def first_row(runs, process):
    """The first recorded round, of whichever task comes first."""
    deadline = time.monotonic() + 1800
    while time.monotonic() < deadline:
        assert process.poll() is None, "reproduce ended before its first round"
        for path in runs.glob("*/trajectory.jsonl"):
            lines = path.read_text().splitlines()
            if len(lines) > 1:
                return json.loads(lines[1])
        time.sleep(0.5)
    raise AssertionError("no round within half an hour")
