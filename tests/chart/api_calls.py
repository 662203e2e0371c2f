"""Every place in the code that makes a request, found in the syntax, for the test of the chart's RBAC."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WRITES = {"Create": "create", "Patch": "patch", "Replace": "update", "Delete": "delete"}
READS = {"get": "get", "get_json": "get", "get_page": "list", "list_raw": "list"}
WATCHES = ("Reflector", "_reflector")
# Functions that build a patch for their callers; the calls count, not the one place where it is built.
STATUS_PATCH = "pod_status_patch"
GROUP_PATCH = "patch_of"


# What a text with a request has: a call by one of these names, or something that is a client.
NAMES = ("Bind", "Evict", STATUS_PATCH, GROUP_PATCH, *WRITES, *WATCHES, *READS, "list_pages", "call")
MAY_HAVE = re.compile(rf"\b(?:{'|'.join(set(NAMES) - {'get'})})\(|client", re.IGNORECASE)

VARIABLE = "*"


class Call(NamedTuple):
    """One request as it is written: file, what it does, to which resource, to which part of it.

    The resource is the name of a constant of `model.kinds`, or VARIABLE for any other expression.
    """

    file: str
    verb: str
    resource: str = VARIABLE
    subresource: str = ""


def calls(*folders: str) -> set[Call]:
    """What the Python files of these folders (or files) ask of an API server."""
    found: set[Call] = set()
    for folder in folders:
        place = ROOT / folder
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found |= _in_file(path)
    return found


@cache
def _in_file(path: Path) -> frozenset[Call]:
    text = path.read_text()
    if not MAY_HAVE.search(text):
        return frozenset()
    return frozenset(_in_tree(ast.parse(text), path.relative_to(ROOT).as_posix()))


def _in_tree(tree: ast.AST, file: str) -> Iterator[Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _of_call(node, file)


def _of_call(node: ast.Call, file: str) -> Iterator[Call]:
    name = _name(node.func)
    if name == "Bind":
        yield Call(file, "create", "PODS", "binding")
    elif name == "Evict":
        yield Call(file, "evict", "PODS")
    elif name == STATUS_PATCH:
        yield Call(file, "patch", "PODS", "status")
    elif name == GROUP_PATCH:
        yield Call(file, "patch", subresource=_subresource(node))
    elif name in WRITES and node.args:
        yield Call(file, WRITES[name], _resource(node.args[0]), _subresource(node))
    elif name in WATCHES:
        # A reflector takes its client first.
        yield Call(file, "watch", _resource(node.args[1]))
    elif name == "list_pages":
        # The pager takes its client first, too.
        yield Call(file, "list", _resource(node.args[1]))
    elif name in READS and isinstance(node.func, ast.Attribute) and node.args and _is_client(node):
        yield Call(file, READS[name], _resource(node.args[0]))
    elif name == "call" and isinstance(node.func, ast.Attribute) and len(node.args) > 1:
        yield Call(file, "call")


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_client(node: ast.Call) -> bool:
    """`.get` is also a method of dicts: only clients count."""
    assert isinstance(node.func, ast.Attribute)
    return node.func.attr != "get" or "client" in ast.unparse(node.func.value).lower()


def _resource(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) and node.id.isupper() else VARIABLE


def _subresource(node: ast.Call) -> str:
    for keyword in node.keywords:
        if keyword.arg == "subresource" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return ""
