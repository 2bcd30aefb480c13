"""What does a probe's round cost? Autograd, the closed form, and plain numpy, round by round in one run.

    python benchmarks/probe.py [--data-root ../shared/data] [--rounds 20] [--subnormal]      needs torchmetrics

Work: blood cells, 100 clients (Dirichlet 0.1), 10 a round, 5 epochs, batch 256, one worker, training and evaluation.
"before" is the round before there was a closed form: autograd, and torchmetrics for the scores. numpy trains FedAvg the
same way: permuted rows, softmax minus one-hot, clipping, weight decay, momentum. "products" are only the products with
the features that all of them need, for training and evaluation: no round can take less. Seconds are those of the
thread, so that other load disturbs less; ratios are those of the same repetition, with the least and the most.

With `--subnormal` the closed form is compared with itself without flushing numbers below 1e-38 to zero as `fedhalt run`
does: a fitted head gives the classes that a client lacks such probabilities, and arithmetic with them takes a slow path
of the processor.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a second thread's seconds would not be counted

import numpy as np
import torch

from fedhalt.simulation import RunSpec, engine
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.seeds import rng

PROBE = {"data": "blood", "model": "probe:tf_efficientnet_lite0", "pretrained": True, "resize": 64, "lr": 0.1}


def numpy_rounds(federation: Federation) -> Iterator[None]:
    """FedAvg by hand, on the same batches."""
    spec, (images, labels) = (
        federation.spec,
        (each.numpy() for each in (federation.data.train.images, federation.data.train.labels)),
    )
    classes, wide = federation.data.classes, images.shape[1]
    expected = np.eye(classes, dtype=np.float32)[labels]
    x, r = federation.theta0().numpy(), 0
    while True:
        r += 1
        total = np.zeros_like(x)
        for client in federation.cohort(r):
            w, v, order = x, np.zeros_like(x), rng(spec.seed, "batches", r, client)
            for _ in range(spec.epochs):
                shuffled = order.permutation(federation.parts[client])
                for begin in range(0, len(shuffled), spec.batch):
                    index = shuffled[begin : begin + spec.batch]
                    mine = images[index]
                    scores = mine @ w[: classes * wide].reshape(classes, wide).T + w[classes * wide :]
                    wrong = np.exp(scores - scores.max(1, keepdims=True))
                    wrong /= wrong.sum(1, keepdims=True)
                    wrong -= expected[index]
                    wrong /= len(index)
                    g = np.concatenate([(wrong.T @ mine).ravel(), wrong.sum(0)])
                    norm = np.sqrt(g @ g)
                    if norm > spec.clip:
                        g *= spec.clip / norm
                    g += spec.weight_decay * w
                    v = spec.momentum * v + g
                    w = w - federation.rate(r) * v
            total += w - x
        x = x + total / spec.cohort
        yield


def products(federation: Federation) -> Iterator[None]:
    """Scores and gradients of every minibatch, and the scores of the evaluation, without anything around them."""
    spec, (features, _) = federation.spec, federation._resident["train"]
    weight, r = federation.theta0()[: -federation.data.classes].view(federation.data.classes, -1), 0
    while True:
        r += 1
        for client in federation.cohort(r):
            part = federation.parts[client]
            for piece in spec.epochs * features[part[0] : part[-1] + 1].split(spec.batch):
                torch.mm(torch.mm(weight, piece.t()), piece)
        for name in ("val", "test"):
            for piece in federation._resident[name][0].split(1024):
                torch.mm(weight, piece.t())
        yield


class Before(Federation):
    """Scores by torchmetrics, as they were computed until the closed form came."""

    def _scores(self, x: torch.Tensor, shared: object, parts: dict, each: object) -> dict:
        from torchmetrics.functional import classification as scores

        found, classes, model = {}, self.data.classes, self._model()
        model.load(x)
        for name, (images, labels) in parts.items():
            logits = torch.cat([model.predict(piece) for piece in images.split(1024)])
            chosen, macro = logits.argmax(1), {"num_classes": classes, "average": "macro"}
            found |= {
                f"{name}_loss": float(torch.nn.functional.cross_entropy(logits.double(), labels)),
                f"{name}_accuracy": float(scores.multiclass_accuracy(chosen, labels, classes, average="micro")),
                f"{name}_balanced_accuracy": float(scores.multiclass_accuracy(chosen, labels, **macro)),
                f"{name}_f1": float(scores.multiclass_f1_score(chosen, labels, **macro)),
            }
        return found


def repeated_times(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each work, interleaved; the first three rounds warm up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + 3):
        for name, work in works.items():
            begin = time.thread_time()
            work()
            times[name].append(1e3 * (time.thread_time() - begin))
    return {name: values[3:] for name, values in times.items()}


def spread(above: list[float], below: list[float]) -> str:
    """The median ratio of times of the same repetition, with the least and the most."""
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="../shared/data")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--subnormal", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for method in ("fedavg", "fedsam", "scaffold"):
        if given.subnormal:
            subnormal(method, given.data_root, given.rounds)
        else:
            against_autograd(method, given.data_root, given.rounds)


def against_autograd(method: str, data_root: str, rounds: int) -> None:
    works: dict[str, Callable[[], object]] = {}
    sides = {"before": (Before, "autograd"), "autograd": (Federation, "autograd"), "closed": (Federation, "closed")}
    for name, (kind, gradient) in sides.items():
        federation = kind(RunSpec(**PROBE, method=method, gradient=gradient), data_root)
        state: dict[str, engine.Round] = {}
        training = engine.rounds(federation.method(), federation)
        works[name] = lambda training=training, state=state: state.update(last=next(training))
        works[f"{name} scores"] = lambda f=federation, state=state: f.evaluate(state["last"].state["x"], {})
    by_hand = numpy_rounds(federation)
    works["numpy"] = lambda: next(by_hand)
    bound = products(federation)
    works["products"] = lambda: next(bound)
    found = repeated_times(works, rounds)
    whole = {name: [sum(pair) for pair in zip(found[name], found[f"{name} scores"], strict=True)] for name in sides}
    for name in sides:
        faster = "" if name == "closed" else f"; closed is {spread(whole[name], whole['closed'])} x faster"
        print(f"{method:9} {name:9} {statistics.median(whole[name]):5.1f} ms, of which evaluation "
              f"{statistics.median(found[f'{name} scores']):.1f}{faster}", flush=True)  # fmt: skip
    if method == "fedavg":
        print(f"          numpy trains in {statistics.median(found['numpy']):.1f} ms: "
              f"the closed form takes {spread(found['closed'], found['numpy'])} x that", flush=True)  # fmt: skip
        print(f"          the products alone take {statistics.median(found['products']):.1f} ms: "
              f"nothing else would be {spread(whole['before'], found['products'])} x faster", flush=True)  # fmt: skip


def subnormal(method: str, data_root: str, rounds: int) -> None:
    federation = Federation(RunSpec(**PROBE, method=method), data_root)
    last: dict[bool, torch.Tensor] = {}

    def trained(training: Iterator[engine.Round], flush: bool) -> None:
        torch.set_flush_denormal(flush)
        last[flush] = next(training).state["x"]

    sides = {flush: engine.rounds(federation.method(), federation) for flush in (False, True)}
    works = {str(flush): lambda side=side, flush=flush: trained(side, flush) for flush, side in sides.items()}
    found = {name: statistics.median(values) for name, values in repeated_times(works, rounds).items()}
    apart = float((last[True] - last[False]).norm() / last[False].norm())
    print(f"{method:9} {found['False']:5.1f} ms with subnormal numbers, {found['True']:5.1f} ms without: "
          f"{found['False'] / found['True']:.2f} x; models apart by {apart:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
