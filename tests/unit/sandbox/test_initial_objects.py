"""Where the sandbox finds Muster's CustomResourceDefinitions: in a checkout, and in an installed package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from sandbox import initial_objects
from sandbox.initial_objects import crd_dir, read_crds, read_user_roles
from scheduler_core.errors import ConfigError

ROOT = Path(__file__).parents[3]


def take_chart(build: Path) -> None:
    """The build step of setup.py."""
    spec = importlib.util.spec_from_file_location("muster_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.take_chart(build)


def test_the_wheel_has_crds_and_roles_of_the_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_checkout = (read_crds(crd_dir()), read_user_roles())
    take_chart(tmp_path)
    monkeypatch.setattr(initial_objects, "__file__", str(tmp_path / "sandbox" / "initial_objects.py"))
    assert crd_dir() == tmp_path / "sandbox" / "crds"
    assert (read_crds(crd_dir()), read_user_roles()) == in_checkout
    assert all(in_checkout)


def test_without_them_the_error_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_objects, "__file__", str(tmp_path / "sandbox" / "initial_objects.py"))
    with pytest.raises(ConfigError, match="not found; install Muster anew, or run it from a source checkout"):
        crd_dir()
