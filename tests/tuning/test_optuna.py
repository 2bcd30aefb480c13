"""Optuna: studies that several processes share and one is killed in, people's own studies, storages by URL."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")
pytest.importorskip("torch")
pytest.importorskip("sklearn")
np = pytest.importorskip("numpy")

from helpers.commands import FEDHALT, free_port, started, wait_for
from helpers.records import rounds_in
from helpers.specs import SCREEN, SMALL, write_toml

from fedhalt import FedhaltError, GrowthRate, Trajectory, Wandering
from fedhalt.integrations.optuna import TrialStopper, run_trial
from fedhalt.simulation.spec import RunSpec
from fedhalt.tuning import plans as plan
from fedhalt.tuning.samplers.optuna import StudySampler
from fedhalt.tuning.samplers.optuna_storage import open_storage
from fedhalt.tuning.sweeps import best, sweep
from fedhalt.tuning.trial import Outcome


def small(tmp_path, **settings):
    table = {"space": {**SMALL, "lr": [0.05, 2.0]}, "rounds": 6, "out": str(tmp_path / "runs"), "sampler": "tpe",
             "trials": 4, "screen": SCREEN}  # fmt: skip
    return plan.plan({**table, **settings})


def study(url, name="fedhalt"):
    return optuna.load_study(study_name=name, storage=open_storage(url))


def states(found):
    return [trial.state.name for trial in found.trials]


@pytest.fixture
def postgres():
    """A PostgreSQL server on 127.0.0.1, if one is installed; it refuses to run as root."""
    pytest.importorskip("psycopg")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path("/usr/local/bin")]
    if not (found[-1] / "initdb").exists():
        pytest.skip("PostgreSQL is not installed")
    folder = tempfile.mkdtemp()
    user = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "nobody")
    new = [*user, str(found[-1] / "initdb"), "-D", f"{folder}/db", "-U", "fedhalt", "-A", "trust"]
    subprocess.run(new, check=True, capture_output=True, cwd=folder)
    port = free_port()
    line = [*user, found[-1] / "postgres", "-D", f"{folder}/db", "-h", "127.0.0.1", "-p", port, "-k", folder]
    ready = [str(found[-1] / "pg_isready"), "-h", "127.0.0.1", "-p", str(port)]
    with started(*line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder) as server:
        wait_for("PostgreSQL", lambda: not subprocess.run(ready, capture_output=True).returncode, server)
        yield f"postgresql://fedhalt@127.0.0.1:{port}/postgres"
        gc.collect()
        server.send_signal(signal.SIGINT)
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)


LEFT_OPEN = pytest.mark.filterwarnings("ignore")  # Optuna leaves its connections to the garbage collector


@pytest.mark.parametrize("kind", ["sqlite", "journal", pytest.param("postgresql", marks=LEFT_OPEN)])
def test_a_study_holds_objectives_and_pruned_trials_and_no_growth(kind, tmp_path, request):
    url = request.getfixturevalue("postgres") if kind == "postgresql" else f"{kind}:///{tmp_path / 'study'}"
    space = {**SMALL, "method": ["fedavg", "fedprox"], "lam": {"low": 0.01, "high": 1.0, "log": True},
             "lr": [0.05, 2.0], "momentum": {"low": 0.5, "high": 0.9, "step": 0.2}}  # fmt: skip
    found = sweep(small(tmp_path, storage=url, trials=5, space=space))
    kept = study(url)
    assert len(kept.trials) == 5 and not any(trial.intermediate_values for trial in kept.trials)
    for ours, theirs in zip(found, kept.trials, strict=True):
        assert theirs.user_attrs["run"] == ours.spec.id and theirs.params["lr"] == ours.spec.lr
        assert ("lam" in theirs.params) == (ours.spec.method == "fedprox")
        assert theirs.state.name == ("PRUNED" if ours.state == "screened" else "COMPLETE")
        assert theirs.value == ours.value and theirs.user_attrs["rounds"] == ours.outcome.rounds
    assert {"PRUNED", "COMPLETE"} == set(states(kept)) and kept.best_value == best(found, False).value
    again = sweep(small(tmp_path, storage=url, trials=5, space=space))  # all five are there already: they are read
    assert [(trial.label, trial.outcome) for trial in again] == [(trial.label, trial.outcome) for trial in found]
    more = sweep(small(tmp_path, storage=url, trials=6, space=space))
    assert more[:5] == again and len(more) == len(study(url).trials) == 6


@pytest.mark.parametrize("sampler", ["qmc", pytest.param("gp", marks=pytest.mark.slow)])
def test_other_samplers(sampler, tmp_path):
    space = {**SMALL, "lr": {"low": 0.01, "high": 0.1, "log": True}}
    found = sweep(small(tmp_path, sampler=sampler, trials=3, rounds=2, space=space))
    assert len({trial.spec.lr for trial in found}) == 3 and (tmp_path / "runs" / "study.db").exists()


def test_two_processes_share_a_study_and_one_is_killed(tmp_path):
    runs = tmp_path / "runs"
    settings = {"rounds": 30, "sampler": "tpe", "trials": 3, "out": str(runs), "screen": False, "converge": False}
    space = {**SMALL, "lr": {"low": 0.01, "high": 0.1, "log": True}}
    line = [*FEDHALT, "sweep", write_toml(tmp_path / "sweep.toml", **settings, space=space)]
    with started(*line) as first:
        wait_for("three rounds", lambda: sum(rounds_in(runs)) >= 3, first)
        with started(*line) as second:
            wait_for("a second run", lambda: len(rounds_in(runs)) > 1 or first.poll() is not None, second)
            first.kill()
            _, err = second.communicate()
    assert second.returncode == 0, err
    kept = study(f"sqlite:///{tmp_path / 'runs' / 'study.db'}")
    ended = [trial for trial in kept.trials if trial.state.name == "COMPLETE"]
    assert len(ended) == 3 and set(states(kept)) == {"COMPLETE", "FAIL"}  # what the killed one had is closed
    (lost,) = [trial for trial in kept.trials if trial.state.name == "FAIL"]
    (again,) = [trial for trial in ended if trial.user_attrs.get("goes_on_from") == lost.number]
    assert again.params == lost.params and again.user_attrs["run"] == lost.user_attrs["run"]
    files = sorted((tmp_path / "runs").glob("*/trajectory.jsonl"))
    assert len(files) == 3 and all(len(Trajectory.load(file)) == 30 for file in files)  # it went on, not anew


def test_a_trial_that_was_never_told_goes_to_the_next_process_and_no_sooner(tmp_path):
    read = small(tmp_path, space={**SMALL, "lr": {"low": 0.01, "high": 0.1}})
    first, second = StudySampler(read), StudySampler(read)
    begun, other = first.ask(), second.ask()
    assert begun.spec != other.spec  # the first is alive: its trial is its own
    first.close()
    again = second.ask()
    assert again.spec == begun.spec and again.number != begun.number
    assert states(study(f"sqlite:///{tmp_path / 'runs' / 'study.db'}")) == ["FAIL", "RUNNING", "RUNNING"]
    second.close()


def test_a_trial_that_failed_by_a_full_disk_goes_to_the_next_process(tmp_path):
    read = small(tmp_path, space={**SMALL, "lr": {"low": 0.01, "high": 0.1}}, trials=1)
    first = StudySampler(read)
    begun = first.ask()
    begun.outcome = Outcome.from_json(Outcome("failed", "No space left on device", retry=True).to_json())
    first.tell(begun)
    assert first.ask() is None and not first.waits()
    first.close()
    second = StudySampler(read)
    assert second.ask().spec == begun.spec
    second.close()


def test_somebodys_own_study(tmp_path):
    def objective(trial):
        rate = trial.suggest_categorical("rate", [0.5, 2.0])
        x = np.ones(2)
        stopper = TrialStopper(trial, start=x)
        for _ in range(100):
            x = x - rate * x * np.array([1.0, 0.1])
            if stopper.update(x).stop:
                break
        return float(x @ x)

    own = optuna.create_study(storage=f"sqlite:///{tmp_path / 'own.db'}")
    for rate in (0.5, 2.0):
        own.enqueue_trial({"rate": rate})
    own.optimize(objective, n_trials=2)
    assert states(own) == ["COMPLETE", "PRUNED"] and not any(trial.intermediate_values for trial in own.trials)
    done, pruned = own.trials
    assert done.user_attrs["reason"] == "saturated" and pruned.user_attrs == {"rounds": 18, "reason": "screened"}


def test_runs_of_the_simulator_in_somebodys_own_study(tmp_path):
    def objective(trial):
        spec = RunSpec(**SMALL, lr=trial.suggest_categorical("lr", [0.05, 2.0]))
        return run_trial(trial, spec, tmp_path, rounds=6, screen=Wandering(**SCREEN), converge=GrowthRate(1e-6))

    own = optuna.create_study()
    for rate in (0.05, 2.0):
        own.enqueue_trial({"lr": rate})
    own.optimize(objective, n_trials=2)
    assert states(own) == ["COMPLETE", "PRUNED"]
    rows = Trajectory.load(tmp_path / own.trials[0].user_attrs["run"] / "trajectory.jsonl").rows
    assert own.trials[0].value == rows[-1]["val_loss"] and len(rows) == 6


def test_a_model_that_moves_ever_faster_is_pruned_and_not_complete(tmp_path):
    def own_loop(trial):
        x, rate = np.ones(2), trial.suggest_categorical("rate", [0.5, 3.0])
        stopper = TrialStopper(trial, start=x)
        for _ in range(100):
            x = x - rate * x * np.array([1.0, 0.1])
            if stopper.update(x).stop:
                break
        return float(x @ x)

    def simulated(trial):  # weight decay times rate is above 2: every two steps, the weights grow by a fifth
        decay = trial.suggest_categorical("decay", [0.0, 2100.0])
        spec = RunSpec(**{**SMALL, "epochs": 2}, lr=0.001, lr_decay=1.0, momentum=0.0, weight_decay=decay)
        return run_trial(trial, spec, tmp_path, rounds=25, converge=GrowthRate(1e-9))

    for objective, name, values in ((own_loop, "rate", (0.5, 3.0)), (simulated, "decay", (0.0, 2100.0))):
        own = optuna.create_study()
        for value in values:
            own.enqueue_trial({name: value})
        own.optimize(objective, n_trials=2)
        assert states(own) == ["COMPLETE", "PRUNED"] and own.trials[1].user_attrs["reason"] == "diverging"


def test_a_model_that_only_speeds_up_is_not_pruned():
    """As FedDyn's does, which adds up past updates: its distance grew like r^1.7 in the best network trained here."""

    def objective(trial):
        power = trial.suggest_float("power", 1.0, 4.0)
        stopper = TrialStopper(trial, start=np.zeros(2))
        for r in range(1, 101):
            if stopper.observe(float(r**power), update_norm=float(r**power - (r - 1) ** power)).stop:
                break
        return power

    study = optuna.create_study()
    for power in (1.7, 2.0, 3.0):
        study.enqueue_trial({"power": power})
    study.optimize(objective, n_trials=3)
    assert states(study) == ["COMPLETE", "COMPLETE", "PRUNED"]


