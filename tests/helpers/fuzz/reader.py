"""What a reader is to the fuzzer: how valid files are made, how they are read, and what must hold of what was read."""

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fedhalt import FedhaltError

from . import mutators

LONGEST = 1000
"""Letters of an error message: a sentence that repeats a value of any length is none."""

Tree = dict[str, bytes]
"""Files by their names in a folder."""


class Sample(NamedTuple):
    """Files to be read, which of the valid ones they were made of, and how."""

    tree: Tree
    origin: int
    changed: bool = True
    forged: bool = False
    """Whether a checksum was made to fit what was changed."""


@dataclass
class Reader:
    """Reads folders of files. `same` says that checksums tell: what is read is what was written, or a part of it."""

    name: str
    samples: Callable[[Path], list[Tree]]
    read: Callable[[Path], Any]
    """What was read, in a form that can be compared; the folder is where the files are."""
    check: Callable[[Any, Sample], None] = lambda found, sample: None
    needs: tuple[str, ...] = ()
    same: Callable[[Any, Any], bool] | None = None
    """Compares what was read with what the unchanged files hold."""
    forgeries: dict[str, Callable[..., bytes]] = field(default_factory=dict)
    """By the end of a file's name."""
    may_change: tuple[str, ...] = ()
    """Ends of the names of files that reading makes or removes."""
    weight: int = 1
    """Its share of the inputs: a quick reader is given more of them than a slow one."""

    def available(self):
        return all(importlib.util.find_spec(module) for module in self.needs)

    def prepare(self, place):
        """Makes the valid files; each of them must be read."""
        place.mkdir()
        self.place, self.there = place, {}
        self.trees = self.samples(place)
        _clear(place)
        self.expected = []
        for index, tree in enumerate(self.trees):
            self._write(tree)
            found = self.read(self.place)
            self.check(found, Sample(tree, index, changed=False))
            self.expected.append(found)

    def make(self, draw):
        """A sample made of a valid one by some changes; seldom by none."""
        origin = draw.randrange(len(self.trees))
        tree, changes, forged = dict(self.trees[origin]), draw.choice((1, 1, 1, 2, 4)), False
        if draw.random() < 0.02:
            return Sample(tree, origin, changed=False)
        for _ in range(changes):
            name = draw.choice(list(tree) or [""])
            forge = next((self.forgeries[end] for end in self.forgeries if name.endswith(end)), None)
            if forge is not None and tree[name] and draw.random() < 0.4:
                tree[name], forged = forge(draw, tree[name]), True
            elif len(tree) > 1 and draw.random() < 0.15:
                _shuffle(draw, tree, name)
            elif name:
                tree[name] = mutators.mutate(draw, name, tree[name])
        return Sample(tree, origin, tree != self.trees[origin], forged)

    def attempt(self, sample):
        """Whether the sample was read; AssertionError if neither that nor its refusal is as it should be."""
        self._write(sample.tree)
        try:
            found = self.read(self.place)
        except (FedhaltError, OSError) as error:
            assert sample.changed, f"a valid file was refused: {error}"
            self._check_sentence(error, sample)
            self._check_unchanged(sample)
            return False
        self._check_unchanged(sample, self.may_change)
        self.check(found, sample)
        if self.same is not None and not sample.forged:
            assert self.same(found, self.expected[sample.origin]), "another content was read, in silence"
        return True

    def keep(self, sample, folder):
        for name, data in sample.tree.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)

    def _check_sentence(self, error, sample):
        text = str(error)
        assert text.isprintable(), f"not printable: {text!r}"
        assert len(text) <= LONGEST, f"{len(text)} letters: {text:.200}"
        names = {Path(name).name for name in (*sample.tree, *self.trees[sample.origin])}
        assert str(self.place) in text or any(name in text for name in names), f"names no file: {text}"

    def _check_unchanged(self, sample, may_change=()):
        now = _listed(self.place)
        for name in sample.tree if self.may_change else {*now, *sample.tree}:
            if not name.endswith((".lock", ".part", *may_change)):
                assert now.get(name) == sample.tree.get(name), f"{name} was changed"
        self.there = now

    def _write(self, tree):
        """Puts these files into the folder, and no others."""
        self.there = _listed(self.place)
        for name in self.there.keys() - tree.keys():
            (self.place / name).unlink()
        for name, data in tree.items():
            if self.there.get(name) != data:
                path = self.place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


def tree_of(folder):
    """What was written into a folder, without locks."""
    return {name: data for name, data in _listed(folder).items() if not name.endswith(".lock")}


def _listed(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _clear(folder):
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _shuffle(draw, tree, name):
    """Files that are gone, empty, somebody else's, or new."""
    other, what = draw.choice(list(tree)), draw.randrange(5)
    if what == 0:
        del tree[name]
    elif what == 1:
        tree[name] = b""
    elif what == 2:
        tree[name], tree[other] = tree[other], tree[name]
    elif what == 3:
        tree[name] = tree[other]
    else:
        stem, dot, suffix = name.rpartition(".")
        new = draw.choice((f"{stem}x{dot}{suffix}", f"{stem}9{dot}{suffix}", f"{name}.1", f"{stem}{'9' * 30}.{suffix}"))
        tree[new] = tree[name]
