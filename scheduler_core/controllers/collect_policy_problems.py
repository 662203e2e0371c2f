"""Tells once, as Events, what of the ConfigMap `slo-controller-config` cannot be used."""

from __future__ import annotations

from scheduler_core.controllers.events import warning
from scheduler_core.model.collect_policy import CollectConfig
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import (
    REASON_INVALID_COLLECT_POLICY,
    SLO_CONFIG_NAME,
    SLO_CONFIG_NAMESPACE,
)
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState


class CollectPolicyProblems:
    """Looks at the ConfigMap again only when there is another version of it."""

    def __init__(self) -> None:
        self._seen: ConfigMap | None = None
        self._told: frozenset[str] = frozenset()

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """An Event for each problem that the version before did not have."""
        found = state.config_maps.get(f"{SLO_CONFIG_NAMESPACE}/{SLO_CONFIG_NAME}")
        if found is self._seen or found is None:
            return []
        self._seen = found
        problems = _problems(found)
        new = [text for text in problems if text not in self._told]
        self._told = frozenset(problems)
        regarding = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "namespace": found.namespace,
            "name": found.name,
            "uid": found.uid,
        }
        return [warning(regarding, REASON_INVALID_COLLECT_POLICY, text, text, now) for text in new]

    def next_time(self, state: ClusterState) -> float | None:
        """Nothing is postponed."""
        return None


def _problems(found: ConfigMap) -> list[str]:
    if found.fault is not None:
        return [f"{found.fault}; what was read before stays in use"]
    content = found.content
    problems = content.problems if isinstance(content, CollectConfig) else ()
    return [f"ConfigMap {found.key}: {text}" for text in problems]
