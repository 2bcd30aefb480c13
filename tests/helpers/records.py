"""Small recorded runs, and what is compared of them."""

import warnings

from fedhalt import FedhaltError, Trajectory


def write(path, rows, **header):
    """A trajectory of these rows; the path."""
    trajectory = Trajectory.create(path, **header)
    for row in rows:
        trajectory.append(row)
    return path


def rows_of(path):
    """The recorded rows but for the time that they took."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in Trajectory.load(path).rows]


def recorded_rounds(path):
    """How many rounds a reader of the file sees, 0 if there is no file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return len(Trajectory.load(path))
    except (FedhaltError, OSError):
        return 0


def rounds_in(folder):
    """The rounds recorded so far by each run in a folder, also while they are being written."""
    return [max(0, path.read_bytes().count(b"\n") - 1) for path in sorted(folder.glob("*/trajectory.jsonl"))]
