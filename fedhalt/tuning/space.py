"""A search space over every field of a run: fixed values, lists and ranges, checked before anything trains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FedhaltError, brief, flag, real, require_one_of
from ..methods import METHODS, hyperparameters
from ..simulation.seeds import rng
from ..simulation.spec import FIELDS, HYPERPARAMETERS, RunSpec

PHI = "phi"
"""Stands for the key hyperparameter of whichever method is chosen: lam, rho, alpha, …"""

NAMES = [*FIELDS, PHI, *HYPERPARAMETERS]
LIMIT = 100_000
"""Configurations that a grid may have; a larger one is a mistake, or a case for `random`."""

CORNERS = 4_096
"""Corners of a space with ranges that are checked before the first trial; beyond it as many random ones."""


@dataclass(frozen=True)
class Choices:
    """One of these values; a single one is fixed."""

    values: tuple[Any, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    def at(self, index: int) -> Any:
        return self.values[index]

    def draw(self, generator: Any) -> Any:
        return self.at(int(generator.integers(self.count)))

    def ends(self) -> tuple[Any, ...]:
        return self.values


@dataclass(frozen=True)
class Range:
    """A number from low to high, both included: even or, with `log`, even in its logarithm; or in steps."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    integer: bool = False

    @property
    def count(self) -> int | None:
        """How many numbers there are, None where there is no end of them."""
        step = self.step or (1 if self.integer else None)
        return None if step is None or self.log else math.floor((self.high - self.low) / step + 1e-9) + 1

    def at(self, index: int) -> Any:
        return self._number(self.low + index * (self.step or 1))

    def draw(self, generator: Any) -> Any:
        if self.count is not None:
            return self.at(int(generator.integers(self.count)))
        if not self.log:
            return self._number(generator.uniform(self.low, self.high))
        return self._number(math.exp(generator.uniform(math.log(self.low), math.log(self.high))))

    def ends(self) -> tuple[Any, ...]:
        return (self._number(self.low), self.at(self.count - 1) if self.count is not None else self._number(self.high))

    def _number(self, value: float) -> Any:
        bounded = min(max(value, self.low), self.high)  # exp(log(high)) may be a hair above high
        return round(bounded) if self.integer else round(bounded, 12) if self.step else bounded


Dimension = Choices | Range


