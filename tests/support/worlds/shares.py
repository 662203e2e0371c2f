"""What victims cost others: disruption budgets, and what quotas are guaranteed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.support.oracles import cluster as oracle_cluster
from tests.support.worlds.filters import ready_members
from tests.support.worlds.reading import Raw, Sums, View, add, amounts, cost, labels, namespace, needed


def over_budget(view: View, victims: Sequence[Raw]) -> int:
    """How many evictions exceed a budget."""
    left = {id(budget): int(budget["status"].get("disruptionsAllowed", 0)) for budget in view.budgets}
    hurt = 0
    for victim in victims:
        hit = [b for b in view.budgets if namespace(b) == namespace(victim) and _selects(b, victim)]
        for budget in hit:
            left[id(budget)] -= 1
        hurt += any(left[id(budget)] < 0 for budget in hit)
    return hurt


def _selects(budget: Raw, pod: Raw) -> bool:
    own = labels(pod)
    return bool(own) and oracle_cluster.matches(oracle_cluster.expressions(budget["spec"]["selector"]), own)


def reaches_further(view: View, some: Sequence[Raw], others: Sequence[Raw], leaving: set[str]) -> bool:
    """Whether pods may take more than others do of what quotas are guaranteed."""
    reach = _beyond_loans(view, others, leaving)
    add(reach, _beyond_loans(view, some, leaving), -1)
    return takes_more(some, others) or any(value < 0 for value in reach.values())


def _beyond_loans(view: View, victims: Sequence[Raw], leaving: set[str]) -> Sums:
    """What victims hold beyond all that their quotas borrow, by "NAMESPACE RESOURCE"."""
    found: Sums = {}
    for ns in {namespace(victim) for victim in victims} & set(view.quotas):
        taken: Sums = {}
        for victim in victims:
            if namespace(victim) == ns:
                add(taken, cost(victim))
        used, low = view.without(leaving).used(ns), view.low[ns]
        for name in view.relevant(ns) & set(taken):
            loan = max(used.get(name, 0) - low.get(name, 0), 0)
            found[f"{ns} {name}"] = max(taken[name] - loan, 0)
    return found


def more_strangers(view: View, some: Sequence[Raw], others: Sequence[Raw], lacks: set[str]) -> bool:
    """Whether of some pods more than of others are of quotas that borrow nothing of what is lacking."""
    return _strangers(view, some, lacks) > _strangers(view, others, lacks)


def _strangers(view: View, victims: Sequence[Raw], lacks: set[str]) -> int:
    leaving = view.leaving()
    return sum(not lacks & view.over(namespace(victim), leaving) for victim in victims)


def lacking(view: View, pod: Raw, node: str) -> set[str]:
    """What the node or the sum of min has too little of for the pod once those are gone who leave.

    All that the pod asks for if both have enough.
    """
    stay, asked = view.stay(), {name: value for name, value in cost(pod).items() if value}
    taken: Sums = {}
    for other in stay.on(node):
        add(taken, cost(other))
    has, room = amounts(view.nodes[node]["status"]["allocatable"]), view.sum_of_min()
    used = stay.used_by_all(guaranteed=True)
    add(used, view.others_nominated(pod, within=True))
    found = {name for name, value in asked.items() if taken.get(name, 0) + value > has.get(name, 0)}
    short = {name for name, value in asked.items() if used.get(name, 0) + value > room.get(name, math.inf)}
    return found | short or set(asked)


def takes_more(some: Sequence[Raw], others: Sequence[Raw]) -> bool:
    """Whether pods hold more of any resource than others do."""
    left: Sums = {}
    for victim in others:
        add(left, cost(victim))
    for victim in some:
        add(left, cost(victim), -1)
    return any(value < 0 for value in left.values())


def borrows_guaranteed(view: View, group: str, victims: Sequence[Raw], leaving: set[str]) -> bool:
    """Whether a group that starts would be over its min, and others get less than they are guaranteed.

    Of the members those count that ask for least: which ones start is not known.
    """
    members, need = ready_members(view, group), needed(view, group)
    ns = namespace(members[0])
    gone = {f"{namespace(victim)}/{victim['metadata']['name']}" for victim in victims}
    used, low = view.without(gone | leaving).used(ns), view.low[ns]
    asked = [cost(member) for member in members]
    names = {name for sums in asked for name, value in sums.items() if value} & view.relevant(ns)
    least = {name: sum(sorted(sums.get(name, 0) for sums in asked)[:need]) for name in names}
    if all(used.get(name, 0) + value <= low.get(name, 0) for name, value in least.items() if value):
        return False
    beyond = _beyond_loans(view, [victim for victim in victims if namespace(victim) != ns], leaving)
    return any(value > 0 and least.get(name.split()[1]) for name, value in beyond.items())
