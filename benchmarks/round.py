"""What does a federated round cost? Ours, a tight loop of the same work, Flower's Ray simulation and pfl, in one run.

Work: 100 clients of 120 images (28 x 28 x 3, random), 10 a round, 5 epochs, batch 256, the small CNN, momentum, weight
decay, clipping; training only. The loop and ours are interleaved round by round and compared as ratios of medians; the
frameworks run after one another on the same model, data and schedule, with their start-up left out.

    python benchmarks/round.py [--rounds 8] [--without flower pfl]      pfl: pip install pfl
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")

from fedhalt import engine
from fedhalt.model import SmallCNN, normalised
from fedhalt.spec import RunSpec
from fedhalt.task import Federation

CLIENTS, EACH, COHORT, EPOCHS, BATCH, LR = 100, 120, 10, 5, 256, 0.01
IMPORT = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import round as bench"
DATA = Path(tempfile.gettempdir()) / "fedhalt-benchmark.npz"


def make_data() -> None:
    draw = np.random.default_rng(0)
    content = {}
    for split, n in (("train", CLIENTS * EACH), ("val", 100), ("test", 100)):
        content[f"{split}_images"] = draw.integers(0, 256, (n, 28, 28, 3), dtype=np.uint8)
        content[f"{split}_labels"] = draw.integers(0, 8, (n, 1), dtype=np.uint8)
    np.savez(DATA, **content)


def spec(**settings) -> RunSpec:
    fixed = {"data": str(DATA), "skew": "iid", "clients": CLIENTS, "cohort": COHORT, "epochs": EPOCHS, "batch": BATCH}
    return RunSpec(**{**fixed, "lr": LR, "evaluate_every": 0, **settings})


def train_plainly(model, images, labels, optimizer) -> None:
    """One client's visit as everybody writes it."""
    model.train()
    for _ in range(EPOCHS):
        for index in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[index]), labels[index]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()


def tight_loop():
    """One thread, float images resident in channels_last, one model: a function that does one round."""
    content = np.load(DATA)
    images = normalised(torch.from_numpy(content["train_images"]).permute(0, 3, 1, 2))
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.from_numpy(content["train_labels"][:, 0].astype(np.int64))
    model = SmallCNN(3, 8).to(memory_format=torch.channels_last)
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def one_round() -> None:
        sums = None
        for client in np.random.default_rng(0).choice(CLIENTS, COHORT, replace=False):
            model.load_state_dict(start)
            optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=0.001)
            mine = slice(client * EACH, (client + 1) * EACH)
            train_plainly(model, images[mine], labels[mine], optimizer)
            flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
            sums = flat if sums is None else sums + flat

    return one_round


def ours_and_loop(rounds: int) -> dict[str, float]:
    torch.set_num_threads(1)
    federation = Federation(spec())
    works = {"loop": tight_loop()}
    with ThreadPoolExecutor(2) as pool:
        pair = [tight_loop(), tight_loop()]
        works["both"] = lambda: list(pool.map(lambda work: work(), pair))
        for workers, each in ((1, map), (2, pool.map)):
            generator = engine.rounds(federation.method(), federation, each=each)
            works[f"ours-{workers}"] = lambda generator=generator: next(generator)
        times: dict[str, list[float]] = {name: [] for name in works}
        for r in range(rounds + 1):
            for name, work in works.items():
                begin = time.perf_counter()
                work()
                if r:  # the first warms up
                    times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def run_flower(rounds: int) -> None:
    import torch
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client_app = ClientApp()

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        import round as bench

        torch.set_num_threads(1)
        images, labels = bench.resident()
        client = int(context.node_config["partition-id"])
        model = SmallCNN(3, 8).to(memory_format=torch.channels_last)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        mine = slice(client * EACH, (client + 1) * EACH)
        optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=0.001)
        train_plainly(model, images[mine], labels[mine], optimizer)
        content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": EACH})}
        return Message(RecordDict(content), reply_to=message)

    class Timed(FedAvg):
        ends: list[float] = []  # noqa: RUF012

        def aggregate_train(self, server_round, replies):
            result = super().aggregate_train(server_round, replies)
            self.ends.append(time.perf_counter())
            return result

    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = Timed(fraction_train=COHORT / CLIENTS, fraction_evaluate=0.0, min_train_nodes=COHORT)
        strategy.start(grid=grid, initial_arrays=ArrayRecord(SmallCNN(3, 8).state_dict()), num_rounds=rounds + 1)
        gaps = np.diff(Timed.ends)
        print(f"seconds {statistics.median(gaps)}", flush=True)

    run_simulation(server_app, client_app, CLIENTS, backend_config={"client_resources": {"num_cpus": 1}})


_RESIDENT = None


