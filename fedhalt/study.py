"""Optuna's samplers for a sweep: a study in a storage that several processes and machines share.

A process that dies leaves its trials RUNNING. It also leaves a lock that nobody holds any more, by which the next
process knows: it closes such a trial and proposes the same parameters again, and so the same run folder, which goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .check import FedhaltError, MissingExtra, known

try:
    import optuna
    from optuna.storages.journal import JournalFileBackend
except ImportError:
    raise MissingExtra("Optuna's samplers", "optuna", "optuna") from None

from .plan import OBJECTIVES, Plan
from .space import Choices, Dimension
from .trial import Trial

optuna.logging.set_verbosity(optuna.logging.WARNING)  # the sweep has its own table
State = optuna.trial.TrialState
SCHEMES = ("sqlite", "journal", "postgresql", "mysql")
DRIVERS = {"psycopg": "'psycopg[binary]'", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
"""Modules that SQLAlchemy asks for, which one depends on its release, and the packages that bring them."""

WORKER, AGAIN = "fedhalt_worker", "fedhalt_again"


def storage_of(url: str) -> optuna.storages.BaseStorage:
    """The storage behind a URL: sqlite:///study.db, journal:///study.log, postgresql://user:password@host/base."""
    scheme, found, rest = url.partition("://")
    shown = re.sub(r"//[^@/]*@", "//…@", url)  # a password has no place in a message
    if not found:
        raise FedhaltError(f"a storage is a URL such as sqlite:///study.db, not {shown!r}")
    known("storage", scheme.partition("+")[0], SCHEMES)
    try:
        if scheme in ("sqlite", "journal"):
            folder = Path(rest.removeprefix("/")).absolute().parent
            if not folder.is_dir():
                raise FedhaltError(f"the storage {shown} is not there: the folder {folder} does not exist")
        if scheme == "journal":
            backend = JournalFileBackend(rest.removeprefix("/"))
            return optuna.storages.JournalStorage(backend)
        return optuna.storages.RDBStorage(url)
    except ImportError as error:
        module = getattr(error.__cause__ or error.__context__ or error, "name", None) or "the driver"
        package = DRIVERS.get(module, module)
        raise FedhaltError(
            f"the storage {shown} needs {module}, which is not installed: pip install {package}"
        ) from None
    except FedhaltError:
        raise
    except Exception as error:  # whatever the driver raises: no server, no permission, no such base
        first = (str(error.__cause__ or error).strip().splitlines() or [""])[0]
        raise FedhaltError(f"the storage {shown} cannot be used: {first}") from None


