"""The Trainer of transformers: stops where the checkpoints of a full run say, and goes on from a checkpoint."""

import runpy

import pytest

transformers = pytest.importorskip("transformers", reason="make test-adapters installs transformers")
pytest.importorskip("accelerate", reason="make test-adapters installs accelerate")

import torch
from helpers.places import ROOT
from helpers.training import AVERAGE, RULE, copied, judged, same
from safetensors.torch import load_file

from fedhalt import FedhaltError, Trajectory
from fedhalt.integrations.transformers import EarlyStopping

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

EPOCHS, STEPS = 12, 4
"""Of the full run; steps are those of an epoch."""


class Killed(Exception):
    pass


class Kill(transformers.TrainerCallback):  # type: ignore[name-defined]
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise Killed


def trainer(folder, *callbacks, **options):
    """A model with weights tied between input and output, on sentences of its own; checkpoints every two steps."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    rows = torch.randint(0, 16, (32, 8), generator=torch.Generator().manual_seed(1))
    args = transformers.TrainingArguments(
        **{
            "output_dir": str(folder),
            "per_device_train_batch_size": 8,
            "num_train_epochs": EPOCHS,
            "learning_rate": 0.01,
            "save_strategy": "steps",
            "save_steps": 2,
            "report_to": "none",
            "disable_tqdm": True,
            "use_cpu": True,
            **options,
        }
    )
    data = [{"input_ids": row, "labels": row} for row in rows]
    return transformers.Trainer(transformers.GPT2LMHeadModel(config), args, train_dataset=data, callbacks=[*callbacks])


def numbers(model):
    return copied(model.named_parameters())


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The models of a run without fedhalt, from its checkpoints: the start, and after every second step."""
    folder = tmp_path_factory.mktemp("full")
    run = trainer(folder)
    models = [numbers(run.model)]
    run.train()
    files = [folder / f"checkpoint-{step}" / "model.safetensors" for step in range(2, EPOCHS * STEPS + 1, 2)]
    models += [copied(load_file(file).items()) for file in files]
    return models


def rounds(full, every):
    return full[:: STEPS // 2] if every == "epoch" else full[:: every // 2]


@pytest.mark.parametrize("every", ["epoch", 6])
def test_it_stops_where_the_checkpoints_of_a_full_run_say_with_that_model_and_average(full, every, tmp_path):
    models = rounds(full, every)
    stop, average = judged(models)
    stopping = EarlyStopping(**RULE, every=every, average=AVERAGE)
    run = trainer(tmp_path, stopping)
    run.train()
    assert stopping.status == stop
    assert run.state.global_step == stop.round * (STEPS if every == "epoch" else every)
    assert same(numbers(run.model), models[stop.round])
    averaged = stopping.averaged_model()
    assert same(numbers(averaged), average) and averaged.lm_head.weight is averaged.transformer.wte.weight


@pytest.mark.parametrize("every", ["epoch", 6])
def test_a_killed_training_goes_on_from_its_checkpoint(full, every, tmp_path):
    stop, average = judged(rounds(full, every))
    options = {**RULE, "every": every, "average": AVERAGE, "trajectory": tmp_path / "run.jsonl"}
    with pytest.raises(Killed):
        trainer(tmp_path, EarlyStopping(**options), Kill(15)).train()
    stopping = EarlyStopping(**options, load_average=True)
    run = trainer(tmp_path, stopping)
    run.train(resume_from_checkpoint=True)
    assert stopping.status == stop and same(numbers(run.model), average)
    assert list(Trajectory.load(tmp_path / "run.jsonl").column("round")) == list(range(1, stop.round + 1))
    assert Trajectory.load(tmp_path / "run.jsonl").header["budget"] == (EPOCHS if every == "epoch" else 8)


def test_a_training_that_was_stopped_stays_as_it_is(full, tmp_path):
    models = rounds(full, "epoch")
    stop, _ = judged(models)
    trainer(tmp_path, EarlyStopping(**RULE)).train()
    stopping = EarlyStopping(**RULE)
    run = trainer(tmp_path, stopping)
    run.train(resume_from_checkpoint=True)
    assert stopping.status == stop and same(numbers(run.model), models[stop.round])


def test_a_checkpoint_without_a_stopper_is_refused_and_one_elsewhere_can_be_named(tmp_path):
    with pytest.raises(Killed):
        trainer(tmp_path / "one", Kill(5)).train()
    with pytest.raises(FedhaltError, match=r"checkpoint-4 holds no stopper.*earlier checkpoint"):
        trainer(tmp_path / "one", EarlyStopping()).train(resume_from_checkpoint=True)
    with pytest.raises(Killed):
        trainer(tmp_path / "two", EarlyStopping(), Kill(9)).train()
    checkpoint = str(tmp_path / "two" / "checkpoint-8")
    stopping = EarlyStopping()
    run = trainer(tmp_path / "three", stopping, resume_from_checkpoint=checkpoint, num_train_epochs=3)
    run.train(resume_from_checkpoint=checkpoint)
    assert stopping.status.round == 3


def test_mistakes_are_said_where_they_are_made(tmp_path):
    with pytest.raises(FedhaltError, match="state='folder' is not needed"):
        EarlyStopping(state="folder")
    with pytest.raises(FedhaltError, match="every must be 'epoch'"):
        EarlyStopping(every="step")
    with pytest.raises(FedhaltError, match="needs an average to load: give average=10"):
        EarlyStopping(load_average=True)


def test_the_example_stops(capsys):
    runpy.run_path(str(ROOT / "examples/callbacks/with_transformers.py"))
    assert "stopped after round" in capsys.readouterr().out
