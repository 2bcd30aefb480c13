"""A changed bit in what a Flower run keeps is refused with a sentence or harmless: never another run in silence."""

import logging
import random
import shutil

import pytest

pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAdam
from helpers.fuzz.reader import tree_of
from helpers.fuzz.readers_flower import client_memory, opened, rule
from helpers.pipes import pipe_at
from test_flower_resume import run

from fedhalt import FedhaltError
from fedhalt.integrations.flower import EarlyStopping

RULE = rule()


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.ERROR)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The state folder of a run that was ended after round 3."""
    folder = tmp_path_factory.mktemp("flower") / "state"
    run(EarlyStopping(FedAdam(eta=0.05), rule=RULE, state=folder), rounds=3)
    return folder


def flip(path, position, bit):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(bytes(data))


def check(saved, folder, name, position, bit, expected):
    """One flipped bit: "refused" or "harmless"; anything else fails."""
    flip(folder / name, position, bit)
    try:
        try:
            found = opened(folder)
        except FedhaltError as error:
            assert str(folder) in str(error), f"{name}, byte {position}, bit {bit}: {error}"
            return "refused"
        assert found == expected, f"{name}, byte {position}, bit {bit}: another run, in silence"
        return "harmless"
    finally:
        shutil.copyfile(saved / name, folder / name)


def flips(saved, folder, positions):
    shutil.copytree(saved, folder)
    expected = opened(folder)
    counts = {"refused": 0, "harmless": 0}
    for path in sorted(path for path in saved.iterdir() if path.stat().st_size):
        for position, bit in positions(path.stat().st_size):
            counts[check(saved, folder, path.name, position, bit, expected)] += 1
    return counts


def test_flipped_bits_are_noticed(saved, tmp_path):
    draw = random.Random(0)
    counts = flips(
        saved, tmp_path / "state", lambda size: [(draw.randrange(size), draw.randrange(8)) for _ in range(40)]
    )
    assert counts["refused"] >= 195 and sum(counts.values()) >= 200


@pytest.mark.faults
def test_every_byte_of_every_file(saved, tmp_path):
    draw = random.Random(1)
    counts = flips(saved, tmp_path / "state", lambda size: [(i, draw.randrange(8)) for i in range(size)])
    print(f"flipped bits: {counts}")
    assert counts["refused"] > 5000


def test_changed_digits_are_noticed(saved, tmp_path):
    """Of 200 changed digits in round-R.json, 54 once made another run."""
    folder = shutil.copytree(saved, tmp_path / "state")
    path = folder / "round-3.json"
    text = path.read_text()
    digits = [i for i, letter in enumerate(text) if letter.isdigit()]
    draw = random.Random(2)
    for position in draw.sample(digits, 200):
        other = draw.choice([digit for digit in "0123456789" if digit != text[position]])
        path.write_text(text[:position] + other + text[position + 1 :])
        with pytest.raises(FedhaltError, match=r"round-3\.json (is damaged|was not written by this version)"):
            opened(folder)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"digest": "x"}',
        '{"saved": 5}',
        "[" * 5000,
        "\udcff",
        '{"fedhalt": "flower", "version": 2, "digest": "", "saved": ""}',
    ],
    ids=range(9),
)
@pytest.mark.parametrize("name", ["round-3.json", "stopper.json"])
def test_other_content_is_refused_with_a_sentence(saved, tmp_path, name, content):
    folder = shutil.copytree(saved, tmp_path / "state")
    (folder / name).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(FedhaltError, match=name):
        opened(folder)


def test_a_round_under_another_name_is_refused(saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "state")
    other = tmp_path / "other"
    run(EarlyStopping(FedAdam(eta=0.05), rule=RULE, state=other), rounds=2)
    for suffix in ("json", "safetensors"):
        shutil.copyfile(other / f"round-2.{suffix}", folder / f"round-3.{suffix}")
    with pytest.raises(FedhaltError, match=r"round-3\.json holds round 2: it was renamed"):
        opened(folder)


def test_rounds_without_their_stopper_are_not_begun_again(saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "state")
    (folder / "stopper.json").unlink()
    left = sorted(folder.iterdir())
    with pytest.raises(FedhaltError, match=r"holds round-3\.json, but stopper\.json is gone"):
        opened(folder)
    assert sorted(folder.iterdir()) == left


@pytest.mark.parametrize("name", ["round-3.json", "round-3.safetensors"])
def test_a_pipe_is_refused_and_not_waited_for(saved, tmp_path, name):
    folder = shutil.copytree(saved, tmp_path / "state")
    with pipe_at(folder / name), pytest.raises(FedhaltError, match=f"{name} is a pipe, not a file"):
        opened(folder)


def test_a_missing_array_is_named(saved, tmp_path):
    """A file that is whole but not the one that belongs there."""
    folder = shutil.copytree(saved, tmp_path / "state")
    start = next(folder.glob("start-*"))
    shutil.copyfile(start, folder / "round-3.safetensors")
    with pytest.raises(FedhaltError, match=r"round-3\.safetensors is damaged"):
        opened(folder)


def remember(folder):
    import torch

    memory = client_memory(folder)
    for r in (1, 2, 3):
        memory.write(r, {"ci": torch.arange(6.0) + r})
    return sorted((folder / "ab12" / "2").glob("*.safetensors"))


def test_a_changed_memory_of_a_client_is_refused(tmp_path):
    pytest.importorskip("torch")
    files = remember(tmp_path)
    assert [path.name.split("-")[0] for path in files] == ["2", "3"]
    assert client_memory(tmp_path).read(4)["ci"].tolist() == [3, 4, 5, 6, 7, 8]
    whole = files[-1].read_bytes()
    for position in range(len(whole)):
        flip(files[-1], position, position % 8)
        with pytest.raises(FedhaltError, match=r"is damaged: its digest does not match"):
            client_memory(tmp_path).read(4)
        files[-1].write_bytes(whole)
    # the round that is repeated after a kill does not need it
    files[-1].write_bytes(b"")
    assert client_memory(tmp_path).read(3)["ci"].tolist() == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("gone", ["3-*.safetensors", "versions.json"])
def test_a_memory_that_is_gone_is_not_replaced_by_an_older_one(tmp_path, gone):
    pytest.importorskip("torch")
    remember(tmp_path)
    (path,) = (tmp_path / "ab12" / "2").glob(gone)
    path.unlink()
    before = tree_of(tmp_path)
    for _ in range(2):
        with pytest.raises(FedhaltError, match=rf"{path.name}.* is gone; put it back, or remove .*/ab12/2 to let"):
            client_memory(tmp_path).read(4)
    assert tree_of(tmp_path) == before
    if gone != "versions.json":  # the round that is repeated after a kill does not need it
        assert client_memory(tmp_path).read(3)["ci"].tolist() == [2, 3, 4, 5, 6, 7]


def test_a_memory_of_another_client_or_run_is_refused(tmp_path):
    pytest.importorskip("torch")
    remember(tmp_path)
    for run_id, client in (("ab12", "5"), ("cd34", "2")):
        shutil.copytree(tmp_path / "ab12" / "2", tmp_path / run_id / client)
        with pytest.raises(FedhaltError, match="is not the list of this client's memory in this run"):
            client_memory(tmp_path, run=run_id, client=int(client)).read(4)


def test_a_listed_memory_survives_a_kill_at_every_step(tmp_path, monkeypatch):
    """A new version counts once it is listed: after a kill before that, the one before it is read."""
    torch = pytest.importorskip("torch")
    from fedhalt import files as written

    remember(tmp_path)
    whole, real = tree_of(tmp_path), written.write
    for killed_at in (1, 2):
        shutil.rmtree(tmp_path / "ab12")
        for name, data in whole.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
        calls = []

        def write(path, data, killed_at=killed_at, calls=calls, **options):
            calls.append(path)
            if len(calls) == killed_at:
                raise KeyboardInterrupt
            real(path, data, **options)

        monkeypatch.setattr(written, "write", write)
        with pytest.raises(KeyboardInterrupt):
            client_memory(tmp_path).write(4, {"ci": torch.arange(6.0) + 4})
        monkeypatch.undo()
        assert client_memory(tmp_path).read(5)["ci"].tolist() == [3, 4, 5, 6, 7, 8]
    client_memory(tmp_path).write(4, {"ci": torch.arange(6.0) + 9})
    kept = sorted(path.name.split("-")[0] for path in (tmp_path / "ab12" / "2").glob("*.safetensors"))
    assert client_memory(tmp_path).read(5)["ci"][0] == 9 and kept == ["2", "3", "4"]


def test_a_memory_of_version_0_1_0_and_files_that_are_none(tmp_path):
    pytest.importorskip("torch")
    files = remember(tmp_path)
    for path in files:
        path.rename(path.with_name(f"{path.name.partition('-')[0]}.safetensors"))
    (files[0].parent / "versions.json").unlink()
    for stray in ("notes.txt", "x.safetensors", "3-abc.safetensors", "-1.safetensors", "9" * 40 + ".safetensors"):
        (files[-1].parent / stray).write_bytes(b"?")
    memory = client_memory(tmp_path)
    assert memory.read(4)["ci"].tolist() == [3, 4, 5, 6, 7, 8]
    memory.write(4, memory.read(4))
    memory.write(5, memory.read(5))
    assert not (files[-1].parent / "3.safetensors").exists() and memory.read(6) is not None
    assert (files[-1].parent / "notes.txt").exists()


def test_what_is_kept_is_its_owners_alone(saved, tmp_path):
    assert saved.stat().st_mode & 0o077 == 0
    if pytest.importorskip("torch"):
        assert remember(tmp_path)[0].parent.stat().st_mode & 0o077 == 0
