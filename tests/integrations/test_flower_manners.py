"""Flower as its maintainers would want it: what its users see, set and name stays what they know."""

import logging
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedXgbBagging
from grid import InProcessGrid, pulling_app, start_arrays
from helpers.places import ROOT

from fedhalt import AnyOf, FedhaltError, GrowthRate, Megabytes, Minutes, Target, Trajectory, stop_round
from fedhalt.integrations.flower import EarlyStopping, attach
from fedhalt.integrations.flower.state import _seal, _unseal
from fedhalt.measure.arrays import is_floating_type

RULE = {"threshold": 0.05, "patience": 3}


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO)


def start(strategy, rounds=40, app=None, arrays=None, **options):
    grid = InProcessGrid(app or pulling_app(), 3)
    return strategy.start(grid, arrays or start_arrays(), rounds, **options), grid


# --- the log ---


def flowers(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "flwr"]


def test_the_log_begins_and_ends_as_flowers_does(caplog):
    result, _ = start(EarlyStopping(FedAdam(), **RULE))
    stopped = flowers(caplog)
    assert "Starting EarlyStopping(FedAdam) strategy:" in stopped
    caplog.clear()
    start(FedAdam(), rounds=2)
    plain = flowers(caplog)
    end = next(i for i, line in enumerate(plain) if line.startswith("Strategy execution finished in "))
    last = next(i for i, line in enumerate(stopped) if line.startswith("Strategy execution finished in "))
    assert stopped[last - 1 : last + 4][2:] == plain[end - 1 : end + 4][2:]
    assert [line.strip() for line in stopped[last + 4 : -1]] == [line.strip() for line in str(result).splitlines()]


def test_our_lines_are_on_our_own_logger(caplog):
    start(EarlyStopping(FedAvg(), **RULE))
    ours = [record for record in caplog.records if record.getMessage().startswith("fedhalt:")]
    assert ours and {record.name for record in ours} == {"fedhalt"}
    caplog.clear()
    logging.getLogger("fedhalt").setLevel(logging.WARNING)
    try:
        start(EarlyStopping(FedAvg(), **RULE))
    finally:
        logging.getLogger("fedhalt").setLevel(logging.INFO)
    assert "fedhalt:" not in caplog.text


TESTS = str(ROOT / "tests")

ALONE = """
    import sys
    sys.path[:0] = [{tests!r}]
    from flwr.serverapp.strategy import FedAvg
    {block}
    from grid import InProcessGrid, pulling_app, start_arrays
    from fedhalt.integrations.flower import EarlyStopping
    strategy = EarlyStopping(FedAvg(), threshold=0.05, patience=3, state={state!r})
    strategy.start(InProcessGrid(pulling_app(), 3), start_arrays(), 40)
    assert strategy.status.stop
    assert "fedhalt.integrations.flower.legacy" not in sys.modules
"""


def alone(tmp_path, block=""):
    program = textwrap.dedent(ALONE).format(tests=TESTS, block=block, state=str(tmp_path))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr


def test_our_lines_stand_among_flowers_in_its_format_and_once(tmp_path):
    lines = alone(tmp_path).splitlines()
    ours = [line for line in lines if "round 3, distance" in line]
    theirs = next(line for line in lines if "[ROUND 3/40]" in line)
    assert len(ours) == 1 and ours[0].partition("fedhalt")[0] == theirs.partition("[ROUND")[0]


GONE = "sys.modules.update({name: None for name in sys.modules if name.startswith('flwr.server.strategy')})"


def test_it_works_without_the_legacy_api(tmp_path):
    alone(tmp_path, GONE)


# --- the strategy ---


class Saving(FedAvg):
    """Flower's advanced example: a strategy with a method and attributes of its own."""

    def set_path(self, path):
        self.path = path


def test_attributes_of_the_wrapped_strategy_are_in_reach():
    strategy = EarlyStopping(Saving(fraction_evaluate=0.5), **RULE)
    strategy.set_path("models")
    assert strategy.path == strategy.strategy.path == "models"
    strategy.fraction_train = 0.5
    assert strategy.strategy.fraction_train == 0.5 and strategy.fraction_evaluate == 0.5
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = strategy.no_such_thing
    assert strategy.status is None


