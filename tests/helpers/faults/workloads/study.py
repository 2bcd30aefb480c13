"""A search by Optuna: run folders and a study, which says what was proposed and what became of it.

Which configurations are proposed depends on how often it was killed; that there are as many as were asked for, each
trained to its end in one folder to the same numbers, and that the best of them is known, does not.
"""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import optuna
from optuna.storages._rdb.storage import _VersionManager

from fedhalt.simulation import runner
from fedhalt.tuning import sweeps
from helpers.faults.workloads import grid
from helpers.faults.workloads.grid import SPACE, TRIALS

_make_script, _scripts = _VersionManager._create_alembic_script, []


def _script(manager):
    """How Optuna's tables came about, read once: at every opening of a database it would be most of the work."""
    if not _scripts:
        _scripts.append(_make_script(manager))
    return _scripts[0]


_VersionManager._create_alembic_script = _script


class Workload(grid.Workload):
    name, short, long, every = "study", 1, 20, 8
    table: ClassVar[dict[str, Any]] = {
        "sampler": "tpe",
        "trials": TRIALS,
        "space": {**SPACE, "lr": {"low": 0.01, "high": 0.05}},
    }

    def prepare(self, folder):
        """The database: Optuna leaves one that it could not finish creating unusable, and refuses it from then on."""
        sweeps.sampler_of(self.plan(folder)).close()

    def seen(self, folder):
        self(folder)
        study = optuna.load_study(study_name="fedhalt", storage=f"sqlite:///{folder / 'runs' / 'study.db'}")
        complete = {trial.user_attrs["run"]: trial.value for trial in study.trials if trial.state.name == "COMPLETE"}
        recorded = grid.rows(folder)
        return {
            "told": complete == {trial.spec.id: trial.value for trial in self.trials},
            "ended": {trial.state.name for trial in study.trials} <= {"COMPLETE", "FAIL"},
            "trials": len(complete),
            "runs": set(recorded) == set(complete),
            "right": recorded == self.undisturbed(),
            "best": self.trials.best.spec.id == min(complete, key=complete.get),
            "left": sorted(path.name for path in (folder / "runs" / ".sweep").iterdir()),
        }

    def undisturbed(self):
        """What the same configurations record elsewhere."""
        with tempfile.TemporaryDirectory() as elsewhere:
            for trial in self.trials:
                runner.run(trial.spec, Path(elsewhere) / "runs", rounds=self.rounds, watch=[], workers=1)
            return grid.rows(Path(elsewhere))
