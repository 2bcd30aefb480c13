"""Tries faults on a workload, each in a process of its own, and says in JSON what was tried and what went wrong.

LD_PRELOAD=shim.so python -m helpers.faults.campaign errors run FOLDER
"""

import ctypes
import errno
import json
import logging
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from fedhalt import FedhaltError
from helpers.faults import ext4
from helpers.faults.disk import Disk, contents, read_journal
from helpers.faults.workloads import workload

COUNT, FAIL, FAIL_FROM, KILL = range(4)
CODES = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE, errno.EDQUOT, errno.EROFS)
ERRORS = [*((FAIL, code) for code in CODES), (FAIL_FROM, errno.ENOSPC), (FAIL_FROM, errno.EIO)]
"""An error of every kind, and a disk that stays full or broken from then on."""
SHIM = ctypes.CDLL(None)


def attempt(work):
    """How it ended, and what it returned or said."""
    try:
        return "done", work()
    except (FedhaltError, OSError) as error:
        return "refused", str(error)
    except BaseException:
        return "broken", traceback.format_exc()
    finally:
        SHIM.fault_arm(b"", COUNT, 0, 0)


def forked(work):
    """What a process of its own returned, None if it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else json.loads(answer)


class Campaign:
    """One workload, its folder for trials, what it records undisturbed, and what went wrong so far."""

    def __init__(self, name, place, rounds):
        self.make, self.place, self.rounds = workload(name), Path(place), rounds
        self.tried, self.wrong = Counter(), []
        begin = time.monotonic()
        ended, found = self.armed(self.place / "whole")
        self.seconds = time.monotonic() - begin
        assert ended == "done", found
        self.places = range(1, found["calls"] + 1, self.make.every)
        self.expected = self._seen(self.place / "whole")
        assert self.expected[0] == "done", self.expected

    def armed(self, folder, mode=COUNT, at=0, code=0):
        """The workload in a folder with the shim armed: how it ended, how many rounds it trained, its calls."""

        def work():
            begun = self.make(self.rounds)
            folder.mkdir(parents=True, exist_ok=True)
            begun.prepare(folder)
            SHIM.fault_arm(os.fsencode(folder), mode, at, code)
            return {"trained": begun(folder), "calls": SHIM.fault_seen()}

        return attempt(work)

    def _seen(self, folder):
        return attempt(lambda: json.dumps(self.make(self.rounds).seen(folder), sort_keys=True))

    def goes_on(self, folder, least=None):
        """What is wrong when an undisturbed process goes on; it may not train the first `least` rounds again.

        By default those that can be read in the folder.
        """
        begun = self.make(self.rounds)
        if least is None:
            least = begun.recorded(folder)
        ended, found = self.armed(folder)
        seen = self._seen(folder) if ended == "done" else (ended, found)
        if seen != self.expected:
            return f"{ended}: {seen[1][:2000]}"
        left = begun.total - least
        return f"{found['trained']} rounds were trained, {left} were left" if found["trained"] > left else ""

    def error(self, at, mode, code):
        """An error at a call, and what comes after it in the same process."""
        ended, said = self.armed(self.folder("trial"), mode, at, code)
        self.tried[ended] += 1
        problem = self.goes_on(self.place / "trial")
        if ended == "broken" or (ended == "refused" and str(self.place / "trial") not in said):
            problem = said
        self.note(f"{errno.errorcode[code]} at call {at}{' and after' * (mode == FAIL_FROM)}", problem)

    def kill(self, at):
        """A kill at a call, and what comes after it in another process."""
        folder = self.folder("trial")
        ended = forked(lambda: self.armed(folder, KILL, at))
        self.tried["done" if ended else "killed"] += 1
        self.note(f"killed at call {at}", forked(lambda: self.goes_on(folder)))

    def folder(self, name):
        """A new one."""
        shutil.rmtree(self.place / name, ignore_errors=True)
        (self.place / name).mkdir()
        return self.place / name

    def apart(self, work):
        """Does it in a process of its own, of which the counts and nothing else are left."""

        def child():
            self.tried, self.wrong = Counter(), []
            work()
            return self.tried, self.wrong

        tried, wrong = forked(child)
        self.tried.update(tried)
        self.wrong += wrong

    def note(self, what, problem):
        if problem:
            self.wrong.append({"what": what, "problem": problem})


def errors(campaign):
    """Errors of every kind at every call; where only some calls are tried, of one kind after the other."""
    tries = [(at, *kind) for at in campaign.places for kind in ERRORS]
    if campaign.make.every > 1:
        tries = tries[:: len(ERRORS) + 1]
    for first in range(0, len(tries), 100):
        campaign.apart(lambda: [campaign.error(*each) for each in tries[first : first + 100]])  # noqa: B023


def kills(campaign, deaths=40):
    """A kill before every call, then at random moments of longer work."""
    for at in campaign.places:
        campaign.kill(at)
    longer = Campaign(campaign.make.name, campaign.place / "longer", rounds=campaign.make.long)
    draw = random.Random(0)
    while campaign.tried["killed at random"] < deaths:
        folder = campaign.folder("random")
        while kill_at_random(longer, folder, draw):
            campaign.tried["killed at random"] += 1
        campaign.note("killed at random", forked(lambda: longer.goes_on(folder)))  # noqa: B023


def kill_at_random(campaign, folder, draw):
    """Whether the process was killed before it was done."""
    child = os.fork()
    if child == 0:
        attempt(lambda: campaign.make(campaign.rounds)(folder))
        os._exit(0)
    time.sleep(draw.uniform(0, campaign.seconds / 2))
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def power(campaign):
    """A power cut after every call: what was not synced is lost, or any part of it is."""
    journal, folder = campaign.place / "journal", campaign.folder("recorded")

    def work():
        begun = campaign.make(campaign.rounds)
        SHIM.fault_record(os.fsencode(journal))
        SHIM.fault_arm(os.fsencode(folder), COUNT, 0, 0)
        begun(folder, lambda text: SHIM.fault_mark(text.encode()))

    ended = forked(lambda: attempt(work))
    assert ended[0] == "done", ended
    disk = Disk()
    for step, operation in enumerate(read_journal(journal, folder)):
        disk.play(*operation)
        cuts(campaign, disk, step, operation)
    disk.leave(campaign.folder("left"), "everything")
    assert contents(campaign.place / "left") == contents(folder), "the shim has missed a call"


def cuts(campaign, disk, step, operation):
    """Everything that a power cut after this operation may leave, or some of it."""
    for seed, how in enumerate(("nothing", "empty", "zeros", "everything", "any")):
        left = campaign.folder("left")
        disk.leave(left, how, seed=5 * step + seed)
        campaign.tried[f"cut: {how}"] += 1
        problem = campaign.goes_on(left, campaign.make.promised(disk.marks))
        campaign.note(f"power cut after operation {step} {operation[:3]}, {how}", problem)


KINDS = {
    "errors": (errors, lambda workload: workload.short),
    "kills": (kills, lambda workload: workload.short),
    "power": (power, lambda workload: workload.short),
    "ext4": (ext4.cuts, lambda workload: workload.long),
}


def main():
    kind, name, place = sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.disable()
    tries, rounds = KINDS[kind]
    campaign = Campaign(name, place, rounds(workload(name)))
    tries(campaign)
    print(json.dumps({"calls": len(campaign.places), "tried": campaign.tried, "wrong": campaign.wrong[:20],
                      "wrongs": len(campaign.wrong)}))  # fmt: skip


if __name__ == "__main__":
    main()
