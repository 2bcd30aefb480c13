"""`fedhalt replay --checkpoints --average 10 -o …`: the model to ship, from files that any tool has saved."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from fedhalt import Drift, stop_round
from fedhalt.measure import tensors
from fedhalt.measure.arrays import BFLOAT16
from fedhalt.records.checkpoints import Checkpoints


@pytest.fixture
def models(tmp_path):
    """Fourteen models, with a counter and a running statistic; round 0 is the start."""
    folder, draw, made = tmp_path / "models", np.random.default_rng(0), []
    folder.mkdir()
    for r in range(14):
        made.append({
            "w": np.float32(10 + 0.1 * r + draw.standard_normal(50)), "bn.running_mean": np.float16([r]),
            "n": np.int64([r, r]),
        })  # fmt: skip
        save_file(made[-1], folder / f"round-{r}.safetensors")
    return folder, made


def check(file, made):
    found = load_file(file)
    expected = np.mean([model["w"].astype("f8") for model in made], 0)
    assert found["w"].dtype == np.float32 and found["w"] == pytest.approx(expected, abs=1e-6)
    assert found["n"].tolist() == made[-1]["n"].tolist() and found["n"].dtype == np.int64
    assert found["bn.running_mean"].dtype == np.float16
    assert found["bn.running_mean"] == pytest.approx(np.mean([model["bn.running_mean"] for model in made]))


def test_the_last_ten_up_to_the_stop_or_to_the_end(models, said, tmp_path):
    folder, made = models
    out = tmp_path / "shipped.safetensors"
    told = said("replay", folder, "--checkpoints", "--average", 10, "-o", out, "--exclude", "*.running_*")
    assert "the mean of 10 models, round-4.safetensors to round-13.safetensors" in told
    check(out, made[4:])
    with safe_open(out, "np") as opened:
        assert opened.metadata()["models"] == "10"
    said("replay", folder, "--checkpoints", "--rule", "budget", "--rounds", 6, "--average", 4, "-o", out)
    check(out, made[3:7])
    start = folder / "round-0.safetensors"
    said("replay", folder, "--checkpoints", "--start", start, "--average", 100, "-o", out)
    check(out, made[1:])


def test_json_is_not_disturbed(models, fedhalt, tmp_path):
    out = tmp_path / "shipped.safetensors"
    code, text, told = fedhalt("replay", models[0], "--checkpoints", "--average", 2, "-o", out, "--json")
    assert not code and len(json.loads(text)) == 1 and "the mean of 2 models" in told and out.exists()


def test_what_cannot_be_done_is_said(models, said, tmp_path):
    folder, out = models[0], tmp_path / "x.safetensors"
    assert "go together" in said("replay", folder, "--checkpoints", "--average", 3, code=2)
    assert "one folder and one rule, not of 1 and 2" in said(
        "replay", folder, "--checkpoints", "--average", 3, "-o", out, "--threshold", "0.1,0.2", code=2
    )
    assert "needs --checkpoints" in said("replay", folder, "--average", 3, "-o", out, code=2)
    assert ".safetensors" in said("replay", folder, "--checkpoints", "--average", 3, "-o", tmp_path / "x.pt", code=2)
    inside = folder / "mean.safetensors"
    assert "among the models" in said("replay", folder, "--checkpoints", "--average", 3, "-o", inside, code=2)
    assert not out.exists() and not inside.exists()


def test_types_that_numpy_has_not_are_kept(tmp_path, said):
    torch = pytest.importorskip("torch")
    folder, out = tmp_path / "models", tmp_path / "x.safetensors"
    folder.mkdir()
    for r in range(4):
        torch.save({"w": torch.full((3,), 1.0 + r, dtype=torch.bfloat16), "n": torch.tensor(r)}, folder / f"{r}.pt")
    said("replay", folder, "--checkpoints", "--average", 3, "-o", out)
    arrays = tensors.to_arrays(out.read_bytes(), out, others=True)
    assert arrays["w"].dtype == BFLOAT16 and arrays["n"].tolist() == 3
    assert torch.tensor(arrays["w"]["bfloat16"].tolist(), dtype=torch.uint16).view(torch.bfloat16).tolist() == [3] * 3


def test_drift_is_measured_of_saved_models_too(models):
    rows = list(Checkpoints(models[0], ("distance", "drift_5")).rows())
    assert rows[8]["drift_5"] is None and rows[9]["drift_5"] > 0
    assert stop_round(Drift(1000.0, window=5), rows) == 10


def test_a_model_that_is_not_finite_is_left_out_and_a_mask_of_infinities_is_kept(tmp_path, said):
    folder, out = tmp_path / "models", tmp_path / "x.safetensors"
    folder.mkdir()
    for r, value in enumerate((0.0, 1.0, 3.0, np.nan)):
        model = {"w": np.full(4, value, "f4"), "mask": np.full(2, -np.inf, "f4")}
        save_file(model, folder / f"round-{r}.safetensors")
    told = said("replay", folder, "--checkpoints", "--exclude", "mask", "--average", 3, "-o", out)
    assert "the mean of 2 models, round-1.safetensors to round-2.safetensors" in told
    found = load_file(out)
    assert found["w"].tolist() == [2.0] * 4 and found["mask"].tolist() == [-np.inf] * 2
