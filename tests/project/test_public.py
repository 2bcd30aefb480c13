"""What `import fedhalt` gives and what it does not cost."""

import importlib.util
import subprocess
import sys

import pytest

import fedhalt


def test_the_public_names_are_listed_sorted_and_there():
    assert fedhalt.__all__ == sorted(fedhalt.__all__)
    assert all(hasattr(fedhalt, name) for name in fedhalt.__all__)


def test_importing_the_package_and_its_command_line_imports_no_framework():
    code = (
        "import sys, fedhalt, fedhalt.cli; print([m for m in ('torch', 'flwr', 'jax', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_without_torch_the_simulator_says_what_to_install(command):
    code = "import sys; sys.modules['torch'] = None; from fedhalt.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, command, "--lr", "3", "x"], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'fedhalt[sim]'" in done.stderr and "Traceback" not in done.stderr


def test_without_flower_the_adapter_says_what_to_install():
    if importlib.util.find_spec("flwr"):
        pytest.skip("flwr is installed; the light environment runs this")
    error = subprocess.run(
        [sys.executable, "-c", "import fedhalt.integrations.flower"], capture_output=True, text=True
    ).stderr
    assert "fedhalt.integrations.flower needs flwr, which is not installed: pip install 'fedhalt[flower]'" in error


def test_an_unsupported_flower_is_named():
    pytest.importorskip("flwr")
    code = "import sys; sys.modules['flwr.serverapp'] = None; import fedhalt.integrations.flower"
    error = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert "is not supported: fedhalt works with flwr 1.22 to 1.41" in error


def test_the_parts_with_torch_are_there_when_asked_for():
    pytest.importorskip("torch")
    code = "import fedhalt, sys; print('torch' in sys.modules); print(fedhalt.toy.__name__, fedhalt.methods.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nfedhalt.toy fedhalt.methods\n"
    with pytest.raises(AttributeError, match="nothing"):
        _ = fedhalt.nothing
