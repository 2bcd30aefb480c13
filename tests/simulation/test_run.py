"""The simulator: exact whatever the workers, the evaluation or the interruption; every method trains the digits."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from helpers.commands import FEDHALT, read_until, started, wait_for
from helpers.images import write_npz
from helpers.records import rounds_in, rows_of
from helpers.specs import SMALL, as_options

from fedhalt import FedhaltError, Trajectory
from fedhalt.methods import METHODS
from fedhalt.rules import named_rules
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec, from_json, grid

SPEC = {**SMALL, "lr": 0.05}
OPTIONS = as_options(SPEC)


def record(folder):
    return rows_of(Path(folder) / "trajectory.jsonl")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_the_digits(method, tmp_path):
    settings = {"server_lr": 0.1} if method == "fedadam" else {}
    spec = RunSpec(method=method, hyperparameters=tuple(settings.items()), **SPEC)
    summary = run(spec, tmp_path, rounds=6, stop="never", workers=1)
    rows = record(summary.run)
    assert summary.rounds == 6 and summary.reason == "budget"
    assert rows[-1]["val_loss"] < rows[0]["val_loss"] + 0.5 and all(row["distance"] > 0 for row in rows)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedsmoo", "fedwmsam"])
def test_neither_workers_nor_evaluation_nor_interruption_change_anything(method, tmp_path):
    spec = RunSpec(method=method, **SPEC)
    whole = record(run(spec, tmp_path / "whole", rounds=6, workers=1).run)
    assert record(run(spec, tmp_path / "two", rounds=6, workers=2).run) == whole
    run(spec, tmp_path / "parts", rounds=2, workers=1)
    run(spec, tmp_path / "parts", rounds=3, workers=2)
    assert record(run(spec, tmp_path / "parts", rounds=6, workers=1).run) == whole
    blind = record(run(RunSpec(method=method, evaluate_every=0, **SPEC), tmp_path / "blind", rounds=6, workers=1).run)
    assert [row["distance"] for row in blind] == [row["distance"] for row in whole]


@pytest.mark.parametrize("method, moments", [
    ("fedavg", 4), ("fedsmoo", 4), pytest.param("scaffold", 15, marks=pytest.mark.slow),
])  # fmt: skip
def test_killed_at_any_moment_it_goes_on_to_the_same_numbers(method, moments, tmp_path, said):
    options = ["--method", method, *OPTIONS, "--rounds", 10 * moments, "--stop", "never", "--workers", 2, "--json"]
    whole = json.loads(said("run", "--out", tmp_path / "whole", *options))
    draw = random.Random(method)
    runs, deaths = tmp_path / "killed", 0
    for _ in range(moments):
        before = sum(rounds_in(runs))
        with started(*FEDHALT, "run", "--out", runs, *options) as process:
            # it has begun its rounds: let it go on for a moment, then kill
            wait_for("a round", lambda: sum(rounds_in(runs)) > before or process.poll() is not None)  # noqa: B023
            time.sleep(draw.uniform(0, 0.6))
            deaths += process.poll() is None
    summary = json.loads(said("run", "--out", runs, *options))
    assert deaths >= 2 and record(summary["run"]) == record(whole["run"])


def test_interrupted_by_hand_it_ends_after_the_round_and_says_how_to_go_on(tmp_path):
    with started(*FEDHALT, "run", "--out", tmp_path, *OPTIONS, "--rounds", 400, "--stop", "never") as process:
        read_until(process, "round 3/")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130 and "stopping after this round" in err and "run the same command to resume" in out
    (file,) = tmp_path.glob("*/trajectory.jsonl")
    assert 3 <= len(Trajectory.load(file)) < 400


def test_the_command_line_and_its_summary(tmp_path, said):
    line = ["run", "--out", tmp_path, *OPTIONS, "--method", "fedprox", "--lam", 0.01, "--rounds", 80, "--threshold",
            0.2, "--patience", 3, "--rule", "growth,val-loss", "--json"]  # fmt: skip
    summary = json.loads(said(*line))
    assert {"run", "rounds", "stop_round", "reason", "distance", "metrics", "rules"} <= summary.keys()
    growth, loss = summary["rules"]
    assert growth["rule"] == "growth" and growth["threshold"] == 0.2 and growth["patience"] == 3
    assert summary["stop_round"] == max(growth["stop_round"], loss["stop_round"]) == summary["rounds"]
    from safetensors.torch import load_file

    assert sum(v.numel() for v in load_file(growth["model"]).values()) == 61050
    row = record(summary["run"])[0]
    recorded = "distance update_norm parameter_norm alignment growth lr cohort steps clip_fraction bytes_up bytes_down"
    assert {*recorded.split(), "val_loss", "val_accuracy", "val_balanced_accuracy", "test_f1"} <= row.keys()
    assert json.loads(said(*line)) == summary


def test_first_all_and_never(tmp_path):
    watch = named_rules(["growth", "budget"], {"threshold": [0.5], "patience": [2], "rounds": [9]})
    ends = {stop: run(RunSpec(**SPEC), tmp_path / stop, rounds=12, watch=watch, stop=stop).rounds
            for stop in ("first", "all", "never")}  # fmt: skip
    assert ends["first"] < ends["all"] == 9 and ends["never"] == 12


def test_options_in_a_file(tmp_path, said):
    file = tmp_path / "run.toml"
    file.write_text('method = "fedprox"\nlam = 0.5\nclients = 12\ncohort = 4\nrounds = 2\nlr-decay = 1.0\n')
    summary = json.loads(said("run", "--out", tmp_path, "--config", file, "--lam", 0.25, "--epochs", 1, "--json"))
    spec = json.loads(Path(summary["run"], "spec.json").read_text())
    assert (spec["hyperparameters"], spec["cohort"], spec["lr_decay"]) == ({"lam": 0.25, "server_lr": 1.0}, 4, 1.0)
    assert from_json(spec).id in summary["run"]


def test_a_diverged_run_is_kept_and_named(tmp_path):
    spec = RunSpec(**{**SPEC, "lr": 1e30}, clip=None, momentum=0.0)
    summary = run(spec, tmp_path, rounds=50)
    assert summary.reason == "diverged" and summary.stop_round == summary.rounds < 50
    assert len(record(summary.run)) == summary.rounds


@pytest.mark.parametrize("args, words", [
    (["--data", "bloood"], ["bloood", "blood"]),
    (["--data", "blood", "--data-root", "/nonexistent/x"], ["bloodmnist.npz", "--data-root"]),
    (["--data", "broken.npz"], ["broken.npz"]),
    (["--method", "fedavgg"], ["fedavgg", "fedavg"]),
    (["--method", "fedavg", "--lam", "1"], ["lam", "server_lr"]),
    (["--c", "0"], ["c must", "0"]),
    (["--c", "abc"], ["--c must be a finite number", "'abc'"]),
    (["--skew", "pathological", "--c", "1.5"], ["1.5"]),
    (["--skew", "natural"], ["--key"]),
    (["--clients", "5000"], ["5000 clients", "1078 samples"]),
    (["--clients", "5", "--cohort", "9"], ["cohort of 9", "5 clients"]),
    (["--cohort", "2.5"], ["cohort", "2.5"]),
    (["--lr", "-1"], ["lr", "-1"]),
    (["--model", "convnextv3_nano"], ["convnextv3_nano", "convnextv2_nano"]),
    (["--model", "resnet18"], ["bn1", "--buffers"]),
    (["--model", "probe:resnet18"], ["--pretrained"]),
    (["--model", "resnet18", "--buffers", "average", "--pretrained"], ["resnet18", "--weights"]),
    (["--rule", "val-loss", "--evaluate-every", "0"], ["val-loss", "evaluate_every"]),
    (["--method", "scaffold", "--optimizer", "adam"], ["scaffold", "adam"]),
    (["--config", "missing.toml"], ["missing.toml"]),
    (["--config", "bad.toml"], ["bad.toml"]),
    (["--config", "typo.toml"], ["clinets", "clients"]),
    (["--stop", "some"], ["some", "first"]),
    (["--workers", "0"], ["workers", "0"]),
    (["--device", "tpu9"], ["tpu9", "cpu"]),
    (["--skew", "pathological-authors", "--c", "11"], ["11", "10 classes"]),
    (["--resize", "2"], ["resize", "2"]),
    (["--config", "types.toml"], ["out must be text", "3"]),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:resnet18 needs at least 32 pixels")
def test_mistakes_end_in_one_sentence(tmp_path, monkeypatch, args, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("method = ")
    (tmp_path / "types.toml").write_text("out = 3")
    (tmp_path / "typo.toml").write_text("clinets = 3")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    args = args if "types.toml" not in args else [*args[:1], tmp_path / "types.toml"]
    error = said("run", *args, code=2)
    assert all(word in error for word in words), error
    assert not (tmp_path / "runs").exists()  # a mistake leaves nothing behind


def test_a_folder_of_another_spec_or_in_use_is_refused(tmp_path):
    from fedhalt.simulation.store import RunFolder

    spec = RunSpec(**SPEC)
    held = RunFolder(tmp_path / spec.id, spec)
    with pytest.raises(FedhaltError, match="in use by another process"):
        run(spec, tmp_path, rounds=1)
    held.close()
    (tmp_path / spec.id / "spec.json").write_text("{}\n")
    with pytest.raises(FedhaltError, match="another specification"):
        run(spec, tmp_path, rounds=1)


def test_a_run_leaves_threads_and_small_numbers_as_they_were(tmp_path):
    before = torch.get_num_threads()
    run(RunSpec(**SPEC), tmp_path, rounds=1, workers=2)
    assert torch.get_num_threads() == before and float(torch.tensor(1e-40) * 1) > 0


def test_grid_and_ids():
    specs = grid(method=["fedavg", "fedsam"], seed=range(3), lr=0.1)
    assert len({spec.id for spec in specs}) == 6 and all(spec.lr == 0.1 for spec in specs)
    assert RunSpec().id == RunSpec(lr=0.001).id != RunSpec(lr=0.01).id


def test_client_memory_beyond_the_limit_is_read_from_its_files(tmp_path, monkeypatch):
    from fedhalt.simulation.memory import ClientMemory

    spec = RunSpec(method="scaffold", **SPEC)
    whole = record(run(spec, tmp_path / "ram", rounds=5).run)
    monkeypatch.setattr(ClientMemory.__init__, "__defaults__", (0,))
    assert record(run(spec, tmp_path / "disk", rounds=5).run) == whole
    versions = [file.stem.split("-") for file in (tmp_path / "disk").glob("*/memory/*")]
    assert len(versions) == len({client for client, _ in versions}) > 4


def test_federated_evaluation(tmp_path):
    row = record(run(RunSpec(held_out=0.3, **SPEC), tmp_path, rounds=2).run)[-1]
    assert 0 <= row["client_accuracy"] <= 1 and row["client_loss"] > 0


@pytest.mark.parametrize("skew, c", [("iid", 1), ("pathological", 2), ("quantity", 0.1), ("dirichlet", 0.01),
                                     ("dirichlet-authors", 0.1), ("pathological-authors", 2)])  # fmt: skip
def test_every_skew_trains(skew, c, tmp_path):
    spec = RunSpec(**{**SPEC, "skew": skew, "c": c}, weighting="samples")
    assert run(spec, tmp_path, rounds=2).rounds == 2


def test_clients_without_data_are_never_sampled(tmp_path):
    spec = RunSpec(clients=60, cohort=10, c=0.01, on_empty="skip", epochs=1, lr=0.05)
    for row in record(run(spec, tmp_path, rounds=3).run):
        assert min(row["steps"]) >= 1
    with pytest.raises(FedhaltError, match=r"cohort of 60, but only \d+ clients hold data"):
        run(RunSpec(clients=60, cohort=60, c=0.01, on_empty="skip"), tmp_path, rounds=1)


@pytest.mark.parametrize("method", METHODS)
def test_the_authors_arithmetic_runs_too(method, tmp_path):
    spec = RunSpec(method=method, compat="authors", **{**SPEC, "skew": "quantity", "c": 0.5})
    assert run(spec, tmp_path, rounds=2, workers=1).rounds == 2


def test_the_authors_defaults_are_theirs():
    """FedLESAM's mode and FedWMSAM's sign: a spec must not put the published defaults over them."""
    assert dict(RunSpec(method="fedlesam", compat="authors").hyperparameters)["mode"] == "last_update"
    assert dict(RunSpec(method="fedwmsam", compat="authors").hyperparameters)["sign"] == -1.0
    assert dict(RunSpec(method="fedwmsam").hyperparameters)["sign"] == 1.0


def test_a_full_disk_loses_nothing_and_says_so(tmp_path, said):
    options = [*OPTIONS, "--rounds", "5", "--stop", "never", "--json"]
    whole = json.loads(said("run", "--out", tmp_path / "whole", *options))
    line = [*FEDHALT, "run", "--out", str(tmp_path / "full"), *options]
    limited = ["bash", "-c", 'ulimit -f 97 && exec "$@"', "fedhalt", *line]  # 97 KiB a file
    full = subprocess.run(limited, capture_output=True, text=True)
    assert full.returncode == 2 and "File too large" in full.stderr and "Traceback" not in full.stderr
    assert record(json.loads(said("run", "--out", tmp_path / "full", *options))["run"]) == record(whole["run"])


def test_a_longer_budget_or_another_rule_continues_the_same_run(tmp_path):
    spec = RunSpec(**SPEC)
    before = record(run(spec, tmp_path, rounds=4).run)
    files = sorted(os.listdir(tmp_path))
    more = run(spec, tmp_path, rounds=7, watch=named_rules(["budget"], {"rounds": [6]}))
    assert sorted(os.listdir(tmp_path)) == files and more.rounds == 6 and record(more.run)[:4] == before
    assert more.rules[0].stop_round == 6 and more.rules[0].model


def test_going_on_after_a_stop_does_not_announce_it_again(tmp_path, said):
    line = ["run", "--out", tmp_path, *OPTIONS, "--threshold", 0.9, "--patience", 2, "--stop", "never"]
    line += ["--rule", "growth,budget"]
    first, again = said(*line, "--rounds", 6), said(*line, "--rounds", 8)
    assert first.count("growth stops at round") == 1 and again.count("growth stops at round") == 0
    assert "already holds 6 rounds" in again and "growth done" in again
    assert "budget stops at round 8: budget spent" in again


def test_a_record_that_went_on_is_judged_up_to_its_stop(tmp_path):
    spec, watch = RunSpec(**SPEC), named_rules(["growth", "growth"], {"threshold": [0.9], "patience": [2]})
    fresh = run(spec, tmp_path / "fresh", rounds=12, watch=watch)
    run(spec, tmp_path / "long", rounds=12, stop="never")
    later = run(spec, tmp_path / "long", rounds=12, watch=watch)
    same = ("rounds", "stop_round", "reason", "distance")
    assert len(watch) == 1 and [getattr(later, key) for key in same] == [getattr(fresh, key) for key in same]
    assert fresh.rounds < 12 and run(spec, tmp_path / "long", rounds=2).rounds == 2


def test_a_stop_that_was_recorded_has_its_model(tmp_path, monkeypatch):
    from fedhalt.simulation.store import RunFolder

    spec = RunSpec(**SPEC)
    watch = named_rules(["budget"], {"rounds": [3]})
    commit = RunFolder.commit

    def killed(self, done, row, measured):
        if done.round == 3:
            raise KeyboardInterrupt
        commit(self, done, row, measured)

    monkeypatch.setattr(RunFolder, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path, rounds=5, watch=watch)
    monkeypatch.undo()
    assert run(spec, tmp_path, rounds=5, watch=watch).rules[0].model


def test_a_run_does_not_go_on_with_other_data_or_without_its_state(tmp_path):
    data = write_npz(tmp_path / "x.npz", counts=(60, 5, 5), classes=3)
    spec = RunSpec(data=str(data), clients=4, cohort=2, epochs=1, skew="iid")
    run(spec, tmp_path / "runs", rounds=2)
    write_npz(data, counts=(80, 5, 5), classes=3)
    with pytest.raises(FedhaltError, match="other data"):
        run(spec, tmp_path / "runs", rounds=3)
    write_npz(data, counts=(60, 5, 5), classes=3)
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / ".state-9.safetensors.1.part").touch()
    next(folder.glob("state-*")).unlink()
    with pytest.raises(FedhaltError, match=r"records 2 rounds, but state-2\.safetensors is gone"):
        run(spec, tmp_path / "runs", rounds=3)
    assert run(spec, tmp_path / "runs", rounds=2).rounds == 2 and not list(folder.glob(".*.part"))


def test_equal_settings_have_one_id():
    assert RunSpec(skew="iid", c=3).id == RunSpec(skew="iid").id
    assert RunSpec(c=1).id == RunSpec(c=1.0).id
    assert RunSpec(method="fedprox").id == RunSpec(method="fedprox", hyperparameters=(("lam", 1e-3),)).id


def test_a_spent_budget_keeps_the_final_model_to_the_bit(tmp_path):
    spec = RunSpec(**SPEC)
    whole = run(spec, tmp_path / "whole", rounds=4, stop="never", workers=1)
    first = run(spec, tmp_path / "parts", rounds=2, stop="never", workers=1)
    assert first.model.endswith("models/final-round-2.safetensors") and first.budget == 2
    early = Path(first.model).read_bytes()
    then = run(spec, tmp_path / "parts", rounds=4, stop="never", workers=1)
    assert Path(then.model).read_bytes() == Path(whole.model).read_bytes() != early
    assert Path(first.model).read_bytes() == early and run(spec, tmp_path / "parts", rounds=2).model == first.model
    assert whole.model.endswith("final-round-4.safetensors") and then.accuracy == whole.accuracy is not None


def test_the_budget_is_recorded_and_the_latest_counts(tmp_path):
    spec = RunSpec(**SPEC)
    folder = Path(run(spec, tmp_path, rounds=2).run)
    run(spec, tmp_path, rounds=3)
    assert Trajectory.load(folder / "trajectory.jsonl").header["budget"] == 2
    assert json.loads((folder / "summary.json").read_text())["budget"] == 3 and folder.name == spec.id


def test_a_run_tells_its_story(tmp_path, said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    line = ["run", "--out", tmp_path, *OPTIONS, "--rounds", 12, "--threshold", 0.9, "--patience", 2]
    told = said(*line, "--rule", "growth,val-loss")
    first, last = told.index("12 clients (dirichlet skew, c = 0.5), 4 per round"), told.index("of the work saved")
    assert (
        first < told.index("round 1/12  accuracy") < last < told.index("files: ") < told.index("next:  fedhalt report")
    )
    lines = [line for line in told.splitlines() if not line.startswith(("files: ", "model: ", "next: "))]
    assert max(map(len, lines)) <= 80 and "val-loss  validation data" in told and "growth    no data" in told
    spent = said("run", "--out", tmp_path / "spent", *OPTIONS, "--rounds", 2)
    assert "trained 2 of 2 rounds, the whole budget, accuracy " in spent and "final-round-2.safetensors" in spent
