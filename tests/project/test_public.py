"""What `import fedhalt` gives and what it does not cost."""

import importlib.util
import subprocess
import sys

import pytest
from helpers.places import ROOT

import fedhalt


def test_the_citation_names_the_version():
    assert f"\nversion: {fedhalt.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_importing_the_package_and_its_command_line_imports_no_framework():
    code = (
        "import sys, fedhalt, fedhalt.cli; print([m for m in ('torch', 'flwr', 'jax', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_without_torch_the_simulator_says_what_to_install(command):
    code = "import sys; sys.modules['torch'] = None; from fedhalt.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, command, "--lr", "3", "x"], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install '.[sim]'" in done.stderr and "Traceback" not in done.stderr


def test_without_flower_the_adapter_says_what_to_install():
    if importlib.util.find_spec("flwr"):
        pytest.skip("flwr is installed; the light environment runs this")
    error = subprocess.run(
        [sys.executable, "-c", "import fedhalt.integrations.flower"], capture_output=True, text=True
    ).stderr
    assert "fedhalt.integrations.flower needs flwr, which is not installed: run pip install '.[flower]'" in error


@pytest.mark.parametrize(
    "installed, said",
    [
        ("1.21.0", "flwr 1.21.0 is too old: fedhalt works with 1.22 and later, tested up to 1.42; run pip install"),
        ("1.99.0", "flwr 1.99.0 is newer than the releases tested, 1.22 to 1.42"),
        ("1.42.3", ""),
    ],
)
def test_an_old_flower_is_refused_and_an_untested_one_warns(installed, said):
    pytest.importorskip("flwr")
    code = f"import importlib.metadata as m; m.version = lambda name: '{installed}'; import fedhalt.integrations.flower"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said in done.stderr and (done.returncode == 0) == ("too old" not in said)


def test_the_parts_with_torch_are_there_when_asked_for():
    pytest.importorskip("torch")
    code = "import fedhalt, sys; print('torch' in sys.modules); print(fedhalt.simulation, fedhalt.methods)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False\n<module 'fedhalt.simulation'")
    with pytest.raises(AttributeError, match="nothing"):
        _ = fedhalt.nothing
