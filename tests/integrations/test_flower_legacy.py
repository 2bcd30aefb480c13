"""EarlyStopping on Flower's legacy strategies, under Server.fit's successor DefaultWorkflow and under SecAgg+."""

import inspect
import logging
import random

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Context, RecordDict, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig
from flwr.server import strategy as flower
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from grid import InProcessGrid, pulled

import fedhalt
from fedhalt import FedhaltError, GrowthRate, Trajectory
from fedhalt.integrations.flower import EarlyStopping, attach

NODES, ROUNDS = 5, 30
START = [np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.zeros(3, np.float32)]


def initial():
    return ndarrays_to_parameters(START)


def seen_by(evaluations):
    def evaluate(r, parameters, config):
        evaluations[r] = [array.copy() for array in parameters]
        return 1 / (r + 1), {"accuracy": 0.5}

    return evaluate


def options(evaluations):
    return {
        "initial_parameters": initial(),
        "evaluate_fn": seen_by(evaluations),
        "min_fit_clients": NODES,
        "min_evaluate_clients": NODES,
        "min_available_clients": NODES,
    }


def dp(wrapper, *settings):
    return lambda o: getattr(flower, wrapper)(flower.FedAvg(**o), *settings)


STRATEGIES = {
    "FedAvg": lambda o: flower.FedAvg(**o),
    "FaultTolerantFedAvg": lambda o: flower.FaultTolerantFedAvg(**o),
    "FedProx": lambda o: flower.FedProx(proximal_mu=0.1, **o),
    "FedAdam": lambda o: flower.FedAdam(eta=0.05, **o),
    "FedYogi": lambda o: flower.FedYogi(eta=0.05, **o),
    "FedAdagrad": lambda o: flower.FedAdagrad(eta=0.05, **o),
    "FedOpt": lambda o: flower.FedOpt(**o),
    "FedAvgM": lambda o: flower.FedAvgM(server_momentum=0.5, **o),
    "FedMedian": lambda o: flower.FedMedian(**o),
    "FedTrimmedAvg": lambda o: flower.FedTrimmedAvg(**o),
    "Krum": lambda o: flower.Krum(**o),
    "Bulyan": lambda o: flower.Bulyan(to_keep=0, **o),
    "QFedAvg": lambda o: flower.QFedAvg(q_param=0.1, qffl_learning_rate=0.3, **o),
    "DifferentialPrivacyServerSideFixedClipping": dp("DifferentialPrivacyServerSideFixedClipping", 0.001, 1.0, NODES),
    "DifferentialPrivacyServerSideAdaptiveClipping": dp("DifferentialPrivacyServerSideAdaptiveClipping", 0.001, NODES),
}
ELSEWHERE = {
    "DifferentialPrivacyClientSideFixedClipping": "needs a mod at the client; tried with the Message API",
    "DifferentialPrivacyClientSideAdaptiveClipping": "needs a mod at the client; tried with the Message API",
    "DPFedAvgFixed": "deprecated by Flower for the wrappers above",
    "DPFedAvgAdaptive": "deprecated by Flower for the wrappers above",
    "FedAvgAndroid": "replies in another encoding of Android clients",
    "FedXgbBagging": "refused",
    "FedXgbCyclic": "refused",
    "FedXgbNnAvg": "refused",
}


class Client(NumPyClient):
    def __init__(self, number):
        self.number = number

    def fit(self, parameters, config):
        moved = pulled({str(i): value for i, value in enumerate(parameters)}, self.number)
        return list(moved.values()), 10, {"loss": 0.5}

    def evaluate(self, parameters, config):
        return float(sum(np.abs(value).sum() for value in parameters)), 10, {"accuracy": 0.25}


def client_app(*mods):
    return ClientApp(lambda context: Client(int(context.node_config["partition-id"])).to_client(), mods=list(mods))


class Grid(InProcessGrid):
    """As DefaultWorkflow wants it: nodes in a fixed order, so that sums can be compared."""

    def send_and_receive(self, messages, *, timeout=None):
        return super().send_and_receive(sorted(messages, key=lambda m: m.metadata.dst_node_id))


def run(strategy, rounds=ROUNDS, secure=False):
    random.seed(0)
    np.random.seed(0)
    grid = Grid(client_app(*([secaggplus_mod] if secure else [])), NODES)
    context = LegacyContext(
        context=Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={}),
        config=ServerConfig(num_rounds=rounds),
        strategy=strategy,
    )
    fit = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2) if secure else None
    DefaultWorkflow(fit_workflow=fit)(grid, context)
    return context, grid


