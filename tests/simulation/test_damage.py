"""A run folder that is not as it was left: it goes on to the same numbers, or is refused before anything is deleted."""

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from helpers.pipes import pipe_at
from helpers.records import rows_of

from fedhalt import FedhaltError, Trajectory
from fedhalt.simulation import store
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec

SPEC = RunSpec(method="scaffold", clients=6, cohort=3, epochs=1, lr=0.05, c=0.5)
ROUNDS, MORE = 6, 8


def untimed(folder):
    return rows_of(folder / SPEC.id / "trajectory.jsonl")


def train(folder, rounds=ROUNDS):
    run(SPEC, folder, rounds=rounds, stop="never", workers=1)
    return folder / SPEC.id


def listed(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an uninterrupted run records."""
    folder = tmp_path_factory.mktemp("whole")
    train(folder, MORE)
    return untimed(folder)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A run that was killed in its seventh round: rounds 1 and 6 are there, only the first was made durable."""
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "SYNC_EVERY", 1000.0)
        with pytest.raises(KeyboardInterrupt):

            def progress(now):
                if now.row["round"] == ROUNDS:
                    raise KeyboardInterrupt

            run(SPEC, folder, rounds=MORE, stop="never", workers=1, progress=progress)
    states = sorted(path.name for path in (folder / SPEC.id).glob("state-*"))
    assert states == ["state-1.safetensors", f"state-{ROUNDS}.safetensors"]
    return folder


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run that ended after six rounds; the last was made durable, and nothing else is left."""
    folder = tmp_path_factory.mktemp("ended")
    train(folder)
    return folder


def newest_memory(folder):
    return max((folder / "memory").iterdir(), key=lambda path: int(path.stem.split("-")[1]))


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


DAMAGE = {
    "a flipped bit in the state": lambda folder: flip(folder / f"state-{ROUNDS}.safetensors"),
    "an empty state": lambda folder: (folder / f"state-{ROUNDS}.safetensors").write_bytes(b""),
    "no state": lambda folder: (folder / f"state-{ROUNDS}.safetensors").unlink(),
    "another round's state": lambda folder: shutil.copy(
        folder / "state-1.safetensors", folder / f"state-{ROUNDS}.safetensors"
    ),
    "a flipped bit in a memory": lambda folder: flip(newest_memory(folder)),
    "an empty memory": lambda folder: newest_memory(folder).write_bytes(b""),
    "no memory": lambda folder: newest_memory(folder).unlink(),
    "a flipped digit in the last line": lambda folder: flip_last_line(folder / "trajectory.jsonl"),
    "no last line": lambda folder: drop_lines(folder / "trajectory.jsonl", 1),
    "no last two lines": lambda folder: drop_lines(folder / "trajectory.jsonl", 2),
    "zeros behind the last line": lambda folder: extend(folder / "trajectory.jsonl", bytes(5000)),
}


def flip_last_line(path):
    *lines, last, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines, last.replace(b'"growth": 0.', b'"growth": 1.'), b""]))


def extend(path, more):
    path.write_bytes(path.read_bytes() + more)


def drop_lines(path, number):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-number]))


@pytest.mark.parametrize("name", DAMAGE)
def test_it_goes_on_from_the_last_durable_round_to_the_same_numbers(name, killed, whole, tmp_path):
    folder = shutil.copytree(killed, tmp_path / "runs") / SPEC.id
    DAMAGE[name](folder)
    if name.startswith("zeros"):
        train(tmp_path / "runs", MORE)
    else:
        with pytest.warns(UserWarning) as said:
            train(tmp_path / "runs", MORE)
        assert any("resumes after round 1" in str(warning.message) for warning in said)
    assert untimed(tmp_path / "runs") == whole


@pytest.mark.parametrize("name", [*(name for name in DAMAGE if "zeros" not in name and "another" not in name), "all"])
def test_it_is_refused_before_anything_is_deleted_where_nothing_is_whole(name, ended, tmp_path):
    folder = shutil.copytree(ended, tmp_path / "runs") / SPEC.id
    if name == "all":
        drop_lines(folder / "trajectory.jsonl", ROUNDS)
    else:
        DAMAGE[name](folder)
    before = listed(folder)
    with pytest.raises(FedhaltError, match=f"remove .*{SPEC.id} to start the run over"):
        train(tmp_path / "runs", MORE)
    assert listed(folder) == before


def test_a_swapped_memory_is_noticed(ended, tmp_path):
    folder = shutil.copytree(ended, tmp_path / "runs") / SPEC.id
    first, second = sorted((folder / "memory").iterdir())[:2]
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    with pytest.raises(FedhaltError, match=r"memory/.*is damaged"):
        train(tmp_path / "runs", MORE)


def test_a_lost_record_is_not_begun_again_over_its_states(ended, tmp_path):
    folder = shutil.copytree(ended, tmp_path / "runs") / SPEC.id
    (folder / "trajectory.jsonl").unlink()
    before = listed(folder)
    with pytest.raises(FedhaltError, match=r"holds state-6\.safetensors, but trajectory\.jsonl is gone"):
        train(tmp_path / "runs", MORE)
    assert listed(folder) == before


@pytest.mark.parametrize("rounds", [ROUNDS, MORE])
def test_the_record_of_another_run_is_refused(rounds, ended, tmp_path):
    """Every line of it is whole, and a run that has ended is only read."""
    folder = shutil.copytree(ended, tmp_path / "runs") / SPEC.id
    other = replace(SPEC, seed=1)
    run(other, tmp_path / "others", rounds=ROUNDS, stop="never", workers=1)
    shutil.copy(tmp_path / "others" / other.id / "trajectory.jsonl", folder)
    before = listed(folder)
    with pytest.raises(FedhaltError, match=r"trajectory\.jsonl is the record of a run of another specification"):
        train(tmp_path / "runs", rounds)
    assert listed(folder) == before


@pytest.mark.parametrize("name", ["spec.json", "origin.json", "trajectory.jsonl", "state-6.*", "memory/*", "models/*"])
def test_a_pipe_is_refused_and_not_waited_for(name, ended, tmp_path):
    folder = shutil.copytree(ended, tmp_path / "runs") / SPEC.id
    path = sorted(folder.glob(name))[0]
    with pipe_at(path), pytest.raises(FedhaltError, match=rf"{path.name} is a pipe, not a file"):
        train(tmp_path / "runs", MORE)


def test_a_line_missing_in_the_middle_is_noticed(ended, tmp_path):
    folder = shutil.copytree(ended, tmp_path / "runs") / SPEC.id
    lines = (folder / "trajectory.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "trajectory.jsonl").write_bytes(b"".join(lines[:3] + lines[4:]))
    with pytest.raises(FedhaltError, match="has lost rounds"):
        train(tmp_path / "runs", MORE)


def test_a_round_is_on_disk_before_the_one_before_it_goes(tmp_path, monkeypatch):
    """Without syncs, or in another order, a power cut leaves neither."""
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no /proc here: it cannot be seen which file is synced")
    events, fsync, unlink = [], os.fsync, Path.unlink

    def synced(place):
        events.append(("synced", os.readlink(f"/proc/self/fd/{place}")))
        fsync(place)

    def gone(path, **options):
        events.append(("gone", str(path)))
        unlink(path, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "unlink", gone)
    monkeypatch.setattr(store, "SYNC_EVERY", 0.0)
    folder = train(tmp_path, 2)
    before = events[: events.index(("gone", str(folder / "state-1.safetensors")))]
    begin = next(
        place for place, (what, path) in enumerate(before) if what == "synced" and path.endswith("-2.safetensors")
    )
    found = {path for what, path in before[begin:] if what == "synced"}
    needed = {folder, folder / "trajectory.jsonl", folder / "state-2.safetensors", folder / "memory"}
    assert {str(path) for path in needed | set((folder / "memory").glob("*-2.safetensors"))} <= found


def test_a_damaged_model_is_not_handed_out(tmp_path):
    folder = tmp_path / SPEC.id
    summary = run(SPEC, tmp_path, rounds=3)
    assert summary.rules[0].model is None
    found = run(SPEC, tmp_path, rounds=4, watch=budget(4))
    flip(next((folder / "models").iterdir()))
    for rounds in (4, 5):  # before it trains
        with pytest.raises(FedhaltError, match=r"models/budget.*is damaged"):
            run(SPEC, tmp_path, rounds=rounds, watch=budget(4))
    assert os.path.exists(found.rules[0].model) and len(untimed(tmp_path)) == 4
    os.unlink(found.rules[0].model)
    with pytest.warns(UserWarning, match=r"models/budget.*is gone"):
        assert run(SPEC, tmp_path, rounds=5, watch=budget(4)).rules[0].model is None


def budget(rounds):
    from fedhalt.rules import named_rules

    return named_rules(["budget"], {"rounds": [rounds]})


def test_strange_files_beside_ours_are_left_alone(ended, whole, tmp_path):
    folder = shutil.copytree(ended, tmp_path / "runs") / SPEC.id
    strange = [
        folder / "memory" / name for name in ("notes.txt", "a-b.safetensors", "1-2-3.safetensors", "٣-1.safetensors")
    ]
    strange += [folder / "state-x.safetensors", folder / "state-.safetensors"]
    for path in strange:
        path.write_bytes(b"mine")
    train(tmp_path / "runs", MORE)
    assert untimed(tmp_path / "runs") == whole and all(path.read_bytes() == b"mine" for path in strange)


def test_what_clients_and_server_remember_is_their_owners(ended):
    files = [*(ended / SPEC.id).glob("state-*"), *(ended / SPEC.id / "memory").iterdir()]
    assert files and {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_folder_that_was_begun_again_is_not_written_by_the_first(tmp_path):
    folder = tmp_path / SPEC.id

    def progress(now):
        if now.row["round"] == 2:
            shutil.rmtree(folder)
            store.RunFolder(folder, SPEC).close()

    with pytest.raises(FedhaltError, match="removed or replaced"):
        run(SPEC, tmp_path, rounds=4, workers=1, progress=progress)
    assert not list(folder.glob("state-*")) and len(Trajectory.load(folder / "trajectory.jsonl")) == 0


def test_the_last_finite_model_is_what_a_diverged_run_returns(tmp_path):
    from safetensors import safe_open

    spec = RunSpec(clients=6, cohort=3, epochs=1, lr=1e30, clip=None, momentum=0.0)
    summary = run(spec, tmp_path, rounds=50)
    assert summary.reason == "diverged" and summary.model.endswith("models/last-finite.safetensors")
    assert [rule.model for rule in summary.rules] == [summary.model]
    with safe_open(summary.model, "pt") as kept:
        assert all(torch.isfinite(kept.get_tensor(name)).all() for name in kept.keys())
        assert int(kept.metadata()["round"]) == summary.rounds - 1
    assert run(spec, tmp_path, rounds=50).model == summary.model


def test_model_files_are_equal_to_the_byte(tmp_path):
    models = []
    for place in range(6):
        summary = run(SPEC, tmp_path / str(place), rounds=1, watch=budget(1), workers=1)
        models.append(Path(summary.rules[0].model).read_bytes())
    assert len(set(models)) == 1
