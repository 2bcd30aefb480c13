"""A search whose process is killed after its first change of the study, its second, and so on: what comes after.

    python study_killed_at_changes.py FOLDER      prints a line of JSON: for each kill, what the next process made of it

One fork a kill, so that imports are paid once; in a process of its own, because forks want one without other threads.
"""

import json
import os
import shutil
import signal
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import optuna

from fedhalt.tuning import plans
from fedhalt.tuning.samplers.optuna import StudySampler
from fedhalt.tuning.trial import Outcome
from helpers.specs import SMALL

CHANGES = ("create_new_trial", "set_trial_param", "set_trial_state_values", "set_trial_user_attr")
"""What writes to a storage of Optuna's."""
TABLE = {"space": {**SMALL, "lr": {"low": 0.01, "high": 0.1, "log": True}}, "rounds": 1, "sampler": "tpe", "trials": 3}


def complete(trial):
    return Outcome("complete", run=f"runs/{trial.spec.id}", rounds=1, reason="budget", value=trial.spec.lr)


def search_and_die(number, plan, told):
    """Asks, tells and gives back trials, and is killed after that many changes of the storage, or in the end."""
    left = [number]
    sampler = StudySampler(plan)
    storage = sampler.study._storage
    for name in CHANGES:
        change = getattr(storage, name)

        def counted(*args, change=change, **settings):
            result = change(*args, **settings)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(storage, name, counted)
    first, second = (sampler.ask() for _ in range(2))
    os.write(told, f"{first.spec.id}\n{second.spec.id}\n".encode())
    first.outcome, second.outcome = complete(first), Outcome("interrupted")
    sampler.tell(first)
    sampler.tell(second)
    again = sampler.ask()
    os.write(told, f"{again.spec.id}\nend\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after(number, plan):
    """The runs that a killed process began, and whether it came to its end."""
    begun, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            search_and_die(number, plan, told)
        finally:
            os._exit(1)
    os.close(told)
    with open(begun) as pipe:
        runs = pipe.read().split()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it ended by itself"
    return [run for run in runs if run != "end"], "end" in runs


def ended(plan):
    """Another process goes on to the end: the runs that are complete, and what is left open."""
    sampler = StudySampler(plan)
    while (trial := sampler.ask()) is not None:
        trial.outcome = complete(trial)
        sampler.tell(trial)
    waits = sampler.waits()
    trials = sampler.study.get_trials()
    sampler.close()
    return {
        "complete": [trial.user_attrs["run"] for trial in trials if trial.state.name == "COMPLETE"],
        "open": [trial.number for trial in trials if trial.state.name not in ("COMPLETE", "FAIL")],
        "waits": waits,
        "left": sorted(path.name for path in (Path(plan.out) / ".sweep").iterdir()),
    }


def main(folder):
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    new, found = Path(folder, "new"), []
    StudySampler(plans.plan({**TABLE, "out": str(new)})).close()
    for number in range(1, 200):
        out = Path(folder, f"killed-{number}")
        out.mkdir()
        shutil.copy(new / "study.db", out)
        plan = plans.plan({**TABLE, "out": str(out)})
        begun, came_to_the_end = killed_after(number, plan)
        found.append({"begun": begun, **ended(plan)})
        if came_to_the_end:
            return print(json.dumps(found))
    raise AssertionError("it never came to its end")


if __name__ == "__main__":
    main(*sys.argv[1:])
