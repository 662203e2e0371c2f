"""Tests use no private member of the product: a rename inside a room costs no test of another one.

Ruff's rule SLF001 sees attributes. This sees imports, and names in strings: `setattr(queue, "_due", [])`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("scheduler_core", "webhook", "kubectl_plugin", "sandbox", "benchmarks")
BY_NAME = ("setattr", "getattr", "hasattr", "delattr", "attrgetter", "methodcaller", "patch", "object")

# What a text with a fault has: a name in quotes, an import on one line, or a line of an import on several.
MAY_HAVE = re.compile(r"""(?m)["'][\w.]*\b_[A-Za-z]|^\s*(from|import)\b.*\b_[A-Za-z]|^\s+_\w+(,$| as )""")


def is_private(path: str) -> bool:
    """Whether a dotted path has a part with one leading underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in path.split("."))


def faults(text: str) -> Iterator[str]:
    """The private members that a test imports or names, each with its line."""
    for node in ast.walk(ast.parse(text)):
        for path in paths_of(node):
            if is_private(path):
                yield f"{node.lineno}: {path}"  # type: ignore[attr-defined]


def paths_of(node: ast.AST) -> Iterator[str]:
    """The dotted paths of the product that a node imports, and the names of members that a call is given."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if of_product(f"{alias.name}."))
    elif isinstance(node, ast.ImportFrom) and node.module and of_product(f"{node.module}."):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and called(node.func) in BY_NAME:
        texts = [item.value for item in node.args[:2] if isinstance(item, ast.Constant)]
        yield from (text for text in texts if isinstance(text, str) and (of_product(text) or "." not in text))
    elif isinstance(node, ast.Constant) and is_path(node.value):
        yield node.value


def is_path(value: object) -> TypeGuard[str]:
    """Whether a constant is the dotted path of something of the product."""
    return isinstance(value, str) and of_product(value) and value.replace(".", "_").isidentifier()


def of_product(path: str) -> bool:
    """Whether a path is of something in a package of the product."""
    top, dot, _ = path.partition(".")
    return top in PRODUCT and bool(dot)


def called(function: ast.expr) -> str:
    """The last name of what is called."""
    return getattr(function, "attr", getattr(function, "id", ""))


def test_tests_import_and_name_no_private_member() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{fault}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__) and MAY_HAVE.search(text := path.read_text())
        for fault in sorted(set(faults(text)))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        pytest.param("from webhook.http.server import _file", "webhook.http.server._file", id="a function"),
        pytest.param("import webhook._http", "webhook._http", id="a module"),
        pytest.param("from webhook import _http", "webhook._http", id="a module of a package"),
        pytest.param("from sandbox._store import put", "sandbox._store.put", id="a public name of it"),
        pytest.param("patch.setattr(queue, '_due', [])", "_due", id="a member by name"),
        pytest.param("patch.setattr('webhook.app._LIMIT', 1)", "webhook.app._LIMIT", id="by its path"),
        pytest.param("PLACE = 'webhook.app.Server._accept'", "webhook.app.Server._accept", id="in a table"),
        pytest.param("getattr(queue, '_due')", "_due", id="read by name"),
        pytest.param("from webhook.http.server import tls_context", None, id="a public function"),
        pytest.param("from re import _parser", None, id="of another library"),
        pytest.param("from webhook import __main__", None, id="a name of Python"),
        pytest.param("patch.setattr(queue, 'due', '_x')", None, id="a value"),
        pytest.param("TEXT = 'webhook. See _this_'", None, id="prose"),
    ],
)
def test_what_is_private_is_seen(line: str, fault: str | None) -> None:
    assert set(faults(line)) == ({f"1: {fault}"} if fault else set())
    assert not fault or MAY_HAVE.search(line)
