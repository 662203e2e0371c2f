"""At rest nobody who is within its min waits for room that is kept for somebody who is not."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator

from tests.support.worlds.checks import Fault
from tests.support.worlds.filters import gang_fits, place_for, ready_members
from tests.support.worlds.reading import (
    Raw,
    Sums,
    View,
    add,
    cost,
    group_key,
    key,
    namespace,
    needed,
    nominated,
    priority,
)
from tests.support.worlds.rest import alone, held, tried


def guarantee_faults(view: View) -> Iterator[Fault]:
    """Pods alone, and gangs as a whole, that would fit without what is kept for those beyond their min."""
    if not any(nominated(pod) for pod in view.waiting):
        return
    for pod in tried(view):
        if alone(view, pod) and view.within_min(pod):
            place = place_for(_without_borrowers(view, [pod]), pod)
            if place and not _sum_refuses(view, [pod]):
                yield Fault("min-beside-kept", f"{key(pod)} is within min, waits, and would fit {place}")
    for group, found in view.groups.items():
        need = 0 if found.where or held(view, group) else needed(view, group)
        members = ready_members(view, group) if need else []
        if not members or len(members) < need or not within_min(view, members):
            continue
        fits = gang_fits(_without_borrowers(view, members), members, need)
        if fits and not _sum_refuses(view, members[:need]):
            yield Fault("min-beside-kept", f"{group} is within min, waits, and {need} of its pods would fit")


def _sum_refuses(view: View, claimants: list[Raw]) -> bool:
    """Whether the sum over all quotas has no room beside those who are within min in something asked for.

    On nodes a right is that of a whole pod; in the sum a quota keeps what it is guaranteed of one resource,
    though it borrows another.
    """
    names = {name for pod in claimants for name, asked in cost(pod).items() if asked} & set(view.sum_of_min())
    seen = _without_borrowers(view, claimants, names)
    for pod in claimants:
        if seen.refused(pod):
            return True
        seen = seen.placed(pod, "")
    return False


def within_min(view: View, pods: Iterable[Raw], among: Collection[str] | None = None) -> bool:
    """Whether all of these waiting pods of one namespace stay within min together, `among` some resources."""
    charge: Sums = {}
    waiting = list(pods)
    for pod in waiting:
        add(charge, cost(pod))
    ns = namespace(waiting[0])
    if ns not in view.quotas:
        return False
    used, low, names = view.stay().used(ns), view.low[ns], view.relevant(ns)
    names = names if among is None else names & set(among)
    others = view.without({key(pod) for pod in waiting[1:]}).own_nominated(waiting[0])
    return all(
        used.get(name, 0) + others.get(name, 0) + asked <= low.get(name, 0)
        for name, asked in charge.items()
        if asked and name in names
    )


def _without_borrowers(view: View, claimants: list[Raw], names: Collection[str] = ()) -> View:
    """The cluster if nothing were kept for pods, or gangs, of other namespaces that are beyond their min.

    With `names` only where they are so in every one of these resources. Those under no quota stay where they
    are more important than a claimant.
    """
    ns, least = namespace(claimants[0]), min(map(priority, claimants))
    units: dict[str, list[Raw]] = {}
    for pod in view.waiting:
        group = group_key(pod)
        whole = group in view.groups and needed(view, group) > 0
        if nominated(pod) and namespace(pod) != ns:
            units.setdefault(group if whole else key(pod), []).append(pod)
    beyond = {
        key(pod)
        for pods in units.values()
        if not any(within_min(view, pods, among) for among in ([{name} for name in names] or [None]))
        and (namespace(pods[0]) in view.quotas or max(map(priority, pods)) <= least)
        for pod in pods
    }
    other = copy.copy(view)
    other.pods = [_not_nominated(pod) if key(pod) in beyond else pod for pod in view.pods]
    other.split()
    return other


def _not_nominated(pod: Raw) -> Raw:
    status = {name: value for name, value in pod["status"].items() if name != "nominatedNodeName"}
    return {**pod, "status": status}
