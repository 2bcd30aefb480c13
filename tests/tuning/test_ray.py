"""Ray: trials on a cluster, one of whose workers is killed, and a Stopper for people's own Tuner."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("torch")
pytest.importorskip("sklearn")

from fedhalt import FedhaltError, GrowthRate, Trajectory, TwoStages, Wandering, plan, stop_round  # noqa: E402
from fedhalt.run import run  # noqa: E402
from fedhalt.spec import RunSpec  # noqa: E402
from fedhalt.sweep import sweep  # noqa: E402

os.environ["RAY_worker_niceness"] = "0"  # its default makes workers wait for everything else on a busy machine
FEDHALT = [sys.executable, "-c", "from fedhalt.cli import main; main()"]
SMALL = {"data": "digits", "clients": 12, "cohort": 4, "epochs": 1, "c": 0.5}
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of processes and accelerators


def small(tmp_path, **settings):
    table = {"space": {**SMALL, "lr": [0.05, 0.1]}, "rounds": 15, "out": str(tmp_path / "runs"), "executor": "ray",
             "parallel": 2, "screen": False, "converge": False}  # fmt: skip
    return plan.plan({**table, **settings})


def rounds(out):
    return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in out.glob("*/trajectory.jsonl"))


def tasks():
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in listed if "ray::_perform" in line]


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
    text = f"""rounds = 15\nout = "{tmp_path / "runs"}"\nscreen = false\nconverge = false\nparallel = 2
    [space]\ndata = "digits"\nclients = 12\ncohort = 4\nepochs = 1\nc = 0.5\nlr = [0.05, 0.1]"""
    (tmp_path / "sweep.toml").write_text(text)
    line = [*FEDHALT, "sweep", str(tmp_path / "sweep.toml"), "--executor", "ray", "--address", cluster, "--json"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killed, end = [], time.monotonic() + 240
    while not killed and process.poll() is None and time.monotonic() < end:
        if rounds(tmp_path / "runs") >= 2 and tasks():
            killed.append(tasks()[0])
            os.kill(killed[0], signal.SIGKILL)
        time.sleep(0.01)
    out, err = process.communicate(timeout=240)
    assert killed and process.returncode == 0, err
    assert [trial["state"] for trial in json.loads(out)["trials"]] == ["complete"] * 2
    for lr in (0.05, 0.1):
        spec = RunSpec(**SMALL, lr=lr)
        run(spec, tmp_path / "alone", rounds=15, stop="never", workers=1)
        rows = [Trajectory.load(place / spec.id / "trajectory.jsonl").rows
                for place in (tmp_path / "runs", tmp_path / "alone")]  # fmt: skip
        without = [[{k: v for k, v in row.items() if k != "seconds"} for row in each] for each in rows]
        assert without[0] == without[1] and len(without[0]) == 15


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
    ended = {result.config["rate"]: result.metrics["training_iteration"] for result in tuner.fit()}
    assert ended[0.01] == 60 and ended[2.0] < 20
