"""A real deployment: SuperLink and SuperNodes on 127.0.0.1, killed, restarted, with TLS and authentication.

make test-deploy        about five minutes
"""

import itertools
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from helpers.commands import wait_for
from helpers.deployment import SELDOM, Deployment
from helpers.places import DATA, ROOT

from fedhalt import GrowthRate, Trajectory, stop_round
from fedhalt.measure.distance import squared_distance
from fedhalt.simulation import engine
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.spec import RunSpec

pytestmark = [pytest.mark.deploy, pytest.mark.skipif(sys.platform != "linux", reason="process groups")]

APP = ROOT / "examples" / "flower"
NODES = 3
TASK = {"data": "digits", "clients": NODES, "skew": "iid", "c": 1.0, "lr": 0.05, "method": "scaffold", "seed": 0}
RULE = {"threshold": 1.2, "patience": 2}


def settings(tmp_path, **changes):
    fixed = {**TASK, **RULE, "num_server_rounds": 12, "min_nodes": NODES, "evaluate": False}
    return {**fixed, "trajectory": str(tmp_path / "t.jsonl"), **changes}


def rounds_recorded(path):
    return len(Trajectory.load(path)) if path.exists() else 0


def our_distances(rounds):
    """The same federation on our own engine."""
    task = Federation(RunSpec(**TASK, cohort=NODES, epochs=1, batch=32))
    run = itertools.islice(engine.rounds(task.method(), task), rounds)
    start = task.theta0()
    return [squared_distance(done.state["x"], start) ** 0.5 for done in run]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployment")
    with Deployment(folder) as made:
        made.superlink()
        for number in range(NODES):
            made.supernode(f"node{number}", node_config(number, folder))
        wait_for("three SuperNodes", lambda: made.online() == NODES, every=SELDOM)
        yield made


def node_config(number, folder):
    return f'partition-id={number} num-partitions={NODES} memory="{folder}/memory"'


@pytest.fixture(scope="module")
def whole(deployment, tmp_path_factory):
    """A run in peace: its number and its record."""
    folder = tmp_path_factory.mktemp("whole")
    run = deployment.run(APP, **settings(folder))
    assert deployment.finished(run) == "finished:completed"
    return run, folder / "t.jsonl"


def test_it_stops_early_where_our_engine_stops(deployment, whole):
    run, path = whole
    expected, record = our_distances(12), Trajectory.load(path)
    stop = stop_round(GrowthRate(**RULE), expected)
    assert 3 <= stop < 12 and len(record) == stop
    np.testing.assert_allclose(record.column("distance"), expected[:stop], rtol=1e-4)
    assert f"stopped after round {stop} (growth below threshold; model" in deployment.server_log(run)


def test_the_superlink_is_killed_and_the_run_goes_on(deployment, whole, tmp_path):
    cut = settings(tmp_path, state=str(tmp_path / "state"))
    deployment.run(APP, **cut)
    wait_for("a round", lambda: rounds_recorded(tmp_path / "t.jsonl"), every=0.1)
    for name in list(deployment.processes):
        deployment.kill(name)
    done = rounds_recorded(tmp_path / "t.jsonl")
    assert done < rounds_recorded(whole[1])

    deployment.superlink()
    for number in range(NODES):
        deployment.supernode(f"node{number}", node_config(number, deployment.folder))
    wait_for("three SuperNodes", lambda: deployment.online() == NODES, every=SELDOM)
    again = deployment.run(APP, **cut)
    assert deployment.finished(again) == "finished:completed"
    assert (tmp_path / "t.jsonl").read_bytes() == whole[1].read_bytes()
    log = deployment.server_log(again)
    assert "resuming with round" in log
    assert "came without what they remembered" not in log


def test_a_supernode_is_killed_and_the_run_completes(deployment, tmp_path):
    """Last of the three: it leaves two nodes behind."""
    never = {"threshold": 1e-9, "num_server_rounds": 4, "min_nodes": 2}
    run = deployment.run(APP, **settings(tmp_path, **never))
    wait_for("round 1", lambda: rounds_recorded(tmp_path / "t.jsonl") >= 1)
    deployment.kill("node2")
    assert deployment.finished(run) == "finished:completed"
    assert rounds_recorded(tmp_path / "t.jsonl") == 4


def test_tls_and_authentication(tmp_path):
    """Two nodes whose keys are registered train; a third, with a key of its own, is refused."""
    secure = certificates(tmp_path / "secure")
    with Deployment(tmp_path / "tls", secure) as made:
        made.superlink()
        for number in range(2):
            registered = made.flwr("supernode", "register", secure / f"node{number}.pub", "loop")
            assert registered.get("success"), registered
        for number in range(3):
            made.supernode(f"node{number}", f"partition-id={number} num-partitions={NODES}", secure / f"node{number}")
        wait_for("two SuperNodes", lambda: made.online() == 2, every=SELDOM)
        wait_for("the refusal", lambda: "Failed to activate SuperNode" in made.log("node2"))
        run = made.run(APP, **settings(tmp_path, min_nodes=2, num_server_rounds=2, threshold=1e-9))
        assert made.finished(run) == "finished:completed"
        assert rounds_recorded(tmp_path / "t.jsonl") == 2
        assert made.online() == 2 and "train message" not in made.log("node2")
        assert "train message" in made.log("node0") and "train message" in made.log("node1")


@pytest.mark.parametrize("app, data", [("flower", "digits"), ("flower", "blood"), ("flower-one-line", "digits")])
def test_the_example_apps_in_simulation(app, data, tmp_path):
    """`flwr run … sim`, as their READMEs say; MedMNIST if its files are here."""
    if data == "blood" and not (DATA / "bloodmnist.npz").exists():
        pytest.skip(f"no MedMNIST files in {DATA}: set FEDHALT_DATA")
    config = {"data": data, "data_root": str(DATA.absolute()), "clients": 3, "num_server_rounds": 2}
    with Deployment(tmp_path) as made:
        run = made.run(APP.parent / app, "sim", **config)
        assert made.finished(run, where="sim") == "finished:completed"
        log = made.server_log(run, "sim")
    assert "fedhalt: round 2, distance" in log


def certificates(folder):
    """A CA, a server certificate for 127.0.0.1 and three node keys."""
    folder.mkdir(parents=True)

    def shell(*line, **options):
        subprocess.run(list(map(str, line)), check=True, capture_output=True, cwd=folder, **options)

    subject = ["-subj", "/O=fedhalt test"]
    shell(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        *subject,
        "-keyout",
        "ca.key",
        "-out",
        "ca.crt",
    )
    shell("openssl", "req", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", "server.key", "-out", "server.csr")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    sign = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "san"]
    shell("openssl", "x509", "-req", "-in", "server.csr", *sign, "-out", "server.crt")
    for number in range(3):
        shell("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", f"node{number}")
    return folder
