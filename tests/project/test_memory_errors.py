"""No handler of all exceptions swallows a MemoryError: a process that has no memory must end."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROAD = {"Exception", "BaseException"}
# What a text with a fault has.
MAY_HAVE = re.compile(r"\bexcept\s*:|\b(?:Base)?Exception\b")


def caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    parts = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(part).rpartition(".")[2] for part in parts}


def passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether it raises the same error at its end."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def logs(handler: ast.ExceptHandler) -> bool:
    """Whether it logs the error itself, which ends a process without memory."""
    calls = [node for node in ast.walk(handler) if isinstance(node, ast.Call)]
    exception = any(ast.unparse(call.func) in ("log.exception", "self.fail") for call in calls)
    return exception or any(word.arg == "exc_info" for call in calls for word in call.keywords)


def faults(source: str) -> list[int]:
    """Lines of handlers that would swallow it."""
    found: list[int] = []
    if not MAY_HAVE.search(source):
        return found
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Try):
            continue
        safe = False
        for handler in node.handlers:
            safe = safe or ("MemoryError" in caught(handler) and passes_on(handler))
            if caught(handler) & BROAD and not (safe or passes_on(handler) or logs(handler)):
                found.append(handler.lineno)
    return found


@pytest.mark.parametrize(
    ("body", "bad"),
    [
        ("except Exception:\n pass", True),
        ("except:\n pass", True),
        ("except Exception as error:\n raise Other from error", True),
        ("except (ValueError, Exception):\n pass", True),
        ("except MemoryError:\n pass\nexcept Exception:\n pass", True),
        ("except ValueError:\n pass", False),
        ("except Exception:\n undo()\n raise", False),
        ("except (Other, MemoryError):\n raise\nexcept Exception:\n pass", False),
        ("except Exception:\n log.exception('x')", False),
        ("except Exception as error:\n log.warning('x', exc_info=error)", False),
    ],
)
def test_the_rule_itself(body: str, bad: bool) -> None:
    assert bool(faults(f"try:\n pass\n{body}")) is bad


def test_no_handler_swallows_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for part in ("webhook", "scheduler_core")
        for path in sorted((ROOT / part).rglob("*.py"))
        # Where it ends the process it may catch what it likes.
        if path.parent.name != "logs"
        for line in faults(path.read_text())
    ]
    # A class's cache passes on what is no error of a plugin's, and MemoryError is none.
    assert [place for place in found if "engine/scores/class_cache.py" not in place] == []
