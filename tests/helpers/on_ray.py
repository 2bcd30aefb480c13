"""Runs strategies and methods on Flower's simulation engine, real Ray actors, and prints a line of JSON for each.

python on_ray.py strategies FedAvg FedAdam …      python on_ray.py methods scaffold …
"""

import json
import random
import sys
from functools import cache

import numpy as np
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from grid import pulling_app

from fedhalt.integrations.flower import EarlyStopping

ROUNDS = 4


def strategies(names):
    from test_flower import MODS, NODES, STRATEGIES, start_arrays

    def mods(name):
        return MODS.get(name, [])

    for wanted in ([], *MODS.values()):
        chosen = [name for name in names if mods(name) == wanted]
        if not chosen:
            continue

        def server(grid, context, chosen=chosen):
            for name in chosen:
                random.seed(0)
                np.random.seed(0)
                strategy = EarlyStopping(STRATEGIES[name](), threshold=0.05, patience=3)
                arrays = start_arrays(counter=name != "QFedAvg" and "Privacy" not in name)
                result = strategy.start(grid, arrays, 40)
                say(name, strategy.status, result, list(result.evaluate_metrics_clientapp))

        simulate(server, pulling_app(*wanted), NODES)


@cache
def federation():
    import torch

    from fedhalt.simulation.federation import Federation
    from fedhalt.simulation.spec import RunSpec

    torch.set_num_threads(1)
    return Federation(RunSpec(data="digits", clients=6, cohort=3, epochs=1, batch=64, lr=0.05, evaluate_every=0))


def of_node(context):
    return federation()


def methods(names):
    from flwr.app import ArrayRecord

    from fedhalt import GrowthRate
    from fedhalt.integrations.flower import FedMethod, client_app

    def server(grid, context):
        task = federation()
        for name in names:
            method = FedMethod(name, cohort=3, fraction_evaluate=0.0)
            strategy = EarlyStopping(method, rule=GrowthRate(1e-9))
            start = ArrayRecord(task.state_dict(task.theta0(), task.shared()))
            say(name, None, strategy.start(grid, start, ROUNDS), [])

    simulate(server, client_app(of_node), 6)


def simulate(run, app, nodes):
    server = ServerApp()
    server.main()(run)
    run_simulation(server, app, nodes, backend_config={"client_resources": {"num_cpus": 1}})


def say(name, status, result, evaluated):
    model = [array.numpy().ravel().tolist() for array in result.arrays.values()]
    found = {"name": name, "round": status and status.round, "value": status and status.value, "evaluated": evaluated}
    print("\n" + json.dumps({**found, "model": model}), flush=True)


def main():
    {"strategies": strategies, "methods": methods}[sys.argv[1]](sys.argv[2:])
