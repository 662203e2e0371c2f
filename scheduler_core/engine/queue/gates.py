"""Which PreEnqueue plugin holds back a waiting pod or a whole unit."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState


class PreEnqueueGates:
    """The PreEnqueue plugins of all profiles."""

    def __init__(self, state: ClusterState, profiles: Mapping[str, Profile]) -> None:
        self._state = state
        self._profiles = profiles

    def of(self, pod: Pod) -> str:
        """The plugin that holds a pod back; empty if none does."""
        for plugin in self._profiles[pod.scheduler_name].pre_enqueue:
            if not plugin.pre_enqueue(self._state, pod).ok:
                return plugin.name
        return ""

    def of_unit(self, unit: QueuedUnit) -> str:
        """The plugin that holds a unit back: a group is held back only if all its members are."""
        gates = [self.of(pod) for pod in unit.pods.values()]
        return gates[0] if all(gates) else ""

    def held_back(self, unit: QueuedUnit) -> list[Pod]:
        """The pods of a unit that are held back."""
        return [pod for pod in unit.pods.values() if self.of(pod)]
