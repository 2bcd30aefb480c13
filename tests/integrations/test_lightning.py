"""The Trainer of lightning: stops where the checkpoints of a full run say, and goes on from a checkpoint."""

import runpy

import pytest

pytest.importorskip("lightning", reason="make test-adapters installs lightning")

import torch
from helpers.places import ROOT
from helpers.training import AVERAGE, RULE, copied, judged, problem, same
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from fedhalt import FedhaltError, Plateau, Trajectory
from fedhalt.integrations.lightning import EarlyStopping

pytestmark = pytest.mark.filterwarnings("ignore")

EPOCHS, STEPS = 20, 4
"""Of the full run; steps are those of an epoch."""


class Killed(Exception):
    pass


class Kill(Callback):
    def __init__(self, step):
        self.step = step

    def on_train_batch_end(self, trainer, *others):
        if trainer.global_step == self.step:
            raise Killed


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))

    def training_step(self, batch, index):
        x, y = batch
        return ((self.net(x) - y) ** 2).mean()

    def validation_step(self, batch, index):
        self.log("val_loss", self.training_step(batch, index))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def data():
    """An epoch of equal batches: lightning does not go on with the batch after the checkpoint's."""
    return DataLoader(TensorDataset(*(torch.from_numpy(part).repeat(STEPS, 1) for part in problem(16))), batch_size=16)


def fit(folder, *callbacks, resume=None, validate=False, **options):
    saving = ModelCheckpoint(folder, "{step}", save_top_k=-1, **options.pop("saving", {"every_n_train_steps": 2}))
    trainer = Trainer(
        **{"max_epochs": EPOCHS, "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
           "enable_model_summary": False, **options},
        callbacks=[*callbacks, saving],
    )  # fmt: skip
    model = Model()
    trainer.fit(model, data(), data() if validate else None, ckpt_path=resume)
    return trainer, model


def numbers(model):
    return copied(model.named_parameters())


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The models of a run without fedhalt, from its checkpoints: the start, and after every second step."""
    folder = tmp_path_factory.mktemp("full")
    fit(folder)
    paths = [folder / f"step={step}.ckpt" for step in range(2, EPOCHS * STEPS + 1, 2)]
    return [numbers(Model()), *(copied(torch.load(path)["state_dict"].items()) for path in paths)]


def rounds(full, every):
    return full[:: STEPS // 2] if every == "epoch" else full[:: every // 2]


@pytest.mark.parametrize("every", ["epoch", 6])
def test_it_stops_where_the_checkpoints_of_a_full_run_say_with_that_model_and_average(full, every, tmp_path):
    models = rounds(full, every)
    stop, average = judged(models)
    stopping = EarlyStopping(**RULE, every=every, average=AVERAGE)
    trainer, model = fit(tmp_path, stopping)
    assert stopping.status == stop
    assert trainer.global_step == stop.round * (STEPS if every == "epoch" else every)
    assert same(numbers(model), models[stop.round])
    assert same(numbers(stopping.averaged_model()), average)
    assert float(trainer.callback_metrics["fedhalt/growth"]) == pytest.approx(stop.signal)


@pytest.mark.parametrize("every, step", [("epoch", 14), ("epoch", 16), (6, 14), (6, 18)])
def test_a_killed_training_goes_on_from_its_checkpoint(full, every, step, tmp_path):
    """In an epoch and at its end, at a round and between two."""
    stop, average = judged(rounds(full, every))
    options = {**RULE, "every": every, "average": AVERAGE, "trajectory": tmp_path / "run.jsonl"}
    with pytest.raises(Killed):
        fit(tmp_path, EarlyStopping(**options), Kill(step + 3))
    stopping = EarlyStopping(**options, load_average=True)
    _, model = fit(tmp_path, stopping, resume=tmp_path / f"step={step}.ckpt")
    assert stopping.status == stop and same(numbers(model), average)
    record = Trajectory.load(tmp_path / "run.jsonl")
    assert list(record.column("round")) == list(range(1, stop.round + 1))
    assert record.header["budget"] == (EPOCHS if every == "epoch" else EPOCHS * STEPS // 6)


def test_a_training_that_was_stopped_stays_as_it_is(full, tmp_path):
    models = rounds(full, "epoch")
    stop, _ = judged(models)
    fit(tmp_path, EarlyStopping(**RULE), saving={"every_n_epochs": 1, "save_on_train_epoch_end": True})
    stopping = EarlyStopping(**RULE)
    trainer, model = fit(tmp_path, stopping, resume=tmp_path / f"step={stop.round * STEPS}.ckpt")
    assert stopping.status == stop and trainer.global_step == stop.round * STEPS
    assert same(numbers(model), models[stop.round])


def test_validation_metrics_are_recorded_and_rules_may_read_them(tmp_path):
    rule = Plateau("val_loss", patience=2, higher_is_better=False)
    stopping = EarlyStopping(rule=rule, trajectory=tmp_path / "run.jsonl")
    fit(tmp_path, stopping, validate=True, max_epochs=3)
    losses = Trajectory.load(tmp_path / "run.jsonl").column("val_loss")
    assert len(losses) == 3 and losses[0] > losses[-1] > 0


def test_accumulated_gradients_are_one_step(tmp_path):
    stopping = EarlyStopping(every=2)
    trainer, _ = fit(tmp_path, stopping, accumulate_grad_batches=2, max_epochs=3)
    assert trainer.global_step == 6 and stopping.status.round == 3


def test_a_second_fit_goes_on_and_a_new_trainer_begins(tmp_path):
    stopping = EarlyStopping()
    trainer, model = fit(tmp_path / "one", stopping, max_epochs=2)
    trainer.fit_loop.max_epochs = 5
    trainer.fit(model, data())
    assert stopping.status.round == 5
    fit(tmp_path / "two", stopping, max_epochs=2)
    assert stopping.status.round == 2


def test_a_checkpoint_without_a_stopper_is_refused(tmp_path):
    with pytest.raises(Killed):
        fit(tmp_path, Kill(5))
    with pytest.raises(FedhaltError, match="the checkpoint at step 4 holds no stopper"):
        fit(tmp_path, EarlyStopping(), resume=tmp_path / "step=4.ckpt")


def test_mistakes_are_said_where_they_are_made():
    with pytest.raises(FedhaltError, match="state='folder' is not needed"):
        EarlyStopping(state="folder")
    with pytest.raises(FedhaltError, match="every must be 'epoch'"):
        EarlyStopping(every="step")
    with pytest.raises(FedhaltError, match="needs an average to load: give average=10"):
        EarlyStopping(load_average=True)


def test_the_example_stops(capsys):
    runpy.run_path(str(ROOT / "examples/callbacks/with_lightning.py"))
    assert "stopped after round" in capsys.readouterr().out
