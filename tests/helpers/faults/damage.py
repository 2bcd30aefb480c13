"""Damages every file of a folder that fedhalt wrote, and says in JSON what its readers made of it.

python -m helpers.faults.damage run FOLDER

Every damage is repaired (a warning, the same numbers), refused (a sentence, and nothing was changed) or harmless (the
same numbers without a word); that a file is gone may also just be said. Anything else is wrong.
"""

import json
import logging
import random
import shutil
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path

from fedhalt import FedhaltError
from helpers.faults.disk import contents
from helpers.faults.kept import KEPT

FLIPS = 100
"""Flipped bits in a file, or one in every byte where there are fewer."""
SECTOR = 512


def places(size, draw):
    """Bytes all over a file: its beginning and its end, where the formats are, and one in every part between."""
    if size <= FLIPS:
        return range(size)
    ends = {*range(48), *range(size - 16, size)}
    parts = FLIPS - len(ends)
    return sorted(ends | {draw.randrange(size * k // parts, size * (k + 1) // parts) for k in range(parts)})


def damages(data, other, draw):
    """What may have become of a file, None if it is gone; `other` is the content of another file."""
    for place in places(len(data), draw):
        changed = bytearray(data)
        changed[place] ^= 1 << draw.randrange(8)
        yield f"bit flipped in byte {place}", bytes(changed)
    begin = draw.randrange(0, len(data), SECTOR)
    zeros = bytes(len(data[begin : begin + SECTOR]))
    yield "gone", None
    yield "empty", b""
    yield "cut short", data[: len(data) // 2]
    yield "one byte short", data[:-1]
    yield "longer", data + b"\0"
    yield "a sector of zeros", data[:begin] + zeros + data[begin + SECTOR :]
    yield "swapped", other


class Damage:
    """A folder as it was kept, what its readers make of it, and what went wrong so far."""

    def __init__(self, name, place):
        self.kept = KEPT[name]()
        self.whole, self.trial = Path(place) / "whole", Path(place) / "trial"
        self.whole.mkdir(parents=True)
        self.kept.make(self.whole)
        self.files = contents(self.whole)
        self.tried, self.wrong = Counter(), []
        self.expected = self._reading()
        assert self.expected[0] == "harmless", self.expected

    def _reading(self, name=None, data=None):
        """How a damage ends, and what was read or said."""
        shutil.rmtree(self.trial, ignore_errors=True)
        shutil.copytree(self.whole, self.trial)
        if name is not None:
            (self.trial / name).unlink()
            if data is not None:
                (self.trial / name).write_bytes(data)
        before = contents(self.trial)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = json.loads(json.dumps(self.kept.read(self.trial)))
            except (FedhaltError, OSError) as error:
                unchanged = self._beside(name, contents(self.trial)) == self._beside(name, before)
                return ("refused" if unchanged else "changed and refused"), str(error)
            except Exception:
                return "broken", traceback.format_exc()
        if data is None and name is not None and any(name in str(warning.message) for warning in said):
            return "said", found
        return ("repaired" if said else "harmless"), found

    def _beside(self, name, found):
        """What belongs to the same run or client as the damaged file; the others go on."""
        whose = Path(name or "").parts[: self.kept.depth]
        return {other: data for other, data in found.items() if Path(other).parts[: self.kept.depth] == whose}

    def to_every_file(self):
        draw = random.Random(0)
        for name, data in self.files.items():
            others = [content for other, content in self.files.items() if other != name and content != data]
            for what, changed in damages(data, draw.choice(others or [b"?"]), draw) if data else ():
                if changed != data and not (changed is None and Path(name).match(self.kept.optional)):
                    self.try_one(name, what, changed)

    def try_one(self, name, what, changed):
        ended, found = self._reading(name, changed)
        self.tried[ended] += 1
        if ended in ("harmless", "repaired"):
            right = self.kept.same(found, self.expected[1])
        else:
            right = ended == "said" or (ended == "refused" and str(self.trial) in found)
        if not right:
            self.wrong.append({"what": f"{name}: {what}", "ended": ended, "found": str(found)[-1500:]})


def main():
    name, place = sys.argv[1:]
    logging.disable()
    damage = Damage(name, place)
    damage.to_every_file()
    print(json.dumps({"files": sum(map(bool, damage.files.values())), "tried": damage.tried,
                      "wrong": damage.wrong[:20], "wrongs": len(damage.wrong)}))  # fmt: skip


if __name__ == "__main__":
    main()
