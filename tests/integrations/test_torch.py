"""A plain torch loop: stops where the replay of a full run stops, goes on from a checkpoint, ships its average."""

import runpy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.places import ROOT
from helpers.training import AVERAGE, RULE, copied, judged, problem, same

from fedhalt import FedhaltError, Plateau, Trajectory
from fedhalt.integrations.torch import EarlyStopping


def fresh():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.02)


def train(model, optimizer, stopping=None, steps=range(60), after=lambda step: None):
    x, y = map(torch.from_numpy, problem())
    for step in steps:
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
        if stopping is not None and stopping.step():
            break
        after(step + 1)


def full(every=1):
    model, optimizer = fresh()
    kept = [copied(model.named_parameters())]

    def keep(step):
        if step % every == 0:
            kept.append(copied(model.named_parameters()))

    train(model, optimizer, after=keep)
    return kept


@pytest.mark.parametrize("every", [1, 3])
def test_it_stops_where_the_models_of_a_full_run_say_with_that_model_and_average(every):
    kept = full(every)
    stop, average = judged(kept)
    model, optimizer = fresh()
    stopping = EarlyStopping(model, **RULE, every=every, average=AVERAGE)
    train(model, optimizer, stopping)
    assert stopping.status == stop and stopping.steps == every * stop.round
    assert same(copied(model.named_parameters()), kept[stop.round])
    assert same(copied(stopping.averaged_model().named_parameters()), average)
    assert same(copied(model.named_parameters()), kept[stop.round])
    stopping.load_average()
    assert same(copied(model.named_parameters()), average)


def test_a_checkpoint_holds_the_stopper(tmp_path):
    stop, average = judged(full(2))
    model, optimizer = fresh()
    stopping = EarlyStopping(model, **RULE, every=2, average=AVERAGE, trajectory=tmp_path / "run.jsonl")
    train(model, optimizer, stopping, range(5))
    torch.save([part.state_dict() for part in (model, optimizer, stopping)], tmp_path / "checkpoint.pt")
    train(model, optimizer, stopping, range(5, 9))  # lost: the process is killed here

    model, optimizer = fresh()
    stopping = EarlyStopping(model, **RULE, every=2, average=AVERAGE, trajectory=tmp_path / "run.jsonl")
    for part, state in zip((model, optimizer, stopping), torch.load(tmp_path / "checkpoint.pt"), strict=True):
        part.load_state_dict(state)
    assert stopping.steps == 5 and stopping.status.round == 2
    with pytest.warns(UserWarning, match="after round 2 is now in run.jsonl.after-round-2"):
        train(model, optimizer, stopping, range(5, 60))
    assert stopping.status == stop
    assert same(copied(stopping.averaged_model().named_parameters()), average)
    assert list(Trajectory.load(tmp_path / "run.jsonl").column("round")) == list(range(1, stop.round + 1))


def test_tied_weights_and_statistics_are_averaged_once(recwarn):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3))
    model[2].weight = model[0].weight
    stopping = EarlyStopping(model, average=2)
    for value in (1.0, 2.0, 3.0):
        torch.nn.init.constant_(model[0].weight, value)
        model[1].running_mean.fill_(value)
        stopping.step()
    stopping.load_average()
    assert model[2].weight is model[0].weight and float(model[2].weight[0, 0]) == 2.5
    assert float(model[1].running_mean[0]) == 2.5 and int(model[1].num_batches_tracked) == 0
    assert "BatchNorm statistics" in str(recwarn.pop(UserWarning).message)


def test_a_rule_may_read_what_the_loop_measures(tmp_path):
    model, _ = fresh()
    rule = Plateau("val_loss", patience=2, higher_is_better=False)
    stopping = EarlyStopping(model, rule=rule, trajectory=tmp_path / "run.jsonl")
    stops = [stopping.step(val_loss=loss, epoch=1) for loss in (3.0, 2.0, 2.5, 2.5)]
    assert stops == [False, False, False, True]
    assert list(Trajectory.load(tmp_path / "run.jsonl").column("val_loss")) == [3.0, 2.0, 2.5, 2.5]


def test_a_stop_stands_and_a_model_that_is_not_finite_is_one():
    model, _ = fresh()
    stopping = EarlyStopping(model, average=2)
    stopping.step()
    torch.nn.init.constant_(model[0].weight, np.nan)
    assert stopping.step() and stopping.status.reason == "diverged"
    torch.nn.init.constant_(model[0].weight, 0.0)
    assert stopping.step() and stopping.status.round == 2
    assert torch.isfinite(stopping.averaged_model()[0].weight).all()  # type: ignore[index]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"every": 0}, "every must be a whole number of at least 1, not 0"),
        ({"every": "epoch"}, "every must be a whole number of at least 1, not 'epoch'"),
        ({"state": "folder"}, "state='folder' is not needed, leave it out"),
        ({"threshold": -1}, "threshold must be"),
        ({"average": "x"}, "average must be"),
    ],
)
def test_a_mistake_is_said_where_it_is_made(options, said):
    with pytest.raises(FedhaltError, match=said):
        EarlyStopping(fresh()[0], **options)


def test_other_mistakes_too(tmp_path):
    with pytest.raises(FedhaltError, match="the torch module to watch, not 3"):
        EarlyStopping(3)
    stopping = EarlyStopping(fresh()[0])
    with pytest.raises(FedhaltError, match="not the state of a stopper: it holds weight"):
        stopping.load_state_dict({"weight": 1})
    stopping.step()
    with pytest.raises(FedhaltError, match="no average is kept"):
        stopping.averaged_model()
    other = EarlyStopping(fresh()[0], 0.5)
    with pytest.raises(FedhaltError, match="was saved with the rule"):
        other.load_state_dict(stopping.state_dict())
    (tmp_path / "run.jsonl").write_text("an earlier run")
    with pytest.raises(FedhaltError, match="exists already"):
        EarlyStopping(fresh()[0], trajectory=tmp_path / "run.jsonl").step()


def test_the_example_stops(capsys):
    pytest.importorskip("sklearn")
    runpy.run_path(str(ROOT / "examples/callbacks/plain_torch.py"))
    assert "stopped after round" in capsys.readouterr().out
