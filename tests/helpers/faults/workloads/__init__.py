"""What faults are tried on, each so small that thousands of them take a minute.

They are run, save, flower, memory, client, grid and study.

A module each, with a class `Workload`. It begins or goes on in a folder, and returns how many rounds it trained;
`prepare` makes, before any fault, what is not ours to keep; `seen` is what counts of it in the end, `recorded` how many
rounds nobody may train again. It has `short` and `long` numbers of rounds; faults are tried at `every` so many calls,
at all of them if it is 1.
"""

import importlib


class Plain:
    """A workload that needs nothing beforehand."""

    def prepare(self, folder):
        pass


def workload(name):
    """The class of that name; Flower and Optuna are imported only if it is theirs."""
    return importlib.import_module(f"{__name__}.{name}").Workload


def leftovers(folder):
    """What `files.write` had begun and a later process should have removed."""
    return sorted(path.name for path in folder.rglob(".*.part"))


def last_marked(marks):
    """The round that the workload last said was saved."""
    return int(marks[-1]) if marks else 0
