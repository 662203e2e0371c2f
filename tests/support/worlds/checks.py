"""What must be true of a binding and of a preemption, read from the raw objects before it is carried out."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from tests.support.worlds.covered import may_go, must_stay
from tests.support.worlds.endings import going
from tests.support.worlds.fairness import unfair
from tests.support.worlds.filters import gang_fits, place_for, ready_members, why_not
from tests.support.worlds.reading import (
    Raw,
    View,
    cost,
    finished,
    group_key,
    key,
    namespace,
    needed,
    node_of,
    priority,
)
from tests.support.worlds.shares import (
    borrows_guaranteed,
    lacking,
    more_strangers,
    over_budget,
    reaches_further,
)

# Beyond so many candidates, or victims, other ways are not searched.
MAX_CANDIDATES: Final = 8
MAX_VICTIMS: Final = 3


class Fault(NamedTuple):
    """Which check failed, and in which words."""

    check: str
    text: str


# Bindings


def binding_faults(view: View, pod: Raw, node: str) -> Iterator[Fault]:
    """A pod that is about to be bound: every filter of the node, and its quota, as things are."""
    why = why_not(view, pod, node)
    if why:
        yield Fault(f"bind-{why.split(':')[0]}", f"{key(pod)} is bound to {node} in spite of {why}")
    refused = view.refused(pod, reserved=False)
    if refused:
        yield Fault("bind-quota", f"{key(pod)} is bound to {node} beyond {refused}")


def together_faults(before: View, after: View, bound: Sequence[tuple[Raw, str]]) -> Iterator[Fault]:
    """Pods that are bound one after the other: each as things are in its turn.

    A group that is placed as a whole is bound in the order of its ranks, which need not be an order in which
    members could follow each other: for members it is enough that all is well when all are bound.
    """
    for pod, node in bound:
        faults = list(binding_faults(before, pod, node))
        if faults and group_key(pod) and not any(binding_faults(after.without({key(pod)}), pod, node)):
            faults = []
        yield from faults
        before = before.placed(pod, node)


def gang_faults(view: View, group: str) -> Iterator[Fault]:
    """Right after members of a group were bound: enough of them hold a node."""
    if group not in view.groups:
        yield Fault("gang-unknown", f"members of {group} are bound, and it does not exist")
        return
    found = view.groups[group]
    members = view.members(group)
    holding = [pod for pod in members if node_of(pod) and not finished(pod) and not going(pod)]
    if needed(view, group) > 0:
        yield Fault("gang-torn", f"{group}: {len(holding)} of {found.minimum} hold a node after its start")
    if found.dialect == "config" and len(holding) > found.minimum:
        yield Fault("gang-size", f"{group}: {len(holding)} members hold a node, its size is {found.minimum}")


# Preemption


class Preemption(NamedTuple):
    """Victims (raw) that go for a pod, or for a gang; `nodes` are those kept for the preemptors, by key.

    `fair`: their messages say that it is a fair move. `together`: members of the group that are to start.
    """

    pods: tuple[Raw, ...]
    victims: tuple[Raw, ...]
    nodes: dict[str, str]
    fair: bool = False
    together: tuple[Raw, ...] = ()

    @property
    def name(self) -> str:
        return " and ".join(key(pod) for pod in self.pods)

    @property
    def gone(self) -> set[str]:
        return {key(pod) for pod in self.victims}

    def __str__(self) -> str:
        return f"{self.name} evicts {', '.join(sorted(self.gone))}"


def preemption_faults(view: View, found: Preemption) -> Iterator[Fault]:
    """Lawful, of use, and without a victim too many, as things will be when all who leave are gone."""
    leaving = view.leaving()
    for victim in found.victims:
        if not view.evictable(victim):
            yield Fault("evict-twice", f"{found}: {key(victim)} is on its way out already")
    for pod in found.pods:
        if pod["spec"].get("preemptionPolicy") == "Never":
            yield Fault("evict-never", f"{found}: {key(pod)} must never preempt")
    group = group_key(found.pods[0])
    whole = group in view.groups and needed(view, group) > 0
    judge = _gang_unlawful if whole else _unlawful
    # What is lawful by one of two readings is lawful.
    if any(judge(view.if_closed_go(), found)):
        yield from judge(view, found)
    if not whole:
        yield from _single_in_vain(view, found, found.pods[0], leaving)
        yield from _budget_faults(view, found, found.pods[0], leaving)
        yield from _within_max(view, found, found.pods[0], leaving)
    elif not view.groups[group].where:
        yield from _gang_in_vain(view, found, group, leaving)


def _unlawful(view: View, found: Preemption) -> Iterator[Fault]:
    pod = found.pods[0]
    ns = namespace(pod)
    if found.fair:
        for faulty in unfair(view, pod, found.victims):
            yield Fault("evict-unfair", f"{found}: {faulty}")
        return
    # A native group may evict less important pods of its own quota within its min as well. So may a pod that
    # is beyond its min with those who wait with their group, if these have evicted for their nodes.
    mine = {namespace(victim) for victim in found.victims} == {ns}
    own = mine and (_for_many(view, pod) or not view.within_min(pod))
    if ns in view.quotas and view.may_reclaim(pod) and not own:
        for faulty in not_reclaimable(view, ns, found.victims):
            yield Fault("evict-reclaim", f"{found}: {faulty}")
        return
    for victim in found.victims:
        if ns in view.quotas and namespace(victim) != ns:
            yield Fault("evict-foreign", f"{found}: {key(victim)} is of another namespace, {ns} is above min")
        elif ns not in view.quotas and namespace(victim) in view.quotas:
            yield Fault("evict-quota", f"{found}: {key(victim)} is under a quota, the preemptor under none")
        elif priority(victim) >= priority(pod):
            yield Fault("evict-priority", f"{found}: {key(victim)} is not less important")
        elif ns in view.quotas and not _for_many(view, pod) and must_stay(view, pod, victim):
            yield Fault("evict-covered", f"{found}: the min covers {key(victim)}, and not the preemptor")


def not_reclaimable(view: View, ns: str, victims: Sequence[Raw]) -> Iterator[str]:
    """Why victims cannot be taken one after the other, each from another quota that is over min."""
    leaving = view.leaving()
    for other in {namespace(victim) for victim in victims}:
        if other not in view.quotas:
            yield f"{other} has no quota"
        elif other == ns:
            yield f"{other} is the preemptor's own quota, which is within min"
        else:
            own = [victim for victim in victims if namespace(victim) == other]
            if not _over_to_the_last(view, other, own, leaving):
                names = sorted(key(victim) for victim in own)
                yield f"the quota of {other} is within min before the last of {names} goes"


def _over_to_the_last(view: View, ns: str, victims: Sequence[Raw], leaving: set[str]) -> bool:
    """Whether each victim uses something that its quota borrows, also the last in some order.

    Gangs go together.
    """
    units: dict[str, set[str]] = {}
    for victim in victims:
        units.setdefault(group_key(victim) or key(victim), set()).add(key(victim))
    gone = set().union(*units.values())
    uses = {
        name: {resource for victim in victims if key(victim) in unit for resource in _used(victim)}
        for name, unit in units.items()
    }
    borrowed = view.over(ns, leaving)
    return all(uses[name] & borrowed for name in units) and any(
        uses[name] & view.over(ns, (gone - unit) | leaving) for name, unit in units.items()
    )


def _used(pod: Raw) -> set[str]:
    return {name for name, amount in cost(pod).items() if amount > 0}


def _gang_unlawful(view: View, found: Preemption) -> Iterator[Fault]:
    """Members are placed one after the other: the first may reclaim, a later one take lower priorities."""
    ns, leaving = namespace(found.pods[0]), view.leaving()
    if found.fair:
        for faulty in unfair(view, found.pods[0], found.victims, found.together):
            yield Fault("evict-unfair", f"{found}: {faulty}")
        return
    own = {group_key(pod) for pod in found.pods}
    among_groups = any(view.groups[name].where for name in own if name in view.groups)

    def importance(pod: Raw) -> int:
        """Groups on the topology go before others by the priority of the group, where it has one."""
        group = view.groups.get(group_key(pod)) if among_groups else None
        return group.priority if group is not None and group.priority is not None else priority(pod)

    most = max(map(importance, found.pods))
    for victim in found.victims:
        if group_key(victim) in own:
            yield Fault("evict-own-gang", f"{found}: {key(victim)} is a member of the same group")
        elif not node_of(victim):
            yield Fault("evict-waiting", f"{found}: {key(victim)} has no node")
        elif namespace(victim) == ns or ns not in view.quotas:
            if (namespace(victim) in view.quotas) != (ns in view.quotas):
                yield Fault("evict-quota", f"{found}: {key(victim)} is under a quota, the preemptor not")
            elif importance(victim) >= most:
                yield Fault("evict-priority", f"{found}: {key(victim)} is not less important")
        elif namespace(victim) not in view.quotas:
            yield Fault("evict-quota", f"{found}: {key(victim)} is under no quota, the preemptor under one")
    others = {namespace(victim) for victim in found.victims} & set(view.quotas) - {ns}
    for other in others:
        theirs = [victim for victim in found.victims if namespace(victim) == other]
        if not _over_to_the_last(view, other, theirs, leaving):
            yield Fault("evict-reclaim", f"{found}: the quota of {other} is within min before the last goes")
    if (
        others
        and not among_groups
        and borrows_guaranteed(view, group_key(found.pods[0]), found.victims, leaving)
    ):
        yield Fault("evict-guaranteed", f"{found}, and would borrow what others are guaranteed")


def _for_many(view: View, pod: Raw) -> bool:
    """Whether a native group evicts: for as many members as may start.

    tests/property/test_group_preemption.py checks that it needs all of its victims.
    """
    group = view.groups.get(group_key(pod))
    return group is not None and group.dialect == "native"


def _single_in_vain(view: View, found: Preemption, pod: Raw, leaving: set[str]) -> Iterator[Fault]:
    node = found.nodes.get(key(pod), "")
    after = view.without(found.gone | leaving)
    why = why_not(after, pod, node) or after.refused(pod, reserved=False)
    if why:
        yield Fault("evict-useless", f"{found} for {node}, where it then does not fit: {why}")
    for victim in () if _for_many(view, pod) else found.victims:
        if not group_key(victim):
            rest = found.gone - {key(victim)}
            place = place_for(view, pod, rest | leaving)
            if place:
                yield Fault("evict-spare", f"{found} for {node}; without {key(victim)} it fits {place}")


def _gang_in_vain(view: View, found: Preemption, group: str, leaving: set[str]) -> Iterator[Fault]:
    members, need = ready_members(view, group), needed(view, group)
    if gang_fits(view.without(found.gone | leaving), members, need) is False:
        yield Fault("evict-useless", f"{found}, and {need} of them still do not fit")
    for victim in () if _for_many(view, found.pods[0]) else found.victims:
        rest = found.gone - {key(victim)}
        others = [other for other in found.victims if key(other) != key(victim)]
        if not group_key(victim) and _fit_by_right(view.without(rest | leaving), members, need, others):
            yield Fault("evict-spare", f"{found}; without {key(victim)} {need} of them fit")


def _fit_by_right(view: View, members: Sequence[Raw], need: int, gone: Sequence[Raw]) -> bool:
    """Whether `need` of the members fit, one of them more important than all pods that go by priority.

    A gang does not evict with the priority of a member that does not start.
    """
    ns = namespace(members[0])
    by_priority = [priority(pod) for pod in gone if namespace(pod) == ns or ns not in view.quotas]
    if not by_priority:
        return gang_fits(view, members, need) is True
    for first in (pod for pod in members if priority(pod) > max(by_priority)):
        others = [pod for pod in members if pod is not first]
        admitted = not view.refused(first, reserved=False)
        nodes = [node for node in view.nodes if admitted and not why_not(view, first, node)]
        if any(gang_fits(view.placed(first, node), others, need - 1) for node in nodes):
            return True
    return False


def _budget_faults(view: View, found: Preemption, pod: Raw, leaving: set[str]) -> Iterator[Fault]:
    """A budget is violated although other pods of the same node would do, without any violation."""
    node = found.nodes.get(key(pod), "")
    here = all(node_of(victim) == node for victim in found.victims)
    if not view.budgets or not here or any(group_key(victim) for victim in found.victims):
        return
    if not over_budget(view, found.victims):
        return
    reclaims = namespace(pod) in view.quotas and view.within_min(pod)
    if reclaims and view.above_max(cost(pod)):
        # Who gives first gives whatever budgets say.
        return
    for other in ways(view, pod, leaving, node):
        if reclaims and (
            reaches_further(view, other, found.victims, leaving)
            or more_strangers(view, other, found.victims, lacking(view, pod, node))
        ):
            # What a quota is guaranteed counts for more than a budget, and so does who borrows what lacks.
            continue
        if not over_budget(view, other):
            names = sorted(key(victim) for victim in other)
            yield Fault("evict-budget", f"{found} over a budget, where {names} would have done")
            return


def _within_max(view: View, found: Preemption, pod: Raw, leaving: set[str]) -> Iterator[Fault]:
    """A pod of a quota that is not above its max goes, although pods of quotas above theirs would do."""
    if namespace(pod) not in view.quotas or not view.within_min(pod):
        return
    first = view.above_max(cost(pod))
    others = sorted(key(victim) for victim in found.victims if namespace(victim) not in first)
    if not first or not others or any(group_key(victim) for victim in found.victims):
        return
    some = next(ways(view, pod, leaving, among=first), None)
    if some is not None:
        names = sorted(key(victim) for victim in some)
        yield Fault("evict-within-max", f"{found}; instead of {others} {names} would do, above max")


def candidates(view: View, pod: Raw, leaving: Collection[str]) -> list[Raw]:
    """Pods that could lawfully go for this one; members of groups are left out."""
    ns = namespace(pod)
    there = [other for other in view.holders if key(other) not in leaving and not group_key(other)]
    there = [other for other in there if view.evictable(other)]
    if ns not in view.quotas:
        lower = [other for other in there if priority(other) < priority(pod)]
        return [other for other in lower if namespace(other) not in view.quotas and not going(other)]
    if view.within_min(pod):
        others = [other for other in there if namespace(other) in view.quotas and namespace(other) != ns]
        return [other for other in others if view.over(namespace(other), leaving) & _used(other)]
    lower = [other for other in there if namespace(other) == ns and priority(other) < priority(pod)]
    return [other for other in lower if may_go(view, pod, other) and not going(other)]


def ways(
    view: View, pod: Raw, leaving: set[str], node: str = "", among: Collection[str] | None = None
) -> Iterator[tuple[Raw, ...]]:
    """Small lawful sets of victims that let the pod in; on one node, or `among` namespaces, where named."""
    may_go = candidates(view, pod, leaving)
    if among is not None:
        may_go = [other for other in may_go if namespace(other) in among]
    if node:
        may_go = [other for other in may_go if node_of(other) == node]
    if not may_go or len(may_go) > MAX_CANDIDATES:
        return
    reclaims = namespace(pod) in view.quotas and view.within_min(pod)
    for size in range(1, min(MAX_VICTIMS, len(may_go)) + 1):
        for some in itertools.combinations(may_go, size):
            if reclaims and any(not_reclaimable(view, namespace(pod), some)):
                continue
            place = place_for(view, pod, {key(victim) for victim in some} | leaving)
            if place and (not node or place == node or not why_not_there(view, pod, some, leaving, node)):
                yield some


def why_not_there(view: View, pod: Raw, some: Sequence[Raw], leaving: set[str], node: str) -> str:
    """What keeps the pod off a node when some pods are gone."""
    return why_not(view.without({key(victim) for victim in some} | leaving), pod, node)
