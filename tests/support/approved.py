"""Outputs that are kept in files beside the tests, which compare them whole.

`python -m tests.tools.approved --write` writes them anew. The difference is then reviewed with the change.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
# Set while outputs are written instead of compared.
WRITES: Final = "MUSTER_WRITES_APPROVED"
COMMAND: Final = "python -m tests.tools.approved --write"
_MOST_LINES: Final = 200


def compare(path: Path, text: str) -> None:
    """Fail with a unified diff where the file has another text. Where outputs are written: write it."""
    if WRITES in os.environ:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if before != text:
        raise AssertionError(_told(path, before.splitlines(), text.splitlines()))


def _told(path: Path, before: list[str], after: list[str]) -> str:
    name = path.relative_to(ROOT).as_posix()
    lines = list(difflib.unified_diff(before, after, f"approved: {name}", "now", lineterm="", n=2))
    more = [f"... and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else []
    return "\n".join(["another output than the approved one", *lines[:_MOST_LINES], *more, _advice()])


def _advice() -> str:
    return f"Where the new one is right: {COMMAND}"


# What a report of a scenario is about: parts with a digest of their own, and their sections.
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": ("bound", "pending", "evicted", "warnings", "explain", "expectations"),
    "status": ("status", "conditions", "groups", "budgets", "nodeMetrics"),
    "events": ("events",),
}


def compare_report(table: Path, name: str, report: Mapping[str, Any]) -> None:
    """Fail where the report of a scenario is another one than the digests in the table say.

    `name` is the file of the scenario below the table's folder, with `#1` for the second one in it. The
    reports of all scenarios are megabytes of text, so the table keeps digests; the message tells how to see
    the rest.
    """
    found = {part: _digest(report["steps"], sections) for part, sections in _PARTS.items()}
    if WRITES in os.environ:
        _write(table, _read(table) | {name: found})
        return
    known = _known(table)
    if known.get(name) == found:
        return
    others = [part for part, digest in found.items() if known.get(name, {}).get(part) != digest]
    scenario = (table.parent / name.partition("#")[0]).relative_to(ROOT).as_posix()
    raise AssertionError(
        f"{scenario}: another report than the approved one, in {', '.join(others)}\n"
        f"{_shown(report['steps'], [section for part in others for section in _PARTS[part]])}\n"
        f"To see the difference, compare the outputs before and after the change of\n"
        f"  kubectl elasticquota simulate --scenario {scenario} -o yaml\n{_advice()}"
    )


def reported(table: Path) -> set[str]:
    """The scenarios in the table."""
    return set(_read(table))


def _digest(steps: Iterable[Mapping[str, Any]], sections: Iterable[str]) -> str:
    told = [[step.get(section) for section in sections] for step in steps]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:6]


def _shown(steps: Iterable[Mapping[str, Any]], sections: Iterable[str]) -> str:
    wanted = [{name: step[name] for name in sections if step.get(name)} for step in steps]
    lines = json.dumps(wanted, indent=1, ensure_ascii=False).splitlines()
    return "\n".join(lines[:_MOST_LINES])


@functools.cache
def _known(table: Path) -> dict[str, dict[str, str]]:
    """What the table says: each of many scenarios asks for it."""
    return _read(table)


def _read(table: Path) -> dict[str, dict[str, str]]:
    if not table.exists():
        return {}
    rows = (line.split() for line in table.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return {name: dict(zip(_PARTS, digests, strict=True)) for name, *digests in rows}


def _write(table: Path, known: Mapping[str, Mapping[str, str]]) -> None:
    head = f"# Digests of the reports of scenarios: {', '.join(_PARTS)}. Written by {COMMAND}\n"
    rows = (f"{name} {' '.join(parts.values())}\n" for name, parts in sorted(known.items()))
    table.write_text(head + "".join(rows), encoding="utf-8")
