"""Tells once, as Events, which annotations of pods and nodes are ignored because they cannot be read."""

from __future__ import annotations

from scheduler_core.controllers.events import warning
from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.model.names import REASON_INVALID_ANNOTATION
from scheduler_core.model.writes import Create, Write
from scheduler_core.state.cluster import ClusterState


class AnnotationProblems:
    """Has no state: the load index tells each problem once."""

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """An Event per new problem."""
        return [_event(problem, now) for problem in state.load.take_problems()]

    def next_time(self, state: ClusterState) -> float | None:
        """Nothing is postponed."""
        return None


def _event(problem: AnnotationProblem, now: float) -> Create:
    regarding = {
        "apiVersion": "v1",
        "kind": problem.kind,
        "namespace": problem.namespace,
        "name": problem.name,
    }
    occurrence = f"{problem.annotation}={problem.value}"
    return warning(regarding, REASON_INVALID_ANNOTATION, problem.message, occurrence, now)
