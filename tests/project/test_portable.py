"""The light part imports where there is no POSIX: its modules are imported with the modules of POSIX blocked."""

import subprocess
import sys

IMPORTS = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"fcntl", "resource", "pwd", "termios", "grp", "torch"}:
            raise ImportError(f"{name} is blocked")

for name in ("fcntl", "resource", "pwd", "termios", "grp"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
import fedhalt

light = ("errors", "files", "rules", "measure", "records", "stopper", "views", "stopbench.score", "cli")
heavy = ("cli", "views")  # some commands and their displays train: they may ask for torch, and for nothing else
for found in pkgutil.walk_packages(fedhalt.__path__, "fedhalt."):
    if found.name.removeprefix("fedhalt.").startswith(light) and not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except fedhalt.errors.MissingExtra:
            assert found.name.removeprefix("fedhalt.").startswith(heavy)
        else:
            print(found.name)
"""


def test_every_light_module_imports_without_posix():
    made = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    imported = made.stdout.split()
    assert {"fedhalt.files", "fedhalt.stopper", "fedhalt.records.trajectory", "fedhalt.cli.app"} <= set(imported)
