"""The first obstacle of waiting work, by the checks of `kubectl elasticquota why` and in their order.

What the scheduler knows of its last attempt is used where it says the same as a check: a queue is long, and a
check looks at all nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Literal

from scheduler_core.answers.why.group_rungs import gang_rung, topology_rung
from scheduler_core.answers.why.node_rungs import load_rung, refusals_of
from scheduler_core.answers.why.numbers import profile_of, quota_answer
from scheduler_core.answers.why.queue_place import unit_ref
from scheduler_core.answers.why.rung import BLOCKED
from scheduler_core.answers.why.subject import members_of, subject_of_group
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.engine.scores.signature import usage_signature
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation

# What keeps work waiting: the kind of its first obstacle.
Cause = Literal["gates", "gang", "quota", "topology", "load", "nodes", "kept", "unknown"]

# What a plugin looks at; all others look at nodes.
_CAUSES: Final[dict[str, Cause]] = {
    names.CAPACITY_SCHEDULING: "quota",
    names.QUOTA_FLAVORS: "quota",
    names.COSCHEDULING: "gang",
    names.LOAD_AWARE_SCHEDULING: "load",
    names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP: "topology",
}
# The same for members that were tried together, of which only all plugins that may help them are known: what
# weighs most comes first.
_WEIGHT: Final[tuple[tuple[str, Cause], ...]] = (
    (names.NODE_RESOURCES_FIT, "nodes"),
    (names.LOAD_AWARE_SCHEDULING, "load"),
    (names.CAPACITY_SCHEDULING, "quota"),
    (names.QUOTA_FLAVORS, "quota"),
)


class Causes:
    """The first obstacles of the units of a queue, after a run of the scheduler."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        # Whether the load of every node is too high, by kind of pod.
        self._loaded: dict[Hashable, bool] = {}

    def first(self, unit: QueuedUnit) -> Cause:
        """The first obstacle of a unit; `nodes` where no other is known."""
        own = obstacle_of_its_own(self._simulation, unit)
        if own is not None:
            return own
        ref = unit_ref(unit)
        gang = self._simulation.state.gangs.gangs.get(ref.key) if ref is not None else None
        found = self._of_group(gang) if gang is not None else None
        found = found or self._of_pods(unit)
        if found in ("load", "nodes"):
            return "load" if self._too_loaded(next(iter(unit.pods.values()))) else found
        return found

    def _of_group(self, gang: Gang) -> Cause | None:
        """A check before those of nodes: members are tried together, so no attempt says what each met."""
        subject = subject_of_group(self._simulation, gang)
        pods = members_of(self._simulation, subject)
        if not pods:
            return None
        if quota_answer(self._simulation, pods, subject.need).refusal is not None:
            return "quota"
        place = topology_rung(self._simulation, subject, pods)
        return "topology" if place is not None and place.state == BLOCKED else None

    def _of_pods(self, unit: QueuedUnit) -> Cause:
        """What refused a pod in the last attempt, else what may help the unit."""
        rejected = self._simulation.rejected
        refusals = (told.refused_by for pod in unit.pods.values() if (told := rejected.get(pod.key)))
        plugin = next(refusals, "")
        if plugin:
            return _CAUSES.get(plugin, "nodes")
        return next((cause for name, cause in _WEIGHT if name in unit.plugins), "nodes")

    def _too_loaded(self, pod: Pod) -> bool:
        """Whether the load of every node is too high for pods like this one."""
        profile = profile_of(self._simulation, [pod])
        if profile is None or names.LOAD_AWARE_SCHEDULING not in profile.enabled:
            return False
        kind = pod.scheduler_name, usage_signature(pod)
        found = self._loaded.get(kind)
        if found is None:
            rung = load_rung(self._simulation, [pod], refusals_of(self._simulation, [pod]))
            found = self._loaded[kind] = rung is not None and rung.state == BLOCKED
        return found


def obstacle_of_its_own(simulation: Simulation, unit: QueuedUnit) -> Cause | None:
    """The obstacle that lies in the work itself: scheduling gates, or a group that is not complete."""
    if any(pod.gates for pod in unit.pods.values()):
        return "gates"
    ref = unit_ref(unit)
    rung = gang_rung(simulation, ref.key) if ref is not None else None
    return "gang" if rung is not None and rung.state == BLOCKED else None
