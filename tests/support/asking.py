"""Asking one plugin about one pod, without an engine around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import NormalizePlugin
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import Node
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind


def cluster(*objects: Any) -> ClusterState:
    """A state that holds pods, nodes and storage objects."""
    state = ClusterState()
    for obj in objects:
        put(state, obj)
    return state


def put(state: ClusterState, obj: Any) -> list[ClusterEvent]:
    """Add or change one object."""
    if isinstance(obj, Pod):
        return state.put_pod(obj)
    if isinstance(obj, Node):
        return state.put_node(obj)
    return state.put_object(obj, EventKind.VOLUME)


def cycle_for(state: ClusterState, pod: Pod) -> Cycle:
    """A fresh cycle."""
    return Cycle(state, pod, state.vector(pod), 0.0, "p")


def verdicts(plugin: Any, cycle: Cycle, view: NodeView) -> list[set[str]] | str:
    """Reasons per node of the view, or the text of a PreFilter refusal (which no eviction may resolve)."""
    if hasattr(plugin, "pre_filter"):
        status = plugin.pre_filter(cycle)
        if status.code is Code.SKIP:
            return [set() for _ in range(len(view))]
        if not status.ok:
            assert status.code is Code.UNRESOLVABLE
            return str(status.reason)
    bits = plugin.filter(cycle, view)
    reasons = plugin.reasons(cycle)
    return [{reason.text for i, reason in enumerate(reasons) if int(own) >> i & 1} for own in bits.tolist()]


def points(plugin: Any, cycle: Cycle, view: NodeView) -> list[int]:
    """Normalised scores per node of the view, all of them feasible."""
    everyone = np.ones(len(view), dtype=np.bool_)
    if hasattr(plugin, "pre_score") and plugin.pre_score(cycle, everyone).code is Code.SKIP:
        return [0] * len(view)
    raw = plugin.score(cycle, view)
    if isinstance(plugin, NormalizePlugin):
        raw = plugin.normalize(cycle, raw, everyone)
    return [int(value) for value in raw]


def ask(plugin: Any, state: ClusterState, pod: Pod) -> dict[str, set[str]] | str:
    """`verdicts` on all nodes, by node name."""
    found = verdicts(plugin, cycle_for(state, pod), NodeView.all(state.nodes))
    return found if isinstance(found, str) else dict(zip(state.nodes.names, found, strict=True))


def score(plugin: Any, state: ClusterState, pod: Pod) -> dict[str, int]:
    """`points` on all nodes, by node name."""
    found = points(plugin, cycle_for(state, pod), NodeView.all(state.nodes))
    return dict(zip(state.nodes.names, found, strict=True))


def fitting(plugin: Any, state: ClusterState, pod: Pod) -> list[str]:
    """Names of the nodes that a plugin lets the pod onto."""
    found = ask(plugin, state, pod)
    assert not isinstance(found, str), found
    return [name for name, reasons in found.items() if not reasons]


def wakes(plugin: Any, state: ClusterState, pod: Pod, events: list[ClusterEvent]) -> bool:
    """Whether a plugin's hints find any of the events worth another try."""
    return any(
        event.what & kinds and (hint is None or hint(state, pod, event))
        for event in events
        for kinds, hint in plugin.hints().items()
    )