def resident():
    """The data of this process, loaded once."""
    global _RESIDENT
    if _RESIDENT is None:
        content = np.load(DATA)
        images = normalised(torch.from_numpy(content["train_images"]).permute(0, 3, 1, 2))
        labels = torch.from_numpy(content["train_labels"][:, 0].astype(np.int64))
        _RESIDENT = images.contiguous(memory_format=torch.channels_last), labels
    return _RESIDENT


def run_pfl(rounds: int) -> None:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data import FederatedDataset
    from pfl.data.dataset import Dataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)
    images, labels = resident()

    class Net(SmallCNN):
        def loss(self, x, y, eval=False):
            return torch.nn.functional.cross_entropy(self(x), y)

        def metrics(self, x, y, eval=True):
            return {"loss": Weighted(self.loss(x, y).item(), 1)}

    net = Net(3, 8).to(memory_format=torch.channels_last)
    model = PyTorchModel(
        net,
        local_optimizer_create=lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9, weight_decay=0.001),
        central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0),
    )
    draw = np.random.default_rng(0)

    def client(n):
        mine = slice(n * EACH, (n + 1) * EACH)
        return Dataset((images[mine], labels[mine]), user_id=str(n))

    data = FederatedDataset(client, lambda: int(draw.integers(CLIENTS)))
    ends = []

    class Clock(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            ends.append(time.perf_counter())
            return False, Metrics()

    params = NNAlgorithmParams(
        central_num_iterations=rounds + 2, evaluation_frequency=10**6, train_cohort_size=COHORT, val_cohort_size=0
    )
    train = NNTrainHyperParams(
        local_learning_rate=LR, local_num_epochs=EPOCHS, local_batch_size=BATCH, local_max_grad_norm=10.0
    )
    FederatedAveraging().run(
        algorithm_params=params,
        backend=SimulatedBackend(training_data=data, val_data=None),
        model=model,
        model_train_params=train,
        model_eval_params=NNEvalHyperParams(local_batch_size=BATCH),
        callbacks=[Clock()],
    )
    print(f"seconds {statistics.median(np.diff(ends)[1:])}", flush=True)


def run_ours(rounds: int) -> None:
    torch.set_num_threads(1)
    federation = Federation(spec())
    with ThreadPoolExecutor(2) as pool:
        for _ in itertools.islice(engine.rounds(federation.method(), federation, each=pool.map), rounds):
            pass
    print("seconds 0")


def run_memory(clients: int, method: str) -> None:
    """Peak resident memory, in MB, of three rounds with that many clients; the data are the same 12,000 images."""
    torch.set_num_threads(1)
    federation = Federation(spec(clients=clients, method=method))
    for _ in itertools.islice(engine.rounds(federation.method(), federation), 3):
        pass
    print("seconds", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _seconds(code: str) -> float:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1200)
    lines = [line for line in done.stdout.splitlines() if line.startswith("seconds ")]
    if not lines:
        raise SystemExit(done.stderr[-2000:])
    return float(lines[-1].split()[1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--without", nargs="*", default=[], choices=["flower", "pfl"])
    arguments = parser.parse_args()
    make_data()
    found = ours_and_loop(arguments.rounds)
    cores, slower, faster = (
        2 * found["loop"] / found["both"],
        found["ours-1"] / found["loop"],
        found["loop"] / found["ours-2"],
    )
    print(f"tight loop, one thread     {found['loop']:.2f} s a round")
    print(f"two such loops at once     {found['both']:.2f} s   {cores:.2f} x is what two cores give here")
    print(f"ours, one worker           {found['ours-1']:.2f} s   {slower:.2f} x the loop's time")
    print(f"ours, two workers          {found['ours-2']:.2f} s   {faster:.2f} x faster than the loop")
    begin = time.perf_counter()
    _seconds(f"{IMPORT}\nbench.run_ours({arguments.rounds + 1})")
    whole = time.perf_counter() - begin
    for name in ("flower", "pfl"):
        if name not in arguments.without:
            begin = time.perf_counter()
            seconds = _seconds(f"{IMPORT}\nbench.run_{name}({arguments.rounds})")
            total = time.perf_counter() - begin
            steady, ratio, n = seconds / found["ours-2"], total / whole, arguments.rounds + 1
            print(f"{name:26} {seconds:.2f} s   ours with two workers is {steady:.2f} x faster;", end=" ")
            print(f"with start-up {total:.0f} s for {n} rounds, ours {whole:.0f} s: {ratio:.2f} x")
    for method in ("fedavg", "scaffold"):
        few, many = (_seconds(f"{IMPORT}\nbench.run_memory({n}, {method!r})") for n in (100, 10_000))
        print(f"peak memory, {method:13} {few:.0f} MB with 100 clients, {many:.0f} MB with 10,000")
