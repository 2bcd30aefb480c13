"""Who is faster? Rounds of ours, of a plain loop, of Flower's simulation and of pfl, in turns, again and again.

    scripts/adapter-env pfl
    python benchmarks/race.py [--cases few many-cnn many-head] [--rounds 8] [--without flower pfl] [--quick]

few        100 clients of 120 images (28 x 28 x 3), 10 a round, 5 epochs: the small CNN
many-cnn   1,000 clients of 20 images, 100 a round, one epoch: the small CNN, where messages and processes dominate
many-head  the same with a linear head on 1,280 features

All train only: batch 256, momentum, weight decay, clipping. Each contender is a process of its own that waits for its
turn; a repetition is one round of each, so that other load meets all of them. Ratios are those of a repetition: median,
least and most. Start-up, the time to the end of a first round that does not count, stands apart.

ours       two single-thread workers; the head by its formula, in one thread
plain      one process, the model copied for every client, a DataLoader, torch's own threads: as the authors' code does
flower     Flower's simulation on Ray, one actor per core; data resident in the actor, the CNN in channels_last
pfl        pfl's simulation in one process, torch's own threads; pfl-single with one thread; both in --pfl's environment
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedhalt.simulation.model import SmallCNN, normalised

HERE = Path(__file__).resolve().parent
CORES = os.cpu_count() or 1
BATCH, LR, CLASSES, WIDE = 256, 0.01, 8, 1280
PEERS = ("plain", "flower", "pfl", "pfl-single")


@dataclass(frozen=True)
class Case:
    """The work of a round, and the file with its data."""

    clients: int
    each: int
    cohort: int
    epochs: int
    head: bool
    file: str = ""

    def module(self) -> nn.Module:
        if self.head:
            return nn.Linear(WIDE, CLASSES)
        return SmallCNN(3, CLASSES).to(memory_format=torch.channels_last)

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Features, or images as floats, and labels; client n has the n-th `each` of them."""
        with np.load(self.file) as content:
            labels = torch.from_numpy(content["train_labels"][:, 0].astype(np.int64))
            if self.head:
                return torch.from_numpy(content["features"]), labels
            images = normalised(torch.from_numpy(content["train_images"]).permute(0, 3, 1, 2))
            return images.contiguous(memory_format=torch.channels_last), labels

    def share(self, client: int) -> slice:
        return slice(client * self.each, (client + 1) * self.each)


CASES = {
    "few": Case(100, 120, 10, 5, head=False),
    "many-cnn": Case(1000, 20, 100, 1, head=False),
    "many-head": Case(1000, 20, 100, 1, head=True),
}
QUICK = {"few": Case(6, 8, 2, 2, head=False), "many-cnn": Case(20, 4, 4, 1, head=False),
         "many-head": Case(20, 4, 4, 1, head=True)}  # fmt: skip


# what a contender runs: a generator whose every step is a round


def ours(case: Case) -> Iterator[None]:
    from fedhalt.simulation import RunSpec, engine
    from fedhalt.simulation.federation import Federation
    from fedhalt.simulation.workers import started_workers

    spec = RunSpec(data=case.file, skew="iid", clients=case.clients, cohort=case.cohort, epochs=case.epochs,
                   batch=BATCH, lr=LR, evaluate_every=0, gradient="closed" if case.head else "autograd",
                   model="probe:tf_efficientnet_lite0" if case.head else "cnn", pretrained=case.head)  # fmt: skip
    with started_workers(CORES, "cpu") as (each, _):
        federation = Federation(spec)
        for _ in engine.rounds(federation.method(), federation, each=federation.visiting(each)):
            yield


def plain(case: Case) -> Iterator[None]:
    from torch.utils.data import DataLoader, TensorDataset

    inputs, labels = case.data()
    model = case.module()
    draw = np.random.default_rng(0)
    while True:
        trained = []
        for client in draw.choice(case.clients, case.cohort, replace=False):
            local, mine = copy.deepcopy(model), case.share(client)
            loader = DataLoader(TensorDataset(inputs[mine], labels[mine]), BATCH, shuffle=True)
            optimizer = torch.optim.SGD(local.parameters(), lr=LR, momentum=0.9, weight_decay=0.001)
            local.train()
            for _ in range(case.epochs):
                for some, answers in loader:
                    step(local, optimizer, some, answers)
            trained.append(local.state_dict())
        model.load_state_dict({name: torch.stack([each[name] for each in trained]).mean(0) for name in trained[0]})
        yield


