"""How much ElasticQuota waiting groups hold (docs/gangs.md#quota-that-is-held), read from the raw objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tests.support.worlds.checks import Fault
from tests.support.worlds.endings import going
from tests.support.worlds.reading import (
    HeldQuota,
    Raw,
    Sums,
    View,
    add,
    cost,
    finished,
    namespace,
    needed,
    node_of,
    place_of_group,
)

HOLD: Final = "muster.dev/hold-quota"
# The dialects whose groups tell in a condition what they hold.
TELLING: Final = ("native", "incubator")


def holds_of(view: View, groups: Collection[str]) -> list[HeldQuota]:
    """What these groups (keys) hold now, in the order in which they go before others."""
    found = [
        HeldQuota(group, namespace(view.groups[group].obj), place_of_group(view, group), amounts)
        for group in groups
        if group in view.groups and (amounts := _amounts(view, group))
    ]
    return sorted(found, key=lambda hold: hold.place)


def _amounts(view: View, group: str) -> Sums:
    """What a group needs and does not use yet; nothing once it started, or if its quota can never give it."""
    ns = namespace(view.groups[group].obj)
    live = [pod for pod in view.members(group) if not finished(pod) and (node_of(pod) or not going(pod))]
    if ns not in view.quotas or not needed(view, group) or all(node_of(pod) for pod in live):
        return {}
    need = _smallest(live, view.groups[group].minimum)
    for limits in (view.high[ns], view.sum_of_min()):
        if any(need.get(name, 0) > limit for name, limit in limits.items()):
            return {}
    for pod in live:
        if node_of(pod):
            add(need, cost(pod), -1)
    return {name: value for name, value in need.items() if value > 0}


def _smallest(pods: list[Raw], count: int) -> Sums:
    """The smallest sums of so many pods, where missing ones are like the smallest."""
    asked = [cost(pod) for pod in pods]
    found: Sums = {}
    for name in {name for sums in asked for name in sums}:
        values = sorted(sums.get(name, 0) for sums in asked)
        values += values[:1] * (count - len(values))
        found[name] = sum(sorted(values)[:count])
    return found


def held_faults(view: View, until: Mapping[str, float], now: float) -> Iterator[Fault]:
    """At rest no hold is beyond its time, or that of a group that is gone or asks for none."""
    for group, end in until.items():
        found = view.groups.get(group)
        asked = ((found.obj["metadata"].get("annotations") or {}).get(HOLD)) if found else None
        if asked is None:
            yield Fault("hold-unasked", f"{group} holds quota and does not ask for it")
        elif end <= now:
            yield Fault("hold-endless", f"{group} holds quota until {end}, and it is {now}")
        elif found is not None and not needed(view, group):
            yield Fault("hold-started", f"{group} holds quota, and has started")


def restart_faults(
    view: View, live: Mapping[str, float], fresh: Mapping[str, float], rests: Collection[str]
) -> Iterator[Fault]:
    """A fresh scheduler knows the holds, and until when, from the conditions of the groups that have one.

    `live` and `fresh` are the ends of holds by group; `rests` are namespaces that rest in the live one.
    """
    real = {hold.group for hold in view.holds}
    for group, until in live.items():
        if group in real and group.rpartition(" ")[2] in TELLING and abs(fresh.get(group, 0.0) - until) > 1.0:
            text = f"{group} holds quota until {until}, a fresh scheduler says {fresh.get(group)}"
            yield Fault("restart-hold", text)
    for group in fresh.keys() - live.keys():
        if group.partition("/")[0] not in rests and group.rpartition(" ")[2] in TELLING:
            yield Fault("restart-holds", f"a fresh scheduler holds quota for {group}")
