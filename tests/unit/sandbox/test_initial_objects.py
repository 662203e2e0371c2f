"""Where the sandbox finds Muster's CustomResourceDefinitions: in a checkout, and in an installed package."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sandbox import initial_objects
from sandbox.initial_objects import crd_dir, read_crds, read_user_roles
from scheduler_core.errors import ConfigError

ROOT = Path(__file__).parents[3]


def take_chart(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build step of setup.py, without setuptools: environments of newer Pythons have none."""
    tools, command = ModuleType("setuptools"), ModuleType("setuptools.command.build_py")
    tools.setup, command.build_py = None, object  # type: ignore[attr-defined]
    for module in (tools, ModuleType("setuptools.command"), command):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    runpy.run_path(str(ROOT / "setup.py"), run_name="muster_setup")["take_chart"](build)


def test_the_wheel_has_crds_and_roles_of_the_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_checkout = (read_crds(crd_dir()), read_user_roles())
    take_chart(tmp_path, monkeypatch)
    monkeypatch.setattr(initial_objects, "__file__", str(tmp_path / "sandbox" / "initial_objects.py"))
    assert crd_dir() == tmp_path / "sandbox" / "crds"
    assert (read_crds(crd_dir()), read_user_roles()) == in_checkout
    assert all(in_checkout)


def test_without_them_the_error_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_objects, "__file__", str(tmp_path / "sandbox" / "initial_objects.py"))
    with pytest.raises(ConfigError, match="not found; install Muster anew, or run it from a source checkout"):
        crd_dir()
