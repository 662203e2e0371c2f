"""A clone with stand-ins for what is slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bare.fakes import Clone, make_clone


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """Its path has a blank and an umlaut."""
    return make_clone(tmp_path / "my clöne")
