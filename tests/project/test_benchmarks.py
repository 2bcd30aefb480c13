"""The benchmarks of a round run: their quick mode, which measures nothing worth quoting."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("script, options, words", [
    ("round.py", ["--models", "cnn"], ["tight loop, channels_last", "ours, two workers", "x faster than one worker"]),
    ("race.py", ["--cases", "many-cnn", "--without", "flower", "pfl", "pfl-single"], ["ours", "plain", "start-up"]),
    ("shares.py", [], ["training", "evaluation", "writing", "display"]),
])  # fmt: skip
def test_the_quick_mode_runs(script, options, words):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, str(ROOT / "benchmarks" / script), "--quick", *options]
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert all(word in done.stdout for word in words), done.stdout
