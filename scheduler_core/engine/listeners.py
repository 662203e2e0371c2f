"""Who of those that refused a unit listens to an event, and whether it may help.

Reports of nodes come many times a second; most waiting pods were refused by plugins that do not listen to
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler_core.engine.unit import QueuedUnit
from scheduler_core.framework.interface import EventsPlugin, Hint
from scheduler_core.framework.obstacles import (
    PREEMPTION,
    NominatedPods,
    Preemption,
    PreemptionBeside,
    concerns_preemptors,
)
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

# What no plugin refuses by itself, whatever the profile.
_ALWAYS: Final[tuple[EventsPlugin, ...]] = (NominatedPods(), Preemption(), PreemptionBeside())


class Listeners:
    """Plugins by name and event, per profile; who listens at all is found out once per kind of event."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._hints: dict[str, dict[str, Mapping[Happened, Hint | None]]] = {
            profile.name: {plugin.name: plugin.hints() for plugin in (*profile.events, *_ALWAYS)}
            for profile in profiles
        }
        self._kinds = [
            (name, tuple(hints)) for known in self._hints.values() for name, hints in known.items()
        ]
        self._found: dict[Happened, frozenset[str]] = {}

    def wake(self, state: ClusterState, unit: QueuedUnit, event: ClusterEvent) -> bool:
        """Whether an event may help any pod of a unit that waits."""
        asked = unit.distinct()
        if unit.gang and len(state.nominations):
            asked = [*asked, *_waiting_for_nodes(state, unit, event)]
        return any(self._accept(state, unit.plugins, pod, event) for pod in asked)

    def _accept(self, state: ClusterState, refused_by: frozenset[str], pod: Pod, event: ClusterEvent) -> bool:
        """Whether an event may help a pod that these plugins refused."""
        known = self._hints[pod.scheduler_name]
        for name in self.of(event.what) & refused_by:
            for kinds, hint in known.get(name, {}).items():
                if event.what & kinds and (hint is None or _accepts(hint, state, pod, event)):
                    return True
        return False

    def concerned(self, state: ClusterState, event: ClusterEvent) -> frozenset[str]:
        """Names of those whose pods an event may help at all."""
        names = self.of(event.what)
        if PREEMPTION in names and not concerns_preemptors(state, event):
            return names - {PREEMPTION}
        return names

    def of(self, what: Happened) -> frozenset[str]:
        """Names of those that have a hint for one of these kinds."""
        found = self._found.get(what)
        if found is None:
            names = (name for name, kinds in self._kinds if any(what & kind for kind in kinds))
            found = self._found[what] = frozenset(names)
        return found


def _accepts(hint: Hint, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """What a hint says. A broken one costs an attempt too many, not the process."""
    try:
        return hint(state, pod, event)
    except MemoryError:
        raise
    except Exception:
        return True


def _waiting_for_nodes(state: ClusterState, unit: QueuedUnit, event: ClusterEvent) -> list[Pod]:
    """Members that were nominated with victims, and those whose node the event is about."""
    node = event.node or event.old_node
    found = []
    for uid, pod in unit.pods.items():
        item = state.nominations.get(uid)
        if item is not None and (not item.kept or (node is not None and node.name == item.node)):
            found.append(pod)
    return found