def distances(evaluations):
    flat = [np.concatenate([a.ravel() for a in evaluations[r]]).astype(np.float64) for r in sorted(evaluations)]
    return [float(np.linalg.norm(now - flat[0])) for now in flat[1:]]


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.INFO)


def test_every_shipped_strategy_is_listed():
    shipped = {
        name for name, cls in vars(flower).items() if inspect.isclass(cls) and cls.__module__.startswith("flwr.server")
    }
    assert shipped - {"Strategy"} == {*STRATEGIES, *ELSEWHERE}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.filterwarnings("ignore")
def test_stops_where_the_rule_says_and_nothing_more_is_sent(name):
    whole, stopped = {}, {}
    run(STRATEGIES[name](options(whole)))
    expected = fedhalt.stop_round(GrowthRate(0.05, 3), distances(whole))
    assert expected is not None and 4 <= expected < ROUNDS
    strategy = EarlyStopping(STRATEGIES[name](options(stopped)), threshold=0.05, patience=3)
    context, grid = run(strategy)
    assert strategy.status.round == expected
    assert sorted(stopped) == list(range(expected + 1))
    for one, other in zip(whole[expected], stopped[expected], strict=True):
        np.testing.assert_array_equal(one, other)
    assert [r for r, _ in context.history.losses_distributed] == list(range(1, expected + 1))
    assert len(grid.sent) == 2 * NODES * expected
    final = next(iter(context.state.array_records.values()))
    for one, other in zip(whole[expected], final.to_numpy_ndarrays(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_under_secure_aggregation_it_stops_at_the_same_round():
    plain, hidden = {}, {}
    first = EarlyStopping(flower.FedAvg(**options(plain)), threshold=0.05, patience=3)
    run(first)
    second = EarlyStopping(flower.FedAvg(**options(hidden)), threshold=0.05, patience=3)
    run(second, secure=True)
    assert second.status.stop and second.status.round == first.status.round
    np.testing.assert_allclose(distances(hidden), distances(plain), rtol=1e-3)  # SecAgg+ quantises
    assert sorted(hidden) == list(range(second.status.round + 1))


def test_attach_and_trajectory(tmp_path):
    reference = EarlyStopping(flower.FedAvg(**options({})), threshold=0.05, patience=3)
    run(reference)
    strategy = attach(flower.FedAvg(**options({})), threshold=0.05, patience=3, trajectory=tmp_path / "t.jsonl")
    run(strategy)
    assert strategy.early_stopping.status == reference.status  # type: ignore[attr-defined]
    record = Trajectory.load(tmp_path / "t.jsonl")
    assert len(record) == reference.status.round
    assert {"client_loss", "server_loss", "server_accuracy"} <= set(record.columns)


@pytest.mark.parametrize("name", ["FedAvg", "FedAdam", "FedAvgM"])
def test_goes_on_after_a_kill(name, tmp_path):
    class Killed(Exception):
        pass

    evaluations, again = {}, {}
    whole = EarlyStopping(STRATEGIES[name](options(evaluations)), threshold=0.05, patience=3)
    run(whole)

    def dying(r, parameters, config):
        if r == 4:
            raise Killed
        return 1 / (r + 1), {}

    first = EarlyStopping(
        STRATEGIES[name]({**options({}), "evaluate_fn": dying}), threshold=0.05, patience=3, state=tmp_path
    )
    with pytest.raises(Killed):
        run(first)
    first.run.end()  # the process would be gone
    second = EarlyStopping(STRATEGIES[name](options(again)), threshold=0.05, patience=3, state=tmp_path)
    _, grid = run(second)
    assert second.status == whole.status
    assert min(again) == 4
    for r, model in again.items():
        for one, other in zip(model, evaluations[r], strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(grid.sent) == 2 * NODES * (whole.status.round - 3)


@pytest.mark.parametrize("name", ["FedXgbBagging", "FedXgbCyclic", "FedXgbNnAvg"])
def test_trees_are_refused(name):
    with pytest.raises(FedhaltError, match=f"{name} sends trees"):
        EarlyStopping(getattr(flower, name)())


def test_parameters_of_a_client_are_theta_0_too():
    class First(Client):
        def get_parameters(self, config):
            return START

    strategy = EarlyStopping(flower.FedAvg(), threshold=0.05, patience=3)
    context = LegacyContext(
        context=Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={}),
        config=ServerConfig(num_rounds=ROUNDS),
        strategy=strategy,
    )
    app = ClientApp(lambda context: First(int(context.node_config["partition-id"])).to_client())
    DefaultWorkflow()(Grid(app, NODES), context)
    assert strategy.status.stop
    assert parameters_to_ndarrays(strategy.run.last)[0].shape == (4, 3)
