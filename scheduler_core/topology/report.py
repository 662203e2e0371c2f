"""Formats placement and ranks of a group (docs/topology.md#ranks-and-results)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from scheduler_core.topology.rank import Member
from scheduler_core.topology.tree import Tree

ROOT = "root"


def placement_text(tree: Tree, members: Sequence[Member]) -> str:
    """Nested JSON from the root to the pods: `{"root": {"rack-0": {"node-0": {"pod-0": {}}}}}`."""
    top: dict[str, Any] = {}
    for member in _along(members):
        below = top
        for unit in (*tree.path(member.leaf), member.pod):
            below = below.setdefault(unit, {})
    return json.dumps({ROOT: top})


def rank_text(ranks: Iterable[tuple[str, int]]) -> str:
    """Pods with their ranks: `[(pod-0,0) (pod-4,1)]`."""
    return "[" + " ".join(f"({pod},{rank})" for pod, rank in ranks) + "]"


def drawn_placement(tree: Tree, members: Sequence[Member]) -> str:
    """The placement in the form of `resultsFormat: Seed`, not JSON: units and sets of pods in braces.

    `{"root": {"rack-0": {"node-0": {"pod-0", "pod-4"}}, {"node-2": {"pod-1"}}}}`, pods by rank.
    """
    return _drawn(ROOT, [((*tree.path(placed.leaf), placed.pod)) for placed in _along(members)])


def drawn_ranks(ranks: Iterable[tuple[str, int]]) -> str:
    """Pods with their ranks in the form of `resultsFormat: Seed`: `[("pod-0",0) ("pod-4",1) ]`."""
    return "[" + "".join(f'("{pod}",{rank}) ' for pod, rank in ranks) + "]"


def _drawn(unit: str, paths: Sequence[tuple[str, ...]]) -> str:
    """A unit with what is below it: paths from its children to the pods."""
    if len(paths[0]) == 1:
        pods = ", ".join(f'"{pod}"' for (pod,) in paths)
        return f'{{"{unit}": {{{pods}}}}}'
    below = groupby(paths, key=lambda path: path[0])
    children = ", ".join(_drawn(name, [path[1:] for path in there]) for name, there in below)
    return f'{{"{unit}": {children}}}'


def _along(members: Sequence[Member]) -> list[Member]:
    return sorted(members, key=lambda placed: placed.leaf)
