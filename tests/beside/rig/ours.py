"""Muster's engine on the objects that a server holds: a new scheduler decides about one pod."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from scheduler_core.config import load_config
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.simulate import Simulation
from scheduler_core.simulate.explain import explain_pod
from tests.beside.rig.outcome import Outcome, Scores, counted
from tests.beside.rig.real import State

# kube-scheduler's own plugins and nothing else.
CONFIGURATION: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- {schedulerName: default-scheduler}
"""
KUBE_SCHEDULER: Final = load_config(CONFIGURATION, "")


def decide(state: State, pod: bytes, now: float, rule: ResizeRule = ResizeRule.LARGEST_SUM) -> Outcome:
    """What a new scheduler decides about `pod`, the only one that waits. `now` in seconds since the epoch."""
    simulation = Simulation(KUBE_SCHEDULER, now, rule)
    for kind, raws in state.items():
        for error in simulation.load_list(kind, raws if kind != PODS else [*raws, pod]):
            raise error
    key = _key(pod)
    explained = explain_pod(simulation.scheduler, key, now)
    assert explained is not None
    beside = _beside_nominated(simulation, key, now)
    feasible = frozenset(
        name
        for name, entry in explained.items()
        if set(entry["filters"].values()) <= {"pass"} and name in beside
    )
    scores = _weighted(simulation, explained)
    return _outcome(simulation.scheduler.step(now), key, feasible, scores)


def _beside_nominated(simulation: Simulation, key: str, now: float) -> frozenset[str]:
    """The nodes that the pod fits beside the nominated pods that go first: what filters alone do not tell."""
    scheduler = simulation.scheduler
    (profile,) = scheduler.profiles.values()
    (pod,) = (pod for pod in scheduler.state.pods.values() if pod.key == key)
    scores = scheduler.cycle.feasible(profile, pod, now)
    cycle = scheduler.cycle.new_cycle(profile, pod, now)
    evaluation = Reevaluation(scheduler.cycle, profile, cycle)
    return frozenset(
        scheduler.state.nodes.names[slot]
        for slot in np.flatnonzero(scores >= 0).tolist()
        if evaluation.fits_beside_nominated(slot)
    )


def _key(pod: bytes) -> str:
    meta = msgspec.json.decode(pod)["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


def _weighted(simulation: Simulation, explained: dict[str, Any]) -> Scores:
    (profile,) = simulation.scheduler.profiles.values()
    weights = {plugin.name: profile.weight(plugin) for plugin in profile.score}
    found: dict[str, dict[str, int]] = {}
    for node, entry in explained.items():
        for plugin, score in entry["scores"].items():
            found.setdefault(plugin, {})[node] = score * weights[plugin]
    return found


def _outcome(decisions: list[Decision], key: str, feasible: frozenset[str], scores: Scores) -> Outcome:
    victims = frozenset(
        item.pod.key for item in decisions if isinstance(item, Evicted) and item.preemptor.key == key
    )
    for item in decisions:
        if isinstance(item, Placed) and item.pod.key == key:
            return Outcome(node=item.node, feasible=feasible, scores=scores)
        if isinstance(item, Rejected) and item.pod.key == key:
            if item.nominated and item.writes:
                # It runs there as soon as its volumes are made.
                return Outcome(node=item.nominated, feasible=feasible, scores=scores)
            return Outcome(
                nominated=item.nominated,
                reasons=counted(item.message),
                victims=victims,
                message=item.message,
            )
    raise LookupError(f"no decision about {key}")