class Space:
    """Dimensions by name. A hyperparameter applies to the methods that have it, and to no other.

    >>> space = Space({"method": ["fedavg", "fedprox"], "lam": [0.1, 0.01], "lr": 0.1})
    >>> [space.label(spec) for spec in space.grid()]
    ['fedavg', 'fedprox lam=0.1', 'fedprox lam=0.01']
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        if not isinstance(table, Mapping) or not table:
            raise FedhaltError("the space is empty: name at least one field, such as lr = [0.01, 0.1]")
        plain = {
            require_one_of("name in the space", key.replace("-", "_"), NAMES): value for key, value in table.items()
        }
        self.dimensions: dict[str, Dimension] = {name: dimension(name, value) for name, value in plain.items()}
        methods = self.dimensions.get("method", Choices(("fedavg",)))
        self.methods: tuple[str, ...] = tuple(require_one_of("method", name, METHODS) for name in methods.ends())
        for name in self.dimensions:
            self._check_applies(name)
        self._check_corners()

    def applies(self, name: str, method: str) -> bool:
        """Whether that method takes that name."""
        if name == PHI:
            return bool(METHODS[method].facts.phi)
        return name not in HYPERPARAMETERS or name in hyperparameters(method)

    def size(self) -> int | None:
        """The number of combinations, None where a range makes it infinite."""
        counts = [[dim.count for dim in self._of(method).values()] for method in self.methods]
        if any(count is None for own in counts for count in own):
            return None
        return sum(math.prod(count or 0 for count in own) for own in counts)

    def grid(self) -> list[RunSpec]:
        """Every combination once, in the order of the file."""
        for name, dim in self.dimensions.items():
            if dim.count is None:
                raise FedhaltError(f"a grid needs values: {name} is a range without a step; give a list or sample it")
        if (self.size() or 0) > LIMIT:
            raise FedhaltError(f"a grid of {self.size()} configurations is more than {LIMIT}: sample it")
        made = (
            self._spec(values)
            for values in self._product(lambda dim: [dim.at(index) for index in range(dim.count or 0)])
        )
        return list({spec.id: spec for spec in made}.values())  # c means nothing to iid: one run, not several

    def draw(self, choose: Callable[[str, Dimension], Any]) -> RunSpec:
        """One configuration; `choose` is asked for what is not fixed, the method first."""
        method = self.methods[0] if len(self.methods) == 1 else choose("method", self.dimensions["method"])
        values: dict[str, Any] = {"method": method}
        for name, dim in self._of(method).items():
            if name != "method":
                values[name] = dim.at(0) if dim.count == 1 else choose(name, dim)
        return self._spec(values)

    def random(self, trials: int, seed: int) -> list[RunSpec]:
        """That many different configurations, or all where there are fewer; the same ones for the same seed."""
        found: dict[str, RunSpec] = {}
        for index in itertools.count():
            if len(found) >= trials or index >= 50 * trials + 100:
                return list(found.values())
            generator = rng(seed, "sweep", index)
            spec = self.draw(lambda name, dim: dim.draw(generator))  # noqa: B023 - used up at once
            found.setdefault(spec.id, spec)
        raise AssertionError

    def label(self, spec: RunSpec) -> str:
        """What tells this configuration from the others of the space."""
        names = [name for name, dim in self.dimensions.items() if dim.count != 1]
        chosen = dict(spec.hyperparameters)
        parts: list[str] = []
        for name in names:
            if name == "method":
                parts.insert(0, spec.method)
            elif self.applies(name, spec.method):
                several = METHODS[spec.method].facts.phi if name == PHI else (name,)
                values = {each: chosen[each] if each in chosen else getattr(spec, each) for each in several}
                parts += [f"{each}={v:.4g}" if isinstance(v, float) else f"{each}={v}" for each, v in values.items()]
        return " ".join(parts) or spec.method

    def _of(self, method: str) -> dict[str, Dimension]:
        """The dimensions as that method sees them."""
        own = {name: dim for name, dim in self.dimensions.items() if self.applies(name, method)}
        return {**own, "method": Choices((method,))}

    def _product(self, values: Callable[[Dimension], Sequence[Any]]) -> Iterator[dict[str, Any]]:
        for method in self.methods:
            own = self._of(method)
            for chosen in itertools.product(*(values(dim) for dim in own.values())):
                yield dict(zip(own, chosen, strict=True))

    def _spec(self, values: Mapping[str, Any]) -> RunSpec:
        method = values["method"]
        chosen = {name: value for name, value in values.items() if name in HYPERPARAMETERS}
        if PHI in values:
            chosen |= dict.fromkeys(METHODS[method].facts.phi, values[PHI])
        fields = {name: value for name, value in values.items() if name in FIELDS}
        return RunSpec(**fields, hyperparameters=tuple(chosen.items()))

    def _check_applies(self, name: str) -> None:
        """A hyperparameter that no method of the space has, or that is named twice, is a mistake."""
        takers = [method for method in METHODS if self.applies(name, method)]
        if not set(takers) & set(self.methods):
            raise FedhaltError(
                f"{name} is not a hyperparameter of {' or '.join(self.methods)}; it belongs to {', '.join(takers)}"
            )
        for method in self.methods if name == PHI else ():
            twice = [each for each in METHODS[method].facts.phi if each in self.dimensions]
            if twice:
                raise FedhaltError(f"phi is {twice[0]} for {method}: give one of the two")

    def corners(self) -> Iterator[RunSpec]:
        """Configurations at the ends of every dimension: all of them, or many where there are too many."""
        return map(self._spec, self._corners())

    def _corners(self) -> Iterator[dict[str, Any]]:
        if math.prod(len(dim.ends()) for dim in self.dimensions.values()) <= CORNERS:
            return self._product(lambda dim: dim.ends())
        return map(self._corner, range(CORNERS))

    def _corner(self, index: int) -> dict[str, Any]:
        generator = rng(0, "corner", index)
        own = self._of(self.methods[index % len(self.methods)])
        return {name: dim.ends()[int(generator.integers(len(dim.ends())))] for name, dim in own.items()}

    def _check_corners(self) -> None:
        """Contradictions end the sweep before its first round, not in the middle of the night."""
        refused, total = [], 0
        for values in self._corners():
            total += 1
            try:
                self._spec(values)
            except FedhaltError as error:
                refused.append((values, str(error)))
        if refused:
            values, reason = refused[0]
            varied = [name for name, dim in self.dimensions.items() if len(dim.ends()) > 1]
            shown = ", ".join(f"{name} = {brief(values[name])}" for name in varied if name in values)
            where = f"{len(refused)} of {total} configurations cannot be run, the first with {shown}: "
            raise FedhaltError(f"the space contradicts itself: {where}{reason}" if varied else reason)


def dimension(name: str, value: Any) -> Dimension:
    """A fixed value, a list of values, or a table {low, high, log, step}."""
    if isinstance(value, Mapping):
        return _range(name, value)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise FedhaltError(f"{name} = [] leaves nothing to choose from: give values, or leave {name} out")
    for index, one in enumerate(values):
        if isinstance(one, (list, tuple, Mapping)):
            raise FedhaltError(f"{name} is a list of values, not of {brief(one)}")
        if any(one == other and type(one) is type(other) for other in values[:index]):
            raise FedhaltError(f"{name} lists {brief(one)} twice")
    return Choices(tuple(values))


def _range(name: str, table: Mapping[str, Any]) -> Range:
    for key in table:
        require_one_of(f"key of the range {name}", key, ("low", "high", "log", "step"))
    if not {"low", "high"} <= table.keys():
        raise FedhaltError(
            f"the range {name} = {brief(dict(table))} needs low and high; values of a list are {name} = […]"
        )
    kind = str(FIELDS[name].type) if name in FIELDS else "str" if name in ("dual_mean", "mode") else "float"
    if kind.startswith(("str", "bool")):
        raise FedhaltError(f"{name} has no range, since it is not a number: give a list of values")
    integer = kind.startswith("int")
    low, high = (real(f"{end} of the range {name}", table[end]) for end in ("low", "high"))
    log = flag(f"log of the range {name}", table.get("log", False))
    step = None if table.get("step") is None else real(f"step of the range {name}", table["step"])
    if not low < high:
        raise FedhaltError(f"the range {name} is contradictory: low = {low:g} is not below high = {high:g}")
    if log and (low <= 0 or step is not None):
        problem = "its low end must be above 0" if low <= 0 else "it takes no step"
        raise FedhaltError(f"the range {name} is logarithmic: {problem}, not {brief(table)}")
    if step is not None and not 0 < step <= high - low:
        raise FedhaltError(f"the step of the range {name} must be above 0 and at most {high - low:g}, not {step:g}")
    if integer and not all(value is None or value == int(value) for value in (low, high, step)):
        raise FedhaltError(f"{name} is a whole number: low, high and step must be, not {brief(dict(table))}")
    return Range(low, high, log, step, integer)
