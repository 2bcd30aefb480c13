"""Every case of the vectors file(s) and of our own reference, to 1e-10: numbers of two independent programmes."""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from helpers import reference

from fedhalt import methods
from fedhalt.simulation import toy

FILES = [Path(__file__).parent / "vectors.json"]
if os.environ.get("FEDHALT_VECTORS"):
    FILES.append(Path(os.environ["FEDHALT_VECTORS"]))

CASES = [
    pytest.param(content["problem"], case, id=f"{file.stem}:{name}")
    for file, content in ((file, json.loads(file.read_text())) for file in FILES)
    for name, case in content["cases"].items()
]

PROBLEM = json.loads(FILES[0].read_text())["problem"]
for name, method, _, args in reference.more_cases():
    theta, state = reference.run(PROBLEM, method, args)
    case = {"method": method, "args": args, "theta": theta, "final_state": state}
    CASES.append(pytest.param(PROBLEM, case, id=f"reference:{name}"))

# the file's names of hyperparameters and states, and ours
ARGUMENTS = {
    "lam": "lam",
    "rho": "rho",
    "alpha": "alpha",
    "beta": "beta",
    "dual_mean": "dual_mean",
    "lesam": "mode",
    "wmsam_sign": "sign",
}
RUN = ("K", "mu", "wd", "clip", "compat")
MEMORY = {"h": "hi", "c_i": "ci", "mu_dual": "mui"}
STATE = {"c": "c", "s": "s", "momentum": "m"}


def build(problem, case):
    """The task and the method that a case describes."""
    args = case["args"]
    assert set(args) <= {*ARGUMENTS, *RUN}, f"unknown keys in {args}"
    count = len(problem["A_diag"])
    steps = args.get("K", 3)
    steps = [steps] * count if isinstance(steps, int) else steps
    task = toy.Quadratics(
        A=problem["A_diag"],
        b=problem["b"],
        start=problem["theta0"],
        steps=steps,
        cohorts=problem["sampled"],
        lr=problem["lr0"],
        lr_decay=problem["lr_decay"],
        momentum=args.get("mu", 0.0),
        weight_decay=args.get("wd", 0.0),
        clip=args.get("clip"),
    )
    taken = methods.hyperparameters(case["method"])
    given = {ours: args[key] for key, ours in ARGUMENTS.items() if key in args}
    if args.get("compat"):  # the authors' code has one mode and one sign
        given = {key: value for key, value in given.items() if key not in ("mode", "sign")}
    defaults = dict(problem["defaults"])
    if case["method"] == "fedspeed":
        defaults.pop("alpha")  # there it is the share of the perturbed gradient, 1 in the vectors
    settings = {name: value for name, value in {**defaults, **given}.items() if name in taken}
    sizes = tuple(end - begin for begin, end in problem["tensors"])
    setting = methods.Setting(local_iteration=steps[0], sizes=sizes, lr_decay=problem["lr_decay"])
    compat = "authors" if args.get("compat") else None
    return methods.create(case["method"], compat=compat, setting=setting, **settings), task


@pytest.mark.parametrize("problem, case", CASES)
def test_vector(problem, case):
    method, task = build(problem, case)
    rounds = list(toy.rounds(method, task, len(case["theta"])))
    for round, theta in zip(rounds, case["theta"], strict=True):
        assert round.state["x"].tolist() == pytest.approx(theta, rel=0, abs=1e-10)
    last = rounds[-1]
    for name, expected in case["final_state"].items():
        if name == "alpha":
            assert [float(round.state["a"]) for round in rounds] == pytest.approx(expected, rel=0, abs=1e-10)
        elif name in MEMORY:
            zero = [0.0] * len(problem["theta0"])
            for client, vector in enumerate(expected):
                kept = last.memory[client][MEMORY[name]].tolist() if client in last.memory else zero
                assert kept == pytest.approx(vector, rel=0, abs=1e-10)
        else:
            assert last.state[STATE[name]].tolist() == pytest.approx(expected, rel=0, abs=1e-10)


def test_the_reference_agrees_with_the_vectors_file():
    for case in json.loads(FILES[0].read_text())["cases"].values():
        theta, _ = reference.run(PROBLEM, case["method"], case["args"])
        assert [x for row in theta for x in row] == pytest.approx([x for row in case["theta"] for x in row], abs=1e-12)
