"""A researcher's program on the example, which keeps every model: python … full|stop|resume FOLDER OPTIONS [DIES].

It can die, as if killed, before round 5 is sent ("round"), or before the breakpoint of round 4 ("breakpoint").
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "fedbiomed")]

from experiment import Experiment, make_experiment, wait_for_hospitals

from fedhalt.integrations.fedbiomed import run_until

what, folder, options, dies = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]
folder.mkdir(exist_ok=True)
if what == "resume":
    experiment = Experiment.load_breakpoint()
    experiment.set_round_limit(9)
    wait_for_hospitals(experiment)
else:
    experiment = make_experiment(rounds=9)
once, save = experiment.run_once, experiment.breakpoint


def keep(name):
    model = experiment.training_plan().after_training_params()
    np.savez(folder / f"{name}.npz", **{key: value.detach().numpy() for key, value in model.items()})


def die_at(place):
    if dies == [place] and experiment.round_current() == 4:
        os.kill(os.getpid(), signal.SIGKILL)


def run_once(*args, **kwargs):
    die_at("round")
    ran = once(*args, **kwargs)
    keep(experiment.round_current())
    return ran


def breakpoint():
    die_at("breakpoint")
    save()


keep(experiment.round_current())
experiment.run_once, experiment.breakpoint = run_once, breakpoint
if what == "full":
    experiment.run()
else:
    watch = run_until(experiment, **options)
    keep("final")
    if watch.averages:
        experiment.training_plan().set_model_params(watch.model("average"))
        keep("average")
    (folder / "told").write_text(f"{watch.told}\n{len(experiment.training_replies())}")
