"""Tells once, as Events, which annotations of pods and nodes are ignored because they cannot be read."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.model.conditions import rfc3339_micro
from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.names import EVENT_WARNING, MUSTER_SCHEDULER, REASON_INVALID_ANNOTATION
from scheduler_core.model.writes import Create, Write
from scheduler_core.state.cluster import ClusterState

# Where Events about objects without a namespace live.
_CLUSTER_EVENTS: Final = "default"


class AnnotationProblems:
    """Has no state: the load index tells each problem once."""

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """An Event per new problem."""
        return [_event(problem, now) for problem in state.load.take_problems()]

    def next_time(self, state: ClusterState) -> float | None:
        """Nothing is postponed."""
        return None


def _event(problem: AnnotationProblem, now: float) -> Create:
    """The Event; its name follows from what it says, so that another process does not say it again."""
    namespace = problem.namespace or _CLUSTER_EVENTS
    digest = sha256(f"{problem.annotation}={problem.value}".encode()).hexdigest()[:16]
    regarding = {
        "apiVersion": "v1",
        "kind": problem.kind,
        "namespace": problem.namespace,
        "name": problem.name,
    }
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{problem.name[:230]}.{digest}", "namespace": namespace},
        "eventTime": rfc3339_micro(now),
        "type": EVENT_WARNING,
        "reason": REASON_INVALID_ANNOTATION,
        "action": "Scheduling",
        "note": problem.message[:1024],
        "regarding": regarding,
        "reportingController": MUSTER_SCHEDULER,
        "reportingInstance": MUSTER_SCHEDULER,
    }
    return Create(EVENTS, namespace, body)
