"""Errors as text: what is wrong, and where."""

from __future__ import annotations

import pytest

from scheduler_core.errors import ConfigError, PluginError

PLACES = [
    ("", "", "is odd"),
    ("a.yaml", "", "a.yaml: is odd"),
    ("", "profiles[0]", "profiles[0]: is odd"),
    ("a.yaml", "profiles[0]", "a.yaml: profiles[0]: is odd"),
]


@pytest.mark.parametrize(("file", "path", "text"), PLACES, ids=["nowhere", "a file", "a field", "both"])
def test_a_mistake_in_a_file_is_told_with_its_place(file: str, path: str, text: str) -> None:
    assert str(ConfigError(path, "is odd", file=file)) == text


def test_a_plugin_is_told_with_its_point_and_pod() -> None:
    error = PluginError("Fit", "filter", "a/p", ValueError("odd"))
    assert str(error) == "plugin Fit failed at filter for pod a/p: ValueError('odd')"
