"""A researcher's program on the example, which keeps every model: python … full|stop|resume FOLDER OPTIONS."""

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "fedbiomed")]

from experiment import Experiment, make_experiment

from fedhalt.integrations.fedbiomed import run_until

what, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
folder.mkdir(exist_ok=True)
experiment = Experiment.load_breakpoint() if what == "resume" else make_experiment(rounds=9)
once = experiment.run_once


def kept(*args, **kwargs):
    ran = once(*args, **kwargs)
    path = folder / f"{experiment.round_current()}.npz"
    model = experiment.training_plan().after_training_params()
    np.savez(folder / "writing.npz", **{name: value.numpy() for name, value in model.items()})
    (folder / "writing.npz").rename(path)
    return ran


start = experiment.training_plan().after_training_params()
np.savez(folder / "0.npz", **{name: value.detach().numpy() for name, value in start.items()})
experiment.run_once = kept
if what == "full":
    experiment.run()
else:
    watch = run_until(experiment, **options)
    final = experiment.training_plan().after_training_params()
    np.savez(folder / "final.npz", **{name: value.numpy() for name, value in final.items()})
    (folder / "told").write_text(f"{watch.told}\n{len(experiment.training_replies())}")