class OwnStart(FedAvg):
    def start(self, *args, **kwargs):
        return super().start(*args, **kwargs)


def test_attach_saves_the_strategy_and_does_not_warn_of_its_own_objects(tmp_path, caplog):
    strategy = attach(OwnStart(), **RULE, state=tmp_path)
    start(strategy, rounds=2)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    again = attach(OwnStart(), **RULE, state=tmp_path)
    start(again, rounds=4)
    assert again.early_stopping.status.round == 4  # type: ignore[attr-defined]


def test_a_folder_of_an_attached_strategy_that_version_0_1_0_wrote_goes_on(tmp_path):
    """It saved the wrapper with the strategy."""
    start(attach(OwnStart(), **RULE, state=tmp_path), rounds=2)
    path = tmp_path / "round-2.json"
    facts = _unseal(path, 2)
    levels = next(tree for name, tree in facts["content"]["dict"] if name == {"text": "=server"})
    levels["list"].append({"dict": []})
    path.write_bytes(_seal({**facts, "strategy": [*facts["strategy"], "MessageStopping"]}))
    strategy = attach(OwnStart(), **RULE, state=tmp_path)
    start(strategy, rounds=4)
    assert strategy.early_stopping.status.round == 4  # type: ignore[attr-defined]


class FedTrees(FedXgbBagging):
    pass


def test_trees_are_known_by_their_class_and_not_by_its_name():
    with pytest.raises(FedhaltError, match="FedTrees sends trees"):
        EarlyStopping(FedTrees())
    namesake = type("FedXgbBagging", (FedAvg,), {})
    assert EarlyStopping(namesake()).status is None


def test_floating_types_are_known_by_what_they_are():
    floating = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", np.dtype(">f4"), np.float64]
    others = ["int64", "uint8", "bool", "complex64", np.dtype("i4"), "<U7", "datetime64[s]", None]
    assert all(map(is_floating_type, floating)) and not any(map(is_floating_type, others))


def test_a_model_with_half_precision_and_counters():
    arrays = ArrayRecord({"w": Array(np.zeros(3, np.float16)), "n": Array(np.zeros(1, np.int64))})
    strategy = EarlyStopping(FedAvg(), **RULE)
    start(strategy, rounds=2, arrays=arrays)
    assert strategy.run._floating == {"w"}


# --- the record ---


