"""Maintains a PodDisruptionBudget per running gang, so that no other component evicts it below minMembers.

See docs/gangs.md#protection-from-other-evictions. Running members get a label with the uid of their group,
which is removed from all other pods. The budget selects the label and requires as many available pods as the
gang needs. Muster itself evicts gangs as a whole by deletion, which ignores budgets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from scheduler_core.controllers.pacing import Portions
from scheduler_core.framework.profile import Profile
from scheduler_core.model.groups.gang import RESOURCES, Gang
from scheduler_core.model.kinds import CONFIG_MAPS, POD_DISRUPTION_BUDGETS, PODS
from scheduler_core.model.names import GANG_BUDGET_PREFIX, PROTECTED_GROUP_LABEL
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import IN, Requirement, Selector
from scheduler_core.model.writes import Create, Delete, Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.due_times import DueTimes, earliest
from scheduler_core.state.gangs.gangs import take_census

# Writes without a visible effect are repeated after RETRY_SECONDS, doubling up to LONGEST_SECONDS.
RETRY_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 320.0


class _Sent(msgspec.Struct):
    """The writes of a gang by name; `waits`: the current interval of their repetition, in seconds."""

    waits: float
    writes: dict[str, Write]


class GangBudgets:
    """Reviews only gangs whose pods, object or budgets changed (`state.gangs.budgets`).

    `schedulers`: the profiles whose gangs are protected. Budgets made by Muster are deleted when they are no
    longer needed; budgets of others are never changed. A gang with a pod that another budget selects gets
    none, because the API refuses the eviction of a pod with two budgets.
    """

    def __init__(self, schedulers: Collection[str]) -> None:
        self._schedulers = frozenset(schedulers)
        self._sent: dict[str, _Sent] = {}
        # When the writes of gangs are repeated.
        self._repeats: DueTimes[str] = DueTimes()
        self._portions = Portions()

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """The writes of budgets and labels that are due."""
        budgets = state.gangs.budgets
        if not (self._schedulers or budgets.own):
            # Most clusters do not use gang budgets: no cost.
            budgets.dirty.clear()
            budgets.changed.clear()
            self._sent.clear()
            self._repeats.clear()
            return []
        writes = _cleared(state)
        if budgets.changed:
            writes += _orphans(state)
            in_them = (
                gang.key for gang in state.gangs.gangs.values() if gang.ref.namespace in budgets.changed
            )
            budgets.dirty.update(in_them)
            budgets.changed.clear()
        budgets.dirty.update(self._repeats.take(now))
        for key in self._portions.take(budgets.dirty, now):
            gang = state.gangs.gangs.get(key)
            writes += self._fresh(key, self._of_gang(state, gang) if gang is not None else [], now)
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When to check the last writes; at once if gangs are left from the last pass."""
        budgets = state.gangs.budgets
        changed = 0.0 if budgets.changed else None
        return earliest(changed, self._repeats.next_time(), self._portions.next_time(budgets.dirty))

    def _fresh(self, key: str, wanted: list[Write], now: float) -> list[Write]:
        """The writes that were not sent yet; all of them if they had no effect until they are due again."""
        sent = self._sent.get(key)
        if not wanted:
            self._sent.pop(key, None)
            self._repeats.drop(key)
            return []
        by_name = {_name(write): write for write in wanted}
        if sent is not None and key in self._repeats:
            fresh = [write for name, write in by_name.items() if sent.writes.get(name) != write]
            sent.writes = by_name
            return fresh
        waits = min(2 * sent.waits, LONGEST_SECONDS) if sent is not None else RETRY_SECONDS
        self._sent[key] = _Sent(waits, by_name)
        self._repeats.put(key, now + waits)
        return wanted

    def _of_gang(self, state: ClusterState, gang: Gang) -> list[Write]:
        own = state.gangs.budgets.own.get(gang.uid)
        wanted = self._wanted(state, gang)
        if not wanted:
            return [_deletion(own)] if own is not None else []
        labels = [_labelled(pod, gang.uid) for pod in _running(state, gang) if _mark(pod) != gang.uid]
        return [*labels, *_budget(state, gang, own, wanted)]

    def _wanted(self, state: ClusterState, gang: Gang) -> int:
        """The number of members that must stay available; 0 if the gang gets no budget."""
        members = state.gangs.members(gang.key).values()
        if not self._schedulers.intersection(pod.scheduler_name for pod in members):
            return 0
        if gang.ref.dialect == "native-PodGroup" and gang.min_members == 1:
            # No gang policy: pods that need not start together.
            return 0
        census = take_census(state, gang.key)
        if census.allocated <= census.binding:
            return 0
        others = state.gangs.budgets.others(gang.ref.namespace).values()
        live = (pod for pod in members if not pod.finished)
        if others and any(other.selector.matches(pod.labels) for pod in live for other in others):
            return 0
        return max(0, gang.min_members - census.succeeded)