def sampler_named(name: str, seed: int) -> optuna.samplers.BaseSampler:
    """The sampler of that name; trials of other processes that still run count as poor ones for tpe."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "tpe":
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        if name == "qmc":
            return optuna.samplers.QMCSampler(seed=seed, warn_independent_sampling=False)
        return optuna.samplers.GPSampler(seed=seed)


class Study:
    """A sampler of the sweep: asks an Optuna study and tells it the objective at the round of the stop.

    A screened trial is told as pruned, without a value: Optuna must not read a distance as an objective.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.out = plan, Path(plan.out)
        if plan.storage is None:
            self.out.mkdir(parents=True, exist_ok=True)
        self.storage = storage_of(plan.storage or f"sqlite:///{self.out / 'study.db'}")
        self.worker = uuid.uuid4().hex
        self._open: set[int] = set()
        with self._alone():  # two processes that create one study at once would trip over each other
            direction: Any = OBJECTIVES[plan.objective]
            self.study = optuna.create_study(
                storage=self.storage, study_name=plan.study, direction=direction, load_if_exists=True,
                sampler=sampler_named(plan.sampler, plan.sampler_seed),
            )  # fmt: skip
        if self.study.direction.name.lower() != direction:
            raise FedhaltError(
                f"the study {plan.study} in the storage was begun with the other direction than {plan.objective} has: "
                f"{self.study.direction.name.lower()}; name another study"
            )
        self._alive = self._hold(self.worker)  # until this process ends, however it ends

    @property
    def total(self) -> int:
        return int(self.plan.trials or 0)

    def ask(self) -> Trial | None:
        with self._alone():
            self._take_over()
            trials = self.study.get_trials(deepcopy=False)
            counted = [trial for trial in trials if AGAIN not in trial.user_attrs and trial.state != State.WAITING]
            if len(counted) >= self.total and not any(trial.state == State.WAITING for trial in trials):
                return None
            if (
                self.plan.sampler != "qmc"
            ):  # whose place in its sequence is in the study; two processes must not draw alike
                self.study.sampler = sampler_named(self.plan.sampler, self.plan.sampler_seed + len(trials))
            asked = self.study.ask()
            asked.set_user_attr(WORKER, self.worker)
            try:
                spec = self.plan.space.draw(lambda name, dim: suggest(asked, name, dim))
            except ValueError as error:
                self.study.tell(asked, state=State.FAIL)
                raise FedhaltError(f"the study {self.plan.study} is of another space: {error}") from None
            asked.set_user_attr("run", spec.id)
        self._open.add(asked.number)
        return Trial(asked.number, spec, self.plan.space.label(spec), token=asked)

    def tell(self, trial: Trial) -> None:
        self._tell(trial)
        self._open.discard(trial.number)

    def _tell(self, trial: Trial) -> None:
        if trial.state in ("interrupted", "elsewhere", "lost"):
            self._propose_again(trial.token.number)
            return
        value = trial.value
        for name in ("rounds", "reason", "error"):
            if name in trial.outcome:
                trial.token.set_user_attr(name, trial.outcome[name])
        if trial.state == "screened":
            self.study.tell(trial.token, state=State.PRUNED)
        elif value is None or value != value:
            self.study.tell(trial.token, state=State.FAIL)
        else:
            self.study.tell(trial.token, value)

    def close(self) -> None:
        """The lock is let go; a trial that was never told is left to the next process by it."""
        if self._alive is not None:
            if not self._open:
                (self.out / ".sweep" / self.worker).unlink(missing_ok=True)
            self._alive.close()

    def _take_over(self) -> None:
        """Trials whose process is gone are proposed again."""
        for trial in self.study.get_trials(deepcopy=False, states=(State.RUNNING,)):
            worker = trial.user_attrs.get(WORKER)
            if worker and worker != self.worker and self._gone(worker):
                self._propose_again(trial.number)

    def _propose_again(self, number: int) -> None:
        trial = self.study.get_trials(deepcopy=False)[number]
        with contextlib.suppress(RuntimeError):  # finished meanwhile
            self.storage.set_trial_user_attr(trial._trial_id, AGAIN, True)
            self.study.tell(number, state=State.FAIL)
            self.study.enqueue_trial(trial.params, user_attrs={"goes_on_from": number})

    def _hold(self, name: str) -> IO[str] | None:
        """A lock file, or None if somebody holds it."""
        folder = self.out / ".sweep"
        folder.mkdir(exist_ok=True)
        file = open(folder / name, "w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        return file

    def _gone(self, worker: str) -> bool:
        """Whether nobody holds that worker's lock; a worker that never had one here is not ours to judge."""
        path = self.out / ".sweep" / worker
        if not path.exists():
            return False
        lock = self._hold(worker)
        if lock is None:
            return False
        path.unlink(missing_ok=True)
        lock.close()
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process of the sweep at a time: nobody counts, takes over or asks in between."""
        folder = self.out / ".sweep"
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def suggest(trial: optuna.Trial, name: str, dim: Dimension) -> Any:
    """Optuna's word for a dimension."""
    if isinstance(dim, Choices):
        return trial.suggest_categorical(name, dim.values)
    low, high = dim.ends()
    if dim.integer:
        return trial.suggest_int(name, low, high, step=int(dim.step or 1), log=dim.log)
    return trial.suggest_float(name, low, high, step=dim.step, log=dim.log)