def test_a_second_run_of_an_app(tmp_path, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start(EarlyStopping(FedAvg(), **RULE, trajectory="run.jsonl"), rounds=3)
    assert f"fedhalt: recording in {tmp_path / 'run.jsonl'}" in caplog.messages
    with pytest.raises(FedhaltError, match=rf"{tmp_path}/run\.jsonl exists already.*overwrite=True"):
        EarlyStopping(FedAvg(), **RULE, trajectory="run.jsonl")
    start(EarlyStopping(FedAvg(), **RULE, trajectory="run.jsonl", overwrite=True), rounds=2)
    assert len(Trajectory.load("run.jsonl")) == 2


def replying(metrics):
    """A ClientApp that trains nothing and reports these metrics."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        found = MetricRecord({"num-examples": 1, **metrics})
        return Message(RecordDict({"arrays": message.content["arrays"], "metrics": found}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, **metrics})}), reply_to=message)

    return app


def test_metrics_that_are_lists_are_recorded(tmp_path):
    start(
        EarlyStopping(FedAvg(), trajectory=tmp_path / "run.jsonl"),
        rounds=2,
        app=replying({"per_class": [0.5, 0.25]}),
        evaluate_fn=lambda r, arrays: MetricRecord({"recall": [1.0, 0.0]}),
    )
    row = Trajectory.load(tmp_path / "run.jsonl").rows[-1]
    assert row["train_per_class"] == row["client_per_class"] == [0.5, 0.25] and row["server_recall"] == [1.0, 0.0]


# --- rules that people ask for ---


def test_the_clients_aggregated_metrics_a_target_and_budgets_stop_as_their_record_replays(tmp_path):
    rules = {
        "clients": Target("client_loss", 17.0),
        "minutes": AnyOf(GrowthRate(), Minutes(1e-6)),
        "megabytes": AnyOf(GrowthRate(), Megabytes(0.005)),
    }
    for name, rule in rules.items():
        strategy = EarlyStopping(FedAvg(), rule=rule, trajectory=tmp_path / f"{name}.jsonl")
        _, grid = start(strategy)
        record = Trajectory.load(tmp_path / f"{name}.jsonl")
        assert strategy.status.stop and stop_round(rule, record) == strategy.status.round == len(record), name
        assert max(r for _, r in grid.sent) == len(record)


def test_bytes_are_those_of_the_arrays_and_only_counted_on_request(tmp_path):
    strategy = EarlyStopping(FedAvg(), rule=Megabytes(1), trajectory=tmp_path / "run.jsonl")
    start(strategy, rounds=1)
    model = sum(len(array.data) for array in start_arrays().values())
    (row,) = Trajectory.load(tmp_path / "run.jsonl").rows
    assert row["bytes_down"] == 3 * 2 * model  # three nodes train and evaluate
    assert row["bytes_up"] == pytest.approx(3 * model, rel=0.1)
    start(EarlyStopping(FedAvg(), trajectory=tmp_path / "plain.jsonl"), rounds=1)
    assert not {"bytes_up", "bytes_down", "seconds"} & set(Trajectory.load(tmp_path / "plain.jsonl").columns)


# --- FedMethod ---


def test_the_apps_train_config_reaches_the_task_and_its_loss_the_record(tmp_path):
    torch = pytest.importorskip("torch")
    from fedhalt.integrations.flower import FedMethod, ModuleTask, client_app

    rates = []

    def task(context, config):
        rates.append(config.get("lr"))
        data = [(torch.ones(4, 2), torch.zeros(4, dtype=torch.long)), (torch.zeros(4, 2), torch.ones(4).long())]
        loss = lambda module, batch: torch.nn.functional.cross_entropy(module(batch[0]), batch[1])  # noqa: E731
        return ModuleTask(torch.nn.Linear(2, 2), data, loss, samples=8, lr=config.get("lr", 0.1))

    app = client_app(task)
    asked = []

    @app.query()
    def query(message, context):  # the app's own: the default action is free
        asked.append(context.node_id)
        return Message(RecordDict(), reply_to=message)

    method = FedMethod("fedsam", cohort=2, fraction_evaluate=0.0)
    strategy = EarlyStopping(method, **RULE, trajectory=tmp_path / "run.jsonl")
    arrays = ArrayRecord(torch.nn.Linear(2, 2).state_dict())
    result, grid = start(strategy, 2, app, arrays, train_config=ConfigRecord({"lr": 0.25}))
    assert rates.count(0.25) == 4 and not asked
    losses = Trajectory.load(tmp_path / "run.jsonl").column("train_loss")
    assert all(0.3 < loss < 1.5 for loss in losses) and losses[1] < losses[0]
    assert result.train_metrics_clientapp[2]["train_loss"] == losses[1]
    message = Message(RecordDict(), dst_node_id=grid.get_node_ids()[0], message_type="query")
    grid.send_and_receive([message])
    assert len(asked) == 1


@pytest.mark.parametrize("weighting, said", [("uniform", "uniform"), ("samples", "weighted by 'num-examples'")])
def test_the_summary_says_how_the_updates_are_weighted(weighting, said, caplog):
    pytest.importorskip("torch")
    from fedhalt.integrations.flower import FedMethod

    EarlyStopping(FedMethod("fedavg", weighting=weighting)).summary()
    assert f"Means: of the updates ({said}) | of the metrics (weighted by 'num-examples')" in caplog.text
    assert "Weighted by:" not in caplog.text


def test_options_are_those_of_flowers_signature():
    pytest.importorskip("torch")
    from fedhalt.integrations.flower import FedMethod

    assert FedMethod("fedavg", min_evaluate_nodes=5).min_evaluate_nodes == 5
    with pytest.raises(FedhaltError, match="not 'weighted_by_key'"):
        FedMethod("fedavg", weighted_by_key="n")
