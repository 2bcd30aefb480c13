"""fit() of keras: stops where the models of a full run say, and goes on with BackupAndRestore and a state folder."""

import os
import runpy

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="make test-adapters installs keras")

import numpy as np
from helpers.places import ROOT
from helpers.training import AVERAGE, RULE, judged, problem, same

from fedhalt import FedhaltError, Plateau, Trajectory
from fedhalt.integrations.keras import EarlyStopping

pytestmark = pytest.mark.filterwarnings("ignore")

EPOCHS, STEPS = 20, 4
"""Of the full run; steps are those of an epoch."""


class Killed(Exception):
    pass


class Kill(keras.callbacks.Callback):  # type: ignore[name-defined]
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 0 and batch == 1:
            raise Killed

    def on_epoch_end(self, epoch, logs=None):
        self.epoch -= 1


class Keep(keras.callbacks.Callback):  # type: ignore[name-defined]
    """The trained weights after every second step."""

    def on_train_begin(self, logs=None):
        self.models = [numbers(self.model)]

    def on_train_batch_end(self, batch, logs=None):
        if batch % 2:
            self.models.append(numbers(self.model))


def fresh():
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def fit(model, *callbacks, epochs=EPOCHS, **options):
    x, y = problem()
    model.fit(x, y, batch_size=16, epochs=epochs, shuffle=False, verbose=0, callbacks=[*callbacks], **options)
    return model


def numbers(model):
    return {variable.path: np.array(keras.ops.convert_to_numpy(variable)) for variable in model.trainable_variables}


@pytest.fixture(scope="module")
def full():
    """The models of a run without fedhalt: the start, and after every second step."""
    keep = Keep()
    fit(fresh(), keep)
    return keep.models


def rounds(full, every):
    return full[:: STEPS // 2] if every == "epoch" else full[:: every // 2]


@pytest.mark.parametrize("every", ["epoch", 6])
def test_it_stops_where_the_models_of_a_full_run_say_with_that_model_and_average(full, every, tmp_path):
    models = rounds(full, every)
    stop, average = judged(models)
    stopping = EarlyStopping(**RULE, every=every, average=AVERAGE, trajectory=tmp_path / "run.jsonl")
    model = fit(fresh(), stopping)
    assert stopping.status == stop and same(numbers(model), models[stop.round])
    assert int(model.optimizer.iterations) == stop.round * (STEPS if every == "epoch" else every)
    assert all(map(np.array_equal, stopping.averaged_weights(), average.values()))
    assert Trajectory.load(tmp_path / "run.jsonl").header["budget"] == len(models) - 1


def test_a_killed_training_goes_on_from_its_backup(full, tmp_path):
    stop, average = judged(rounds(full, "epoch"))
    options = {**RULE, "average": AVERAGE, "trajectory": tmp_path / "run.jsonl", "state": tmp_path / "state"}

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)

    with pytest.raises(Killed):
        fit(fresh(), EarlyStopping(**options), backup(), Kill(3))
    stopping = EarlyStopping(**options, load_average=True)
    model = fit(fresh(), stopping, backup())
    assert stopping.status == stop and same(numbers(model), average)
    assert list(Trajectory.load(tmp_path / "run.jsonl").column("round")) == list(range(1, stop.round + 1))

    stopped = EarlyStopping(**options)
    model = fit(fresh(), stopped, backup())
    assert stopped.status == stop and same(numbers(model), rounds(full, "epoch")[stop.round])


def test_a_training_that_starts_over_beside_its_folder_is_refused(tmp_path):
    fit(fresh(), EarlyStopping(state=tmp_path / "state"), epochs=2)
    with pytest.raises(FedhaltError, match="holds this run up to round 2, but the training starts over"):
        fit(fresh(), EarlyStopping(state=tmp_path / "state"), epochs=4)


def test_metrics_are_recorded_and_rules_may_read_them(tmp_path):
    rule = Plateau("val_loss", patience=2, higher_is_better=False)
    stopping = EarlyStopping(rule=rule, trajectory=tmp_path / "run.jsonl")
    fit(fresh(), stopping, epochs=3, validation_data=problem(seed=1))
    losses = Trajectory.load(tmp_path / "run.jsonl").column("val_loss")
    assert len(losses) == 3 and losses[0] > 0


def test_statistics_are_averaged_but_do_not_count_for_the_distance():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    stopping = EarlyStopping(average=2, load_average=True)
    fit(model, stopping, epochs=2)
    assert stopping.status.value == 0.0
    assert not np.allclose(model.layers[0].get_weights()[2], 0)


def test_mistakes_are_said_where_they_are_made():
    with pytest.raises(FedhaltError, match="every must be 'epoch'"):
        EarlyStopping(every="step")
    with pytest.raises(FedhaltError, match="needs an average to load: give average=10"):
        EarlyStopping(load_average=True)


def test_the_example_stops(capsys):
    runpy.run_path(str(ROOT / "examples/callbacks/with_keras.py"))
    assert "stopped after round" in capsys.readouterr().out
