"""What must be true of a fair move, read from the raw objects (docs/fair-sharing.md#fair-moves)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from scheduler_core.model.names import WEIGHT_ANNOTATION
from tests.support.worlds.filters import ready_members
from tests.support.worlds.reading import Raw, Sums, View, add, cost, group_key, namespace, needed


def unfair(view: View, pod: Raw, victims: Sequence[Raw], together: Sequence[Raw] = ()) -> Iterator[str]:
    """Why victims are no fair set for a pod, or for its whole group, of which some start `together`."""
    ns, leaving = namespace(pod), view.leaving()
    stay = view.without(leaving)
    asked, own = _asked(view, pod, together), view.own_nominated(pod)
    add(own, view.covered_behind(pod))
    total = stay.used_by_all(guaranteed=False)
    add(total, own)
    add(total, view.others_nominated(pod, within=False))
    room = view.sum_of_min()
    short = {
        name
        for name, value in asked.items()
        if value and name in room and total.get(name, 0) + value > room[name]
    }
    if not short:
        yield "no resource is short"
    used = stay.used(ns)
    add(used, own)
    add(used, asked)
    borrows = _borrowed(view, ns, used)
    weight = weight_of(view.quotas[ns])
    if not weight:
        yield f"the weight of {ns} is 0"
        return
    for other in {namespace(victim) for victim in victims}:
        if other == ns or other not in view.quotas:
            yield f"{other} is no other quota"
            continue
        before = stay.used(other, reached=True)
        after = dict(before)
        for victim in victims:
            if namespace(victim) == other:
                add(after, cost(victim), -1)
        for name, low in view.low[other].items():
            if before.get(name, 0) >= low > after.get(name, 0):
                yield f"{other} falls below its min of {name}"
        loses = {name for name in short if after.get(name, 0) < before.get(name, 0)}
        if not loses & set(_borrowed(view, other, before)):
            yield f"{other} borrows nothing of {sorted(short)} that it loses"
        theirs = weight_of(view.quotas[other])
        keeps = _borrowed(view, other, after)
        for name in short if theirs else ():
            if Fraction(borrows.get(name, 0)) / weight > Fraction(keeps.get(name, 0)) / theirs:
                yield f"{ns} borrows more {name} than {other} does after it"
        if theirs and _largest(view, borrows, weight) > _largest(view, keeps, theirs):
            yield f"the share of {ns} is larger than that of {other} after it"


def weight_of(quota: Raw) -> Fraction:
    return Fraction((quota["metadata"].get("annotations") or {}).get(WEIGHT_ANNOTATION, "1"))


def _asked(view: View, pod: Raw, together: Sequence[Raw]) -> Sums:
    """What the pod asks for; of a group that needs several members, what those that start ask for.

    Where it is not known who starts, the least that members ask for.
    """
    group = group_key(pod)
    need = needed(view, group) if group in view.groups else 0
    if need <= 1:
        return cost(pod)
    starting = together if len(together) == need else ready_members(view, group)
    members = [cost(member) for member in starting]
    names = {name for sums in members for name in sums}
    return {name: sum(sorted(sums.get(name, 0) for sums in members)[:need]) for name in names}


def _borrowed(view: View, ns: str, used: Sums) -> Sums:
    room, low = view.sum_of_min(), view.low[ns]
    over = {name: used.get(name, 0) - low.get(name, 0) for name in room}
    return {name: value for name, value in over.items() if value > 0}


def _largest(view: View, borrowed: Sums, weight: Fraction) -> Fraction:
    room = view.sum_of_min()
    shares = (Fraction(value, room[name]) / weight for name, value in borrowed.items() if room[name])
    return max(shares, default=Fraction(0))
