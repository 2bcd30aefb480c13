"""What holds for every adapter, whether its framework is installed or not."""

import importlib
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from fedhalt import FedhaltError, MissingExtra
from fedhalt.integrations import host

ADAPTERS = ["fedbiomed", "keras", "lightning", "nvflare", "openfl", "pfl", "torch", "transformers"]


@pytest.fixture(params=ADAPTERS)
def adapter(request, monkeypatch):
    monkeypatch.delitem(sys.modules, f"fedhalt.integrations.{request.param}", raising=False)
    return request.param


def test_a_missing_framework_is_named_with_the_command_that_installs_it(adapter, monkeypatch):
    def version(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(host, "version", version)
    with pytest.raises(MissingExtra, match=rf"{adapter}, which is not installed: run pip install '\.\[{adapter}\]'"):
        importlib.import_module(f"fedhalt.integrations.{adapter}")


def test_one_that_is_too_old_is_too(adapter, monkeypatch):
    monkeypatch.setattr(host, "version", lambda package: "0.1.dev3")
    with pytest.raises(FedhaltError, match=rf"{adapter} 0.1.dev3 is too old: .* run pip install '{adapter}>="):
        importlib.import_module(f"fedhalt.integrations.{adapter}")


def test_importing_the_package_imports_no_framework():
    code = f"import sys, fedhalt, fedhalt.integrations.seam; print([m for m in {ADAPTERS} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
