"""Power cuts on a real file system: what an ext4 has sent to its disk at a random moment, mounted and gone on with.

The disk is a file behind a loop device. Whatever the file system has written, and nothing that it still holds in
memory, can be read from that file: a copy of it is the disk after a power cut.
"""

import contextlib
import os
import random
import shutil
import subprocess
import time

from fedhalt import files

SIZE = 24 * 2**20
PAUSE = 0.1
"""Seconds that a round takes at most, so that there is time for cuts between two."""


class NoRights(Exception):
    """This process may not mount a file system, or there is none."""


def command(*words):
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NoRights(str(error)) from None
    if done.returncode:
        raise NoRights(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def make(image):
    """An empty ext4 in a file."""
    with open(image, "wb") as file:
        file.truncate(SIZE)
    command("mkfs.ext4", "-q", "-F", "-J", "size=4", image)


@contextlib.contextmanager
def mounted(image, place):
    """The file system of an image, committing its metadata every second."""
    place.mkdir(exist_ok=True)
    command("mount", "-o", "loop,commit=1", image, place)
    try:
        yield place
    finally:
        command("umount", place)


def photograph(image):
    """The content of the disk at one moment: read until two readings are equal, so nothing changed in between."""
    before, now = None, image.read_bytes()
    while now != before:
        before, now = now, image.read_bytes()
    return now


def cuts(campaign, number=18):
    """Cuts at random moments of runs on a disk; each copy is mounted and gone on with."""
    image, copy, marks = (campaign.place / name for name in ("disk.img", "copy.img", "marks"))
    draw = random.Random(campaign.make.name)
    make(image)
    pictures = []
    with mounted(image, campaign.place / "disk") as disk:
        while len(pictures) < number:
            pictures += watched(campaign, disk / "work", image, marks, draw)
            shutil.rmtree(disk / "work")
            marks.unlink()
    for index, (data, marked) in enumerate(pictures[:number]):
        copy.write_bytes(data)
        with mounted(copy, campaign.place / "after") as after:
            promised = campaign.make.promised(marked)
            campaign.note(f"cut {index} after {marked[-1:]}", campaign.goes_on(after / "work", promised))
        campaign.tried["cut"] += 1
        campaign.tried["cut with rounds to keep"] += promised > 0


def watched(campaign, folder, image, marks, draw):
    """A run in a process of its own; pictures of its disk with what it had said before."""
    files.make_folder(folder)
    marks.touch()
    child = os.fork()
    if child == 0:
        try:
            campaign.make(campaign.rounds)(folder, lambda text: _mark(marks, text, draw))
        finally:
            os._exit(0)
    pictures = []
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(draw.uniform(0, 3 * PAUSE))
        said = marks.read_text().splitlines()
        pictures.append((photograph(image), said))
    return pictures


def _mark(marks, text, draw):
    with open(marks, "a") as file:
        file.write(f"{text}\n")
    time.sleep(draw.uniform(0, PAUSE))
