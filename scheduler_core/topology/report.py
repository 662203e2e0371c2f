"""The texts that a group carries after placement, in the topology seed's forms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from scheduler_core.topology.rank import Member
from scheduler_core.topology.tree import Tree

ROOT = "root"


def placement_text(tree: Tree, members: Sequence[Member]) -> str:
    """Nested JSON from the root to the pods: `{"root": {"rack-0": {"node-0": {"pod-0": {}}}}}`."""
    top: dict[str, Any] = {}
    for member in sorted(members, key=lambda placed: placed.leaf):
        below = top
        for unit in (*tree.path(member.leaf), member.pod):
            below = below.setdefault(unit, {})
    return json.dumps({ROOT: top})


def rank_text(ranks: Iterable[tuple[str, int]]) -> str:
    """Pods with their ranks: `[(pod-0,0) (pod-4,1)]`."""
    return "[" + " ".join(f"({pod},{rank})" for pod, rank in ranks) + "]"