def protecting(profiles: Mapping[str, Profile]) -> frozenset[str]:
    """The scheduler names of the profiles with `disruptionBudgets`."""
    return frozenset(
        name
        for name, profile in profiles.items()
        if any(getattr(plugin, "disruption_budgets", False) for plugin in profile.plugins)
    )


def gang_selector(uid: str) -> Selector:
    """The selector of a gang's budget."""
    return Selector((Requirement(PROTECTED_GROUP_LABEL, IN, (uid,)),))


def _name(write: Write) -> str:
    """A name that is unique among the writes of a gang."""
    kind = type(write).__name__
    return f"{kind} {write.namespace if isinstance(write, Create) else write.name}"


def _mark(pod: Pod) -> str:
    return pod.labels.get(PROTECTED_GROUP_LABEL, "")


def _running(state: ClusterState, gang: Gang) -> list[Pod]:
    """Members on a node that have not finished, in order of uid."""
    members = state.gangs.members(gang.key)
    pods = (members[uid] for uid in sorted(members))
    return [pod for pod in pods if pod.assigned and not (pod.finished or pod.terminating)]


def _budget(state: ClusterState, gang: Gang, own: PodDisruptionBudget | None, wanted: int) -> list[Write]:
    """The write that creates or corrects the budget, if any."""
    name = GANG_BUDGET_PREFIX + gang.uid
    spec: dict[str, Any] = {
        "minAvailable": wanted,
        "selector": {"matchLabels": {PROTECTED_GROUP_LABEL: gang.uid}},
    }
    if own is None:
        taken = name in state.gangs.budgets.others(gang.ref.namespace)
        return [] if taken else [_creation(state, gang, name, spec)]
    if (own.min_available, own.selector) == (wanted, gang_selector(gang.uid)):
        return []
    spec["selector"]["matchExpressions"] = spec["maxUnavailable"] = None
    return [Patch(POD_DISRUPTION_BUDGETS, own.namespace, own.name, {"spec": spec}, uid=own.uid)]


def _creation(state: ClusterState, gang: Gang, name: str, spec: dict[str, Any]) -> Write:
    kind = RESOURCES.get(gang.ref.dialect, CONFIG_MAPS)
    config_map = state.config_maps.of(gang.key)
    owner = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": config_map.name if config_map is not None else gang.ref.name,
        "uid": gang.uid,
    }
    meta = {
        "name": name,
        "namespace": gang.ref.namespace,
        "labels": {PROTECTED_GROUP_LABEL: gang.uid},
        "ownerReferences": [owner],
    }
    body = {
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version,
        "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": meta,
        "spec": spec,
    }
    return Create(POD_DISRUPTION_BUDGETS, gang.ref.namespace, body)


def _orphans(state: ClusterState) -> list[Write]:
    """Deletions of budgets whose gang is gone."""
    own = state.gangs.budgets.own
    known = {gang.uid for gang in state.gangs.gangs.values()} if own else set()
    return [_deletion(budget) for uid, budget in sorted(own.items()) if uid not in known]


def _cleared(state: ClusterState) -> list[Write]:
    """Removes the label from pods that do not belong to the gang that it names."""
    budgets = state.gangs.budgets
    writes: list[Write] = []
    for pod in list(budgets.suspects.values()):
        gang = state.gangs.of(pod)
        if gang is not None and gang.uid == _mark(pod):
            del budgets.suspects[pod.uid]
        elif _mark(pod) in budgets.own:
            del budgets.suspects[pod.uid]
            writes.append(_labelled(pod, None))
    return writes


def _labelled(pod: Pod, uid: str | None) -> Write:
    body = {"metadata": {"labels": {PROTECTED_GROUP_LABEL: uid}}}
    return Patch(PODS, pod.namespace, pod.name, body, uid=pod.uid)


def _deletion(budget: PodDisruptionBudget) -> Write:
    return Delete(POD_DISRUPTION_BUDGETS, budget.namespace, budget.name, uid=budget.uid)
