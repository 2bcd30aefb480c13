"""Model and data of the app, from its run configuration; the same on the server and on every node."""

from functools import cache

import torch
from flwr.app import Context

from fedhalt.simulation.federation import Federation
from fedhalt.simulation.spec import RunSpec

FIELDS = ("data", "clients", "skew", "c", "seed", "method", "epochs", "batch", "lr")


def federation(context: Context) -> Federation:
    """The federation that the run configuration describes, built once per process."""
    config = context.run_config
    spec = RunSpec(cohort=1, **{field: config[field] for field in FIELDS})
    return _built(spec, str(config["data-root"]) or None)


@cache
def _built(spec: RunSpec, data_root: str | None) -> Federation:
    torch.set_num_threads(1)
    return Federation(spec, data_root)
