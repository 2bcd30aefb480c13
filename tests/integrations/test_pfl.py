"""Real simulated federations of pfl: stop where the models of a full run say, and go on from pfl's checkpoints."""

import runpy

import pytest

pytest.importorskip("pfl", reason="pfl has an environment of its own: scripts/test-adapters pfl")

import numpy as np
import torch
from helpers.places import ROOT
from helpers.training import AVERAGE, RULE, copied, judged, same
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.restore_training import RestoreTrainingCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

from fedhalt import FedhaltError, Trajectory
from fedhalt.integrations.pfl import EarlyStopping

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]

ROUNDS, USERS = 30, 6


class Killed(Exception):
    pass


class Seen(TrainingProcessCallback):
    """Keeps every central model and all metrics, and ends the process, as far as pfl sees."""

    def __init__(self, killed_after=None):
        self.models, self.metrics, self.killed_after = [], [], killed_after

    def on_train_begin(self, *, model):
        self.models.append(numbers(model))
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.models.append(numbers(model))
        self.metrics.append({str(name): value for name, value in aggregate_metrics})
        if central_iteration + 1 == self.killed_after:
            raise Killed
        return False, Metrics()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(6, 3)

    def loss(self, x, y, eval=False):
        return torch.nn.functional.cross_entropy(self.layer(x), y.long())

    @torch.no_grad()
    def metrics(self, x, y):
        return {"loss": Weighted(self.loss(x, y).item() * len(y), len(y))}


def user(index):
    rng = np.random.default_rng(int(index))
    x = rng.normal(size=(20, 6)).astype("f4") + rng.normal(size=6).astype("f4") / 2
    return Dataset([x, ((x[:, 0] > 0) + (x[:, 1] > 0.5)).astype("f4")])


def federation():
    net = Net()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    return model, FederatedAveraging()


def run(model, algorithm, *callbacks):
    """All users take part in every round, so that nothing depends on the state of a random generator."""
    users = FederatedDataset(user, get_user_sampler("minimize_reuse", list(range(USERS))))
    algorithm.run(
        NNAlgorithmParams(ROUNDS, evaluation_frequency=10, train_cohort_size=USERS, val_cohort_size=0),
        SimulatedBackend(training_data=users, val_data=None),
        model,
        NNTrainHyperParams(local_learning_rate=0.2, local_num_epochs=1, local_batch_size=None),
        callbacks=[*callbacks],
        send_metrics_to_platform=False,
    )
    return model


def numbers(model):
    return copied(model.get_parameters().items())


@pytest.fixture(scope="module")
def full():
    seen = Seen()
    run(*federation(), seen)
    return seen.models


def test_it_stops_where_the_models_of_a_full_run_say_with_that_model_average_and_metrics(full, tmp_path):
    stop, average = judged(full)
    stopping, seen = EarlyStopping(**RULE, average=AVERAGE, trajectory=tmp_path / "run.jsonl"), Seen()
    model = run(*federation(), stopping, seen)
    assert stopping.status == stop and len(seen.metrics) == stop.round < ROUNDS
    assert same(numbers(model), full[stop.round])
    assert same(copied(stopping.averaged_parameters().items()), average)
    last = seen.metrics[-1]
    assert last["fedhalt/growth"] == stop.signal and last["fedhalt/exponent"] == stop.exponent
    assert last["fedhalt/distance"] == stop.value
    if stop.round >= 20:
        assert last["fedhalt/drift"] > 0
    record = Trajectory.load(tmp_path / "run.jsonl")
    assert len(record) == stop.round and any("loss" in column for column in record.columns)
    model.set_parameters(stopping.averaged_parameters())
    assert same(numbers(model), average)


def test_the_drift_is_a_metric_once_two_windows_are_complete(full):
    stopping, seen = EarlyStopping(1e-9, 10, average=AVERAGE), Seen()
    run(*federation(), stopping, seen)
    assert "fedhalt/drift" not in seen.metrics[18] and seen.metrics[19]["fedhalt/drift"] > 0


def test_a_killed_run_goes_on_from_pfls_checkpoint(full, tmp_path):
    stop, average = judged(full)

    def start(killed_after=None, **options):
        model, algorithm = federation()
        stopping = EarlyStopping(**RULE, average=AVERAGE, trajectory=tmp_path / "run.jsonl", **options)
        restore = RestoreTrainingCallback([stopping, model, algorithm], str(tmp_path / "checkpoint"))
        return stopping, run(model, algorithm, stopping, restore, Seen(killed_after))

    with pytest.raises(Killed):
        start(killed_after=4)
    stopping, model = start(load_average=True)
    assert stopping.status == stop and same(numbers(model), average)
    assert list(Trajectory.load(tmp_path / "run.jsonl").column("round")) == list(range(1, stop.round + 1))


def test_one_callback_serves_several_runs(full):
    stopping = EarlyStopping(**RULE)
    first = run(*federation(), stopping)
    assert same(numbers(first), numbers(run(*federation(), stopping)))


def test_mistakes_are_said_where_they_are_made(tmp_path):
    with pytest.raises(FedhaltError, match="state='folder' is not needed"):
        EarlyStopping(state="folder")
    with pytest.raises(FedhaltError, match="str has no parameters with a distance"):
        EarlyStopping().on_train_begin(model="trees")
    model, algorithm = federation()
    stopping = EarlyStopping(**RULE)
    restore = RestoreTrainingCallback([model, algorithm, stopping], str(tmp_path / "checkpoint"))
    with pytest.raises(FedhaltError, match="list EarlyStopping first"):
        run(model, algorithm, restore, stopping)


def test_the_example_stops(capsys):
    runpy.run_path(str(ROOT / "examples/pfl/federation.py"))
    assert "stopped after round" in capsys.readouterr().out
