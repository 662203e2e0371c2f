"""What stands before the names of a tree."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kubectl_plugin.render.tree import ASCII, BOXES, Glyphs, glyphs_of, walk

TREE: dict[str, Any] = {"a": {"b": {"c": {}}, "d": {}}, "e": {"f": {}}}


def drawn(glyphs: Glyphs) -> list[str]:
    root = ("root", TREE)
    return [before + node[0] for before, node in walk(root, lambda node: [*node[1].items()], glyphs)]


def test_lines_lead_from_each_parent_to_its_children() -> None:
    assert drawn(BOXES) == ["root", "├─a", "│ ├─b", "│ │ └─c", "│ └─d", "└─e", "  └─f"]
    assert drawn(ASCII) == ["root", "|-a", "| |-b", "| | `-c", "| `-d", "`-e", "  `-f"]


@pytest.mark.parametrize(("encoding", "glyphs"), [("utf-8", BOXES), ("ascii", ASCII), ("latin-1", ASCII)])
def test_an_output_gets_characters_that_it_can_show(encoding: str, glyphs: Glyphs) -> None:
    assert glyphs_of(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) == glyphs