@pytest.mark.parametrize("make, words", [
    (lambda: open_storage("study.db"), ["sqlite:///study.db", "'study.db'"]),
    (lambda: open_storage("sqlite:////no/such/folder/s.db"), ["not there", "/no/such/folder"]),
    (lambda: open_storage("journal:////no/such/folder/s.log"), ["not there"]),
    (lambda: open_storage("redis://localhost"), ["redis", "journal"]),
    (lambda: TrialStopper(3), ["Optuna trial", "3"]),
    (lambda: run_trial(optuna.trial.FixedTrial({}), RunSpec(), objective="growth"), ["growth", "val_loss"]),
    (lambda: plan.plan({"space": {"lr": [1]}, "sampler": "tpe"}), ["trials"]),
])  # fmt: skip
def test_mistakes_get_a_sentence(make, words):
    with pytest.raises(FedhaltError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_database_that_does_not_answer_is_named_without_its_password():
    with pytest.raises(FedhaltError) as error:
        open_storage("postgresql://me:secret@127.0.0.1:9/base")
    assert "secret" not in str(error.value) and "postgresql://" in str(error.value)
    assert "psycopg" in str(error.value) or "cannot be used" in str(error.value)


def test_a_study_of_another_space_or_direction_is_refused(tmp_path):
    sweep(small(tmp_path, trials=1, rounds=1))
    with pytest.raises(FedhaltError, match="another space"):
        sweep(small(tmp_path, trials=2, rounds=1, space={**SMALL, "lr": [0.5, 0.6, 0.7]}))
    with pytest.raises(FedhaltError, match="name another study"):
        sweep(small(tmp_path, trials=2, rounds=1, objective="val_accuracy"))


def test_the_dashboard_opens_the_study(tmp_path):
    dashboard = shutil.which("optuna-dashboard", path=os.path.dirname(sys.executable))
    if dashboard is None:
        pytest.skip("optuna-dashboard is not installed")
    sweep(small(tmp_path, trials=2, rounds=1))
    port = free_port()
    line = [dashboard, "--host", "127.0.0.1", "--port", port, f"sqlite:///{tmp_path / 'runs' / 'study.db'}"]

    def page():
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies", timeout=60) as answer:
            return answer.read().decode()

    with started(*line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert '"fedhalt"' in wait_for("the dashboard", page, process, every=0.1)
