"""Computes the filter results and scores of every plugin for one pod on every node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scheduler_core.engine.diagnosis import reason_texts
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import NormalizePlugin, implements
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView


@runtime_checkable
class Detailed(Protocol):
    """A plugin that gives details besides its filter result and score."""

    @property
    def name(self) -> str:
        """The plugin's name."""

    def details(self, cycle: Cycle, slots: Iterable[int]) -> Mapping[int, dict[str, Any]]:
        """The numbers behind the answer per slot, ready for JSON."""


def explain_pod(scheduler: Scheduler, key: str, now: float) -> dict[str, Any] | None:
    """Per node: each filter's result, each normalised score (unweighted), and the weighted total.

    Plugins run one by one on all nodes, so a refusing plugin hides no other. None if the pod does not exist
    or belongs to another scheduler.
    """
    pod = next((pod for pod in scheduler.state.pods.values() if pod.key == key), None)
    profile = scheduler.profiles.get(pod.scheduler_name) if pod is not None else None
    if pod is None or profile is None:
        return None
    cycle = scheduler.cycle.new_cycle(profile, pod, now)
    early = _pre_filter(profile, cycle)
    view = NodeView.all(scheduler.state.nodes)
    nodes = scheduler.state.nodes
    slots = [slot for slot in range(nodes.size) if nodes.alive[slot]]
    out: dict[str, Any] = {
        nodes.names[slot]: {"filters": dict(early), "scores": {}, "total": 0} for slot in slots
    }
    feasible = _filters(profile, cycle, view, slots, out)
    _scores(profile, cycle, view, slots, feasible, out)
    _details(profile, cycle, slots, out)
    return out


def _details(profile: Profile, cycle: Cycle, slots: list[int], out: dict[str, Any]) -> None:
    """The details of the plugins that give any, under `details`."""
    asked = dict.fromkeys((*profile.filter, *profile.score))
    for plugin in asked:
        if isinstance(plugin, Detailed):
            for slot, numbers in plugin.details(cycle, slots).items():
                out[cycle.state.nodes.names[slot]].setdefault("details", {})[plugin.name] = numbers


def _pre_filter(profile: Profile, cycle: Cycle) -> dict[str, str]:
    """Refusals of PreFilter, which hold for all nodes."""
    refused = {}
    for plugin in profile.pre_filter:
        status = plugin.pre_filter(cycle)
        if status.code is Code.SKIP or not status.ok:
            cycle.skipped.add(plugin.name)
        if not status.ok:
            refused[plugin.name] = status.reason
    return refused


def _filters(
    profile: Profile, cycle: Cycle, view: NodeView, slots: list[int], out: dict[str, Any]
) -> np.ndarray:
    feasible = cycle.state.nodes.alive[: len(view)].copy()  # [N]
    for plugin in profile.filter:
        bits = np.zeros(len(view), dtype=np.uint64)  # [N]
        if plugin.name not in cycle.skipped:
            bits = plugin.filter(cycle, view)
        for slot in slots:
            verdict = reason_texts(plugin, cycle, int(bits[slot]))
            out[cycle.state.nodes.names[slot]]["filters"].setdefault(plugin.name, verdict)
        feasible &= bits == 0
    return feasible


def _scores(
    profile: Profile,
    cycle: Cycle,
    view: NodeView,
    slots: list[int],
    feasible: np.ndarray,
    out: dict[str, Any],
) -> None:
    # Without a feasible node all nodes are scored, so that an explanation always has numbers.
    compared = feasible if feasible.any() else cycle.state.nodes.alive[: len(view)]
    skipped = {p.name for p in profile.pre_score if p.pre_score(cycle, compared).code is Code.SKIP}
    for plugin in profile.score:
        if plugin.name in skipped:
            continue
        raw = plugin.score(cycle, view)
        if implements(plugin, NormalizePlugin):
            raw = plugin.normalize(cycle, raw, compared)
        for slot in slots:
            entry = out[cycle.state.nodes.names[slot]]
            entry["scores"][plugin.name] = int(raw[slot])
            entry["total"] += profile.weight(plugin) * int(raw[slot])
