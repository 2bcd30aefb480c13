"""`fx aggregator start` on 127.0.0.1 only, which keeps every model and says what it hands out: python … FOLDER.

Collaborators are told to ask again after a second rather than ten.
"""

import sys
from pathlib import Path

import numpy as np
from openfl.callbacks import LambdaCallback
from openfl.component.aggregator.aggregator import Aggregator
from openfl.federated import Plan

kept = Path(sys.argv[1])
kept.mkdir(exist_ok=True)
Aggregator._get_sleep_time = staticmethod(lambda: 1)
plan = Plan.parse(Path("plan/plan.yaml").absolute(), cols_config_path=Path("plan/cols.yaml").absolute())
server = plan.get_server()
server.uri = f"127.0.0.1:{plan.config['network']['settings']['agg_port']}"
aggregator, ask = server.aggregator, server.aggregator.get_tasks


def keep(r, logs=None):
    found = aggregator.tensor_db.get_tensors_by_round_and_tags(r + 1, ("model",))
    np.savez(kept / "writing.npz", **{key.tensor_name: array for key, array in found.items() if array.ndim})
    (kept / "writing.npz").rename(kept / f"{r + 1}.npz")


def counted(collaborator):
    answer = ask(collaborator)
    if answer[0]:
        with (kept / "sent").open("a") as file:
            file.write(f"{collaborator} {answer[1]}\n")
    return answer


aggregator.callbacks.callbacks.append(LambdaCallback(on_round_end=keep))
aggregator.get_tasks = counted
server.serve()
