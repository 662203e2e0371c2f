"""Warning Events for input that is ignored: unreadable annotations, and faults of `slo-controller-config`."""

from __future__ import annotations

from scheduler_core.controllers.events import reference, warning
from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.model.collect_policy import CollectConfig
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import (
    REASON_INVALID_ANNOTATION,
    REASON_INVALID_COLLECT_POLICY,
    SLO_CONFIG_NAME,
    SLO_CONFIG_NAMESPACE,
)
from scheduler_core.model.writes import Create, Write
from scheduler_core.state.cluster import ClusterState


class AnnotationProblems:
    """Reports unreadable annotations of pods and nodes. Stateless: the load index gives each problem once."""

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """One Event per new problem."""
        return [_event(problem, now) for problem in state.load.take_problems()]

    def next_time(self, state: ClusterState) -> float | None:
        """Always None: this controller postpones nothing."""
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


class CollectPolicyProblems:
    """Reports faults of the ConfigMap `slo-controller-config`, once per new version."""

    def __init__(self) -> None:
        self._seen: ConfigMap | None = None
        self._told: frozenset[str] = frozenset()

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """One Event per problem that the previous version did not have."""
        found = state.config_maps.get(f"{SLO_CONFIG_NAMESPACE}/{SLO_CONFIG_NAME}")
        if found is self._seen or found is None:
            return []
        self._seen = found
        problems = _problems(found)
        new = [text for text in problems if text not in self._told]
        self._told = frozenset(problems)
        regarding = reference(CONFIG_MAPS, found.namespace, found.name, found.uid)
        return [warning(regarding, REASON_INVALID_COLLECT_POLICY, text, text, now) for text in new]

    def next_time(self, state: ClusterState) -> float | None:
        """None: nothing is postponed."""
        return None


def _problems(found: ConfigMap) -> list[str]:
    if found.fault is not None:
        return [f"{found.fault}; what was read before stays in use"]
    content = found.content
    problems = content.problems if isinstance(content, CollectConfig) else ()
    return [f"ConfigMap {found.key}: {text}" for text in problems]