def step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()


_RESIDENT: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}


def visit(case: Case, client: int, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What a Flower client does; the data of this process are loaded once."""
    torch.set_num_threads(1)
    if case.file not in _RESIDENT:
        _RESIDENT[case.file] = case.data()
    inputs, labels = _RESIDENT[case.file]
    model = case.module()
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=0.001)
    inputs, labels = inputs[case.share(client)], labels[case.share(client)]
    for _ in range(case.epochs):
        for index in torch.randperm(len(labels)).split(BATCH):
            step(model, optimizer, inputs[index], labels[index])
    return model.state_dict()


def flower(case: Case, turns: Turns) -> None:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client_app, server_app, settings = ClientApp(), ServerApp(), asdict(case)

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        import race

        state = message.content["arrays"].to_torch_state_dict()
        state = race.visit(race.Case(**settings), int(context.node_config["partition-id"]), state)
        content = {"arrays": ArrayRecord(state), "metrics": MetricRecord({"num-examples": settings["each"]})}
        return Message(RecordDict(content), reply_to=message)

    class Timed(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            turns.wait()
            return super().configure_train(server_round, arrays, config, grid)

        def aggregate_train(self, server_round, replies):
            replies = list(replies)
            failed = [reply.error for reply in replies if reply.has_error()]
            if failed or len(replies) != case.cohort:
                print(f"{len(replies)} replies, not {case.cohort}: {failed[:1]}", file=sys.stderr, flush=True)
                os._exit(1)  # a round without its clients would be fast
            result = super().aggregate_train(server_round, replies)
            turns.done()
            return result

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = Timed(fraction_train=case.cohort / case.clients, fraction_evaluate=0.0,
                         min_train_nodes=case.cohort, min_available_nodes=case.clients)  # fmt: skip
        strategy.start(grid=grid, initial_arrays=ArrayRecord(case.module().state_dict()), num_rounds=10**6)

    run_simulation(server_app, client_app, case.clients, backend_config={"client_resources": {"num_cpus": 1}})


def pfl(case: Case, turns: Turns) -> None:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data import FederatedDataset
    from pfl.data.dataset import Dataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    inputs, labels = case.data()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = case.module()

        def loss(self, x, y, eval=False):
            return nn.functional.cross_entropy(self.net(x), y)

        def metrics(self, x, y, eval=True):
            return {}

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            turns.done()
            turns.wait()
            return False, Metrics()

    net, draw = Net(), np.random.default_rng(0)
    model = PyTorchModel(
        net,
        local_optimizer_create=lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9, weight_decay=0.001),
        central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0),
    )
    data = FederatedDataset(
        lambda n: Dataset((inputs[case.share(n)], labels[case.share(n)]), user_id=str(n)),
        lambda: int(draw.integers(case.clients)),
    )
    params = NNAlgorithmParams(central_num_iterations=10**6, evaluation_frequency=10**6,
                               train_cohort_size=case.cohort, val_cohort_size=0)  # fmt: skip
    train = NNTrainHyperParams(local_learning_rate=LR, local_num_epochs=case.epochs, local_batch_size=BATCH,
                               local_max_grad_norm=10.0)  # fmt: skip
    turns.wait()
    FederatedAveraging().run(
        algorithm_params=params, backend=SimulatedBackend(training_data=data, val_data=None), model=model,
        model_train_params=train, model_eval_params=NNEvalHyperParams(local_batch_size=BATCH), callbacks=[Clock()],
    )  # fmt: skip


class Turns:
    """The contender's end of the line: waits for its turn, and says how long the round took."""

    def wait(self) -> None:
        if not sys.stdin.readline():  # the race is over
            if "ray" in sys.modules:
                sys.modules["ray"].shutdown()
            os._exit(0)
        self.begin = time.perf_counter()

    def done(self) -> None:
        print(f"seconds {time.perf_counter() - self.begin}", flush=True)


def contend(name: str, case: Case) -> None:
    """Runs in the contender's own process, round by round, until nobody asks for more."""
    turns = Turns()
    torch.set_num_threads(1 if name == "pfl-single" else CORES)
    if name == "flower":
        flower(case, turns)
    elif name.startswith("pfl"):
        pfl(case, turns)
    else:
        rounds = {"ours": ours, "plain": plain}[name](case)
        while True:
            turns.wait()
            next(rounds)
            turns.done()


class Contender:
    """The race's end of the line."""

    def __init__(self, name: str, case: Case, python: str) -> None:
        self.name, self.errors = name, tempfile.TemporaryFile("w+")
        call = f"import race; race.contend({name!r}, race.Case(**{asdict(case)!r}))"
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0",
                 "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # fmt: skip
        paths = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        begin = time.perf_counter()
        self.process = subprocess.Popen([python, "-W", "ignore", "-c", call], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors,
                                        env={**os.environ, **quiet, "PYTHONPATH": paths})  # fmt: skip
        self.round()
        self.start_up = time.perf_counter() - begin

    def round(self) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        self.errors.seek(0)
        raise SystemExit(f"{self.name} ended:\n{self.errors.read()[-3000:]}")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def prepared(case: Case, folder: str) -> Case:
    """The case with a file of random images and, for a head, their features, which ours caches."""
    from fedhalt.simulation import RunSpec
    from fedhalt.simulation.federation import Federation

    draw, content = np.random.default_rng(0), {}
    for split, n in (("train", case.clients * case.each), ("val", 16), ("test", 16)):
        content[f"{split}_images"] = draw.integers(0, 256, (n, 28, 28, 3), dtype=np.uint8)
        content[f"{split}_labels"] = draw.integers(0, CLASSES, (n, 1), dtype=np.uint8)
    made = f"{folder}/{case.clients}-{case.each}-{case.head}.npz"
    np.savez(made, **content)
    if case.head:
        spec = RunSpec(data=made, model="probe:tf_efficientnet_lite0", pretrained=True, skew="iid", cohort=1, clients=1)
        content["features"] = Federation(spec).data.train.images.numpy()
        np.savez(made, **content)
    return Case(**{**asdict(case), "file": made})


def race(title: str, case: Case, peers: list[str], rounds: int, pfl_python: str) -> None:
    pythons = {name: pfl_python if name.startswith("pfl") else sys.executable for name in peers}
    running = [Contender("ours", case, sys.executable)]
    try:
        running += [Contender(name, case, pythons[name]) for name in peers]
        times: dict[str, list[float]] = {each.name: [] for each in running}
        for _ in range(rounds):
            for each in running:
                times[each.name].append(each.round())
    finally:
        for each in running:
            each.end()
    print(f"{title}: {case.cohort} of {case.clients} clients of {case.each}, epochs {case.epochs}")
    for each in running:
        found = times[each.name]
        ratios = [theirs / mine for theirs, mine in zip(found, times["ours"], strict=True)]
        print(f"  {each.name:11} {statistics.median(found):7.3f} s a round ({min(found):.3f} to {max(found):.3f})"
              f"   ours is {statistics.median(ratios):5.2f} x faster ({min(ratios):.2f} to {max(ratios):.2f})"
              f"   start-up {each.start_up:5.1f} s", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--without", nargs="*", default=[], choices=PEERS)
    parser.add_argument("--pfl", default=str(HERE.parent / ".venv/pfl/bin/python"), help="the python that has pfl")
    parser.add_argument("--quick", action="store_true", help="little work and two repetitions: does it run?")
    given = parser.parse_args()
    peers = [name for name in PEERS if name not in given.without]
    if any(name.startswith("pfl") for name in peers) and not Path(given.pfl).exists():
        parser.error(f"no {given.pfl}: scripts/adapter-env pfl makes it, or add --without pfl pfl-single")
    with tempfile.TemporaryDirectory() as folder:
        for title in given.cases:
            case = prepared((QUICK if given.quick else CASES)[title], folder)
            race(title, case, peers, 2 if given.quick else given.rounds, given.pfl)


if __name__ == "__main__":
    main()
