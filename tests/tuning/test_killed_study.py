"""A search by Optuna that is killed again and again: every trial ends, none is lost, none is repeated for nothing."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

optuna = pytest.importorskip("optuna")
pytest.importorskip("torch")
pytest.importorskip("sklearn")

from helpers.commands import FEDHALT, LIMIT, run, started, wait_for
from helpers.places import ROOT
from helpers.records import rounds_in
from helpers.specs import SMALL, write_toml

from fedhalt import FedhaltError, Trajectory, files, simulation
from fedhalt.tuning import plans
from fedhalt.tuning.sweeps import sampler_of

SPACE = {**SMALL, "lr": {"low": 0.01, "high": 0.1, "log": True}}
TRIALS, ROUNDS = 5, 12


def study_in(out):
    return optuna.load_study(study_name="fedhalt", storage=f"sqlite:///{out / 'study.db'}")


@pytest.mark.parametrize("parallel, kills", [
    (2, 3), (1, 2), pytest.param(2, 25, marks=pytest.mark.slow), pytest.param(1, 25, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_sweep_that_is_killed_ends_with_all_trials_and_the_best_of_all(parallel, kills, tmp_path):
    out, draw = tmp_path / "runs", random.Random(kills)
    trials, rounds = (TRIALS, ROUNDS) if kills < 25 else (10, 40)
    settings = {"rounds": rounds, "sampler": "tpe", "trials": trials, "out": str(out), "screen": False,
                "converge": False, "parallel": parallel, "space": SPACE}  # fmt: skip
    file = write_toml(tmp_path / "sweep.toml", **settings)
    for _ in range(kills):
        before = sum(rounds_in(out))
        with started(*FEDHALT, "sweep", file) as process:
            wait_for("another round, or the end", lambda: sum(rounds_in(out)) > before or process.poll() == 0)  # noqa: B023
            time.sleep(draw.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
    found = json.loads(run("sweep", file, "--json").stdout)
    ended = [trial for trial in study_in(out).trials if trial.state.name == "COMPLETE"]
    assert {trial.state.name for trial in study_in(out).trials} <= {"COMPLETE", "FAIL"} and len(ended) == trials
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * trials
    assert {trial["id"]: trial["value"] for trial in found["trials"]} == {t.user_attrs["run"]: t.value for t in ended}
    assert found["best"] == min(ended, key=lambda trial: trial.value).user_attrs["run"]
    records = [Trajectory.load(path) for path in out.glob("*/trajectory.jsonl")]
    assert len(records) == trials and all(len(record) == rounds for record in records)  # each went on in its folder
    log = out / "workers.log"
    assert not log.exists() or "Traceback" not in log.read_text()


def test_a_finished_study_is_shown_again_with_its_best(tmp_path, fedhalt):
    settings = {"rounds": 3, "sampler": "tpe", "trials": 3, "out": str(tmp_path / "runs"), "space": SPACE}
    file = write_toml(tmp_path / "sweep.toml", **settings)
    first, again = (json.loads(fedhalt("sweep", file, "--json")[1]) for _ in range(2))
    assert again == first and again["best"] in [trial["id"] for trial in again["trials"]] and len(again["trials"]) == 3
    code, out, _ = fedhalt("sweep", file)
    assert code == 0 and "3 of 3 trials ended" in out and "best val_loss" in out and "trial 3/3" in out


@pytest.mark.parametrize("lost", [b"", b"\xff\xfe", None])
def test_a_search_whose_id_is_lost_still_finds_its_trials(lost, tmp_path, fedhalt):
    """A trial that was running is resumed by its folder; a damaged id is said, not taken for another search's."""
    out = tmp_path / "runs"
    settings = {"rounds": 3, "sampler": "tpe", "trials": 2, "out": str(out), "screen": False, "converge": False}
    plan = plans.plan({**settings, "space": SPACE})
    dying = sampler_of(plan)
    begun = dying.ask()
    simulation.run(begun.spec, out, rounds=1, watch=[], workers=1)
    dying.close()
    search = out / ".sweep" / "search"
    if lost is None:
        search.unlink()
    else:
        search.write_bytes(lost)
        with pytest.raises(FedhaltError, match=r"\.sweep/search: .*remove it"):
            sampler_of(plan)
        search.unlink()
    file = write_toml(tmp_path / "sweep.toml", **settings, space=SPACE)
    found = json.loads(fedhalt("sweep", file, "--json")[1])
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 2
    assert begun.spec.id in [trial["id"] for trial in found["trials"]]


def test_a_trial_whose_folder_cannot_be_locked_is_tried_again(tmp_path, monkeypatch, fedhalt):
    """As on a full disk: the next process tries it, where a mistake in its settings would end it."""
    settings = {"rounds": 2, "sampler": "tpe", "trials": 1, "out": str(tmp_path / "runs"), "space": SPACE}
    file, init = write_toml(tmp_path / "sweep.toml", **settings), files.Lock.__init__

    def full(lock, folder, *rest, **options):
        if ".sweep" not in str(folder):
            raise files.NoLock(f"{folder} cannot be locked (No space left on device)")
        init(lock, folder, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(files.Lock, "__init__", full)
        assert "No space left on device" in fedhalt("sweep", file)[2]
    found = json.loads(fedhalt("sweep", file, "--json")[1])
    assert [trial["state"] for trial in found["trials"]] == ["complete"]


def test_one_that_has_nothing_to_do_takes_over_from_one_that_dies(tmp_path):
    out = tmp_path / "runs"
    settings = {"rounds": 40, "sampler": "tpe", "trials": 2, "out": str(out), "screen": False, "converge": False}
    file = write_toml(tmp_path / "sweep.toml", **settings, space=SPACE)

    def states():
        return sorted(trial.state.name for trial in study_in(out).trials) if (out / "study.db").exists() else []

    with started(*FEDHALT, "sweep", file, "--rounds", "4000") as dying:
        wait_for("the first trial", lambda: sum(rounds_in(out)) > 1, dying)
        with started(*FEDHALT, "sweep", file, "--json") as waiting:
            wait_for("the second trial's end", lambda: states() == ["COMPLETE", "RUNNING"], waiting, every=0.5)
            time.sleep(3)
            assert waiting.poll() is None  # the first may die
            dying.send_signal(signal.SIGKILL)
            text, errors = waiting.communicate()
    assert waiting.returncode == 0, errors
    assert [trial["state"] for trial in json.loads(text)["trials"]] == ["complete"] * 2
    assert states() == ["COMPLETE", "COMPLETE", "FAIL"]


def test_a_kill_after_any_change_of_the_study_loses_no_trial(tmp_path):
    script = ROOT / "tests" / "helpers" / "study_killed_at_changes.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=3 * LIMIT)
    assert done.returncode == 0, done.stderr
    killed = json.loads(done.stdout.splitlines()[-1])
    assert len(killed) > 20
    for number, found in enumerate(killed, start=1):
        assert len(found["complete"]) == len(set(found["complete"])) == 3 and found["open"] == [], number
        assert set(found["begun"]) <= set(found["complete"]) and not found["waits"], number
        assert found["left"] == ["lock", "search"], number
