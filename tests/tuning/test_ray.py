"""Ray: trials on a cluster, one of whose workers is killed, and a Stopper for people's own Tuner."""

import json
import os
import signal
import subprocess
import warnings

import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("torch")
pytest.importorskip("sklearn")

from helpers.commands import FEDHALT, started, wait_for
from helpers.records import rounds_in, rows_of
from helpers.specs import SMALL, write_toml

from fedhalt import FedhaltError, GrowthRate, TwoStages, Wandering, stop_round
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec
from fedhalt.tuning import plans as plan
from fedhalt.tuning.sweeps import sweep

os.environ["RAY_worker_niceness"] = "0"  # its default makes workers wait for everything else on a busy machine
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of processes and accelerators


def small(tmp_path, **settings):
    table = {"space": {**SMALL, "lr": [0.05, 0.1]}, "rounds": 15, "out": str(tmp_path / "runs"), "executor": "ray",
             "parallel": 2, "screen": False, "converge": False}  # fmt: skip
    return plan.plan({**table, **settings})


def tasks():
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in listed if "ray::_run_job" in line]


def test_an_address_where_no_cluster_is(tmp_path):
    with pytest.raises(FedhaltError, match=r"no Ray cluster answers at '127.0.0.1:1'"):
        sweep(small(tmp_path, address="127.0.0.1:1"))


@pytest.fixture(scope="module")
def cluster():
    """A local cluster that knows nothing of the sweep: its address."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def test_a_worker_of_a_cluster_is_killed_and_its_trial_goes_on(cluster, tmp_path):
    settings = {"rounds": 15, "out": str(tmp_path / "runs"), "screen": False, "converge": False, "parallel": 2}
    file = write_toml(tmp_path / "sweep.toml", **settings, space={**SMALL, "lr": [0.05, 0.1]})
    with started(*FEDHALT, "sweep", file, "--executor", "ray", "--address", cluster, "--json") as process:
        wait_for("two rounds", lambda: sum(rounds_in(tmp_path / "runs")) >= 2, process)
        os.kill(wait_for("a task of Ray's", tasks, process)[0], signal.SIGKILL)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert [trial["state"] for trial in json.loads(out)["trials"]] == ["complete"] * 2
    for lr in (0.05, 0.1):
        spec = RunSpec(**SMALL, lr=lr)
        run(spec, tmp_path / "alone", rounds=15, stop="never", workers=1)
        ours, alone = (rows_of(tmp_path / place / spec.id / "trajectory.jsonl") for place in ("runs", "alone"))
        assert ours == alone and len(ours) == 15


def results(distances, updates):
    return [{"distance": d, "update_norm": u, "training_iteration": r, "pid": 1}
            for r, (d, u) in enumerate(zip(distances, updates, strict=True), start=1)]  # fmt: skip


def test_the_stopper_judges_each_trial_by_itself_and_takes_restored_ones_back():
    from fedhalt.integrations.ray import DistanceStopper

    stopper = DistanceStopper(Wandering(0.5, 3), GrowthRate(0.01, 3))
    bad, good = results([1.0] * 20, [1.0] * 20), results([float(r) for r in range(1, 21)], [1.0] * 20)
    stops = {name: [stopper(name, row) for row in rows] for name, rows in (("bad", bad), ("good", good))}
    rule = TwoStages(Wandering(0.5, 3), GrowthRate(0.01, 3))
    assert stops["bad"].index(True) + 1 == stop_round(rule, [{k: row[k] for k in rule.reads} for row in bad])
    assert not any(stops["good"]) and not stopper.stop_all() and stopper.ended.keys() == {"bad"}
    assert (stopper.ended["bad"].exponent, stopper.ended["bad"].motion) == (0.0, "going nowhere")
    assert [stopper("good", row) for row in good[10:]] == [False] * 10  # restored from iteration 10
    with pytest.raises(FedhaltError, match=r"'update_norm', which the trial does not report; reported: distance"):
        stopper("other", {"distance": 1.0, "training_iteration": 1, "pid": 7})


def test_a_real_tuner(cluster, tmp_path):
    from ray import tune

    from fedhalt.integrations.ray import DistanceStopper

    def train(config):
        from ray import tune

        x, last = 1.0, 1.0
        for _ in range(60):
            x, last = x - config["rate"] * x, x
            tune.report({"distance": abs(x - 1.0), "update_norm": abs(x - last), "loss": x * x})

    warnings.simplefilter("ignore")
    tuner = tune.Tuner(
        train, param_space={"rate": tune.grid_search([0.01, 2.0])},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(stop=DistanceStopper(Wandering(), GrowthRate(1e-9, 50)), storage_path=str(tmp_path)),
    )  # fmt: skip
    results = tuner.fit()
    found = [results[k] for k in range(len(results))]
    ended = {(result.config or {})["rate"]: (result.metrics or {})["training_iteration"] for result in found}
    assert ended[0.01] == 60 and ended[2.0] < 20
