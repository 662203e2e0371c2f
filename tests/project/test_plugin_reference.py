"""docs/reference/plugins.md says what the tables and classes say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from scheduler_core.config import default_config, effective_plugins
from scheduler_core.config.args.typed import ARG_TYPES, default_args
from scheduler_core.config.plugins import EXTENSION_POINTS, KNOWN_PLUGINS, LEFT_OUT, NOT_IMPLEMENTED
from scheduler_core.plugins.registry import FACTORIES
from tests.beside.differences import PAGE, ROWS, differs, written
from tests.beside.packages import meant as in_packages
from tests.beside.rig import meant as in_worlds

ROOT = Path(__file__).parents[2]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_plugin_has_a_row_and_no_other() -> None:
    assert [row[0] for row in rows("Included")] == list(KNOWN_PLUGINS)


def test_plugins_of_kubernetes_that_are_missing_are_listed_with_the_reason() -> None:
    assert dict(rows("Left out")) == dict(LEFT_OUT)
    assert dict(rows("Not included")) == dict(NOT_IMPLEMENTED)


@pytest.mark.parametrize("name", KNOWN_PLUGINS)
def test_a_row_is_true(name: str) -> None:
    found = {row[0]: row[1:] for row in rows("Included")}
    points, weight, scope, args, differences = found[name]
    assert points == ", ".join(point for point in EXTENSION_POINTS if point in KNOWN_PLUGINS[name])
    defaults = {ref.name: ref.weight for ref in effective_plugins(default_config().profiles[0])["score"]}
    assert weight == (str(defaults.get(name, 1)) if "score" in KNOWN_PLUGINS[name] else "")
    fields = msgspec.structs.fields(ARG_TYPES[name]) if name in ARG_TYPES else ()
    assert args == ", ".join(f"`{field.encode_name}`" for field in fields)
    if name in FACTORIES:
        declared = getattr(FACTORIES[name](default_args(name)), "scope", None)
        assert scope == (declared.value if declared is not None else "")
    assert differences == differs(name)


def test_the_page_is_made_of_the_table_of_differences() -> None:
    page = PAGE.read_text()
    assert written(page) == page, "python -m tests.beside.differences --write"


def test_every_difference_that_a_comparison_explains_has_a_row() -> None:
    tables = (in_worlds.MEANT, in_worlds.BEFORE_1_37, in_packages.MEANT, in_packages.BEFORE_1_37)
    explained = {key for rows in tables for key in rows}
    assert {row.key for row in ROWS if row.key} == explained


def test_every_difference_has_a_test() -> None:
    assert [row.what for row in ROWS if not (ROOT / row.test).is_file()] == []
