"""What does early stopping cost a Flower round? The wrapper's own time against the round's, on Ray actors.

Clients that do next to nothing (they add noise to the model) make the round as cheap as Flower allows, so the share
is the largest that a user can see; real training makes it smaller.

    python benchmarks/flower.py [--sizes 1e5 1e6 1e7] [--rounds 6] [--nodes 4]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")


def simulate(size: int, rounds: int, nodes: int, state: str | None, average: int | None) -> None:
    """One federation; prints the median seconds of a round and of the wrapper's part in it."""
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    from fedhalt.integrations.flower import EarlyStopping

    client, server = ClientApp(), ServerApp()

    @client.train()
    def train(message, context):
        value = message.content["arrays"]["w"].numpy()
        moved = ArrayRecord({"w": Array(value + np.float32(0.01 * (1 + context.node_config["partition-id"])))})
        return Message(RecordDict({"arrays": moved, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    @server.main()
    def main(grid, context):
        strategy = EarlyStopping(FedAvg(fraction_evaluate=0.0), threshold=1e-9, state=state, average=average)
        run, ends, ours = strategy.run, [], []

        def timed(arrays, begin_round=run.begin_round):
            begin = time.perf_counter()
            begin_round(arrays)
            ends.append(time.perf_counter())
            ours.append(ends[-1] - begin)

        run.begin_round = timed
        strategy.start(grid, ArrayRecord({"w": Array(np.zeros(size, np.float32))}), num_rounds=rounds + 2)
        print(
            json.dumps({"round": statistics.median(np.diff(ends)[1:]), "ours": statistics.median(ours[2:])}), flush=True
        )

    run_simulation(server, client, nodes, backend_config={"client_resources": {"num_cpus": 1}})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=4)
    arguments = parser.parse_args()
    print("parameters   state   average   a round   of it ours   share")
    for size in map(int, arguments.sizes):
        for kept, average in ((False, None), (False, 10), (True, None), (True, 10)):
            with tempfile.TemporaryDirectory() as folder:
                state = f"{folder}/state" if kept else None
                settings = (size, arguments.rounds, arguments.nodes, state, average)
                call = f"import flower; flower.simulate(*{settings!r})"
                here = os.path.dirname(os.path.abspath(__file__))
                code = f"import sys; sys.path.insert(0, {here!r}); {call}"
                done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1200)
            lines = [line for line in done.stdout.splitlines() if line.startswith('{"round"')]
            if not lines:
                raise SystemExit(done.stderr[-2000:])
            found = json.loads(lines[-1])
            share = found["ours"] / found["round"]
            saved = "saved" if kept else "no"
            row = f"{size:10.0e}   {saved:5}   {average or 'no':>7}   {found['round']:5.3f} s"
            print(f"{row}   {found['ours']:8.4f} s   {share:5.1%}", flush=True)
