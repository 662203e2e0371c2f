"""The check of the quota, and who may be evicted for the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler_core.answers.why.numbers import (
    QuotaAnswer,
    QuotaNumbers,
    RoomNumbers,
    charge_of,
    profile_of,
    shown,
)
from scheduler_core.answers.why.rung import BLOCKED, OK, Rung
from scheduler_core.framework.preemption.covered import spared
from scheduler_core.model.names import CAPACITY_SCHEDULING, DEFAULT_PREEMPTION, PODS
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.printing.counts import names_text
from scheduler_core.quota.aggregate import guaranteed
from scheduler_core.quota.group_limits import Compared
from scheduler_core.quota.policy import borrowed, charge_within_min
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.gangs.held_quota import held_against

_QUOTA: Final = "quota"
_PREEMPTION: Final = "preemption"


def quota_rungs(
    simulation: Simulation,
    pods: Sequence[Pod],
    need: int,
    answer: QuotaAnswer,
    *,
    all_known: bool = True,
) -> list[Rung]:
    """One check per resource, or one that says why there is none."""
    namespace = pods[0].namespace
    quota = simulation.state.ledger.quota_of(namespace)
    if quota is None:
        return [Rung(_QUOTA, OK, f"namespace {namespace} has no ElasticQuota: nothing is limited")]
    if not answer.numbers:
        return [Rung(_QUOTA, OK, f"ElasticQuota {quota.key} limits nothing that is asked for")]
    each = pods[0].requests if len({tuple(sorted(pod.requests.items())) for pod in pods}) == 1 else {}
    rungs = []
    for line in answer.numbers:
        if shown(line.resource, blocked=line.refused):
            text = _quota_text(line, need, each) + _groups_text(line) + _shared_text(simulation, quota, line)
            rungs.append(Rung(_QUOTA, BLOCKED if line.refused else OK, text))
    held = held_against(simulation.state, pods[0])
    if held.amounts:
        parts = ", ".join(
            f"{name}={format_resource(name, held.amounts[name])}" for name in sorted(held.amounts)
        )
        rungs.append(Rung(_QUOTA, OK, f"{parts} are held for {held.holder}"))
    return rungs


def asks_text(resource: str, asked: int, need: int, each: dict[str, int]) -> str:
    """`2 x 8 = 16 nvidia.com/gpu`."""
    total = f"{format_resource(resource, asked)} {resource}"
    if need > 1 and each.get(resource, 0) * need == asked:
        return f"{need} x {format_resource(resource, each[resource])} = {total}"
    return total


def _quota_text(line: QuotaNumbers, need: int, each: dict[str, int]) -> str:
    def text(amount: int) -> str:
        return format_resource(line.resource, amount)

    most = "no max" if line.max is None else f"max {text(line.max)}"
    then = line.used + line.asked
    parts = [f"asks {asks_text(line.resource, line.asked, need, each)}", f"its quota uses {text(line.used)}"]
    borrows = (
        f"{text(then - max(line.min, line.used))} are borrowed" if line.above_min else "nothing is borrowed"
    )
    parts.append(f"min {text(line.min)}, {most}: {borrows}")
    if line.own is not None and line.own.beyond > 0:
        counted = line.own.before + line.asked
        parts.append(f"{text(counted)}{_beside(line.own)} exceed max {text(line.own.limit)}")
    if line.total is not None:
        left = max(line.total.limit - line.total.before, 0)
        uses = f"all quotas use {text(line.total.used)}{_beside(line.total)}"
        parts.append(f"{uses} of sum(min) {text(line.total.limit)}: {text(left)} left")
    return "; ".join(parts)


def _beside(numbers: Compared) -> str:
    """What counts beside use and request: of nominated pods, of waiting groups, and what groups keep back."""
    parts = (("nominated", numbers.nominated), ("held", numbers.held), ("kept back", numbers.kept))
    told = ", ".join(f"{format_resource(numbers.resource, value)} {word}" for word, value in parts if value)
    return f" (with {told})" if told else ""


def _groups_text(line: QuotaNumbers) -> str:
    """The groups above the quota whose max the subject exceeds, the nearest first."""
    text = ""
    for above in line.groups:
        numbers = above.numbers
        if numbers.beyond > 0:
            amounts = (numbers.used, numbers.before + numbers.asked, numbers.limit)
            uses, then, most = (format_resource(line.resource, value) for value in amounts)
            text += f"; all quotas of QuotaGroup {above.group} use {uses}: "
            text += f"{then}{_beside(numbers)} exceed its max {most}"
    return text


def _shared_text(simulation: Simulation, quota: ElasticQuota, line: QuotaNumbers) -> str:
    """Who made a resource one that limits all, where the own quota guarantees something, but none of it."""
    if not line.above_sum or line.min or not guaranteed(quota):
        return ""
    name = line.resource
    namers = sorted(other.namespace for other in simulation.state.ledger.quotas() if other.min.get(name))
    return (
        f"; {name} limits all because of the min of {names_text(namers)}: give {quota.key} a min of {name}, "
        "or set aggregate: GuaranteedResources"
    )


def preemption_rung(
    simulation: Simulation, pods: Sequence[Pod], need: int, room: RoomNumbers | None, evicted: Sequence[str]
) -> Rung:
    """Who is evicted for the work, or why nobody is."""
    if evicted:
        return Rung(_PREEMPTION, OK, f"evicts {names_text(evicted)}")
    return Rung(_PREEMPTION, BLOCKED, f"nobody is evicted: {_why_nobody(simulation, pods, need, room)}")


def _why_nobody(simulation: Simulation, pods: Sequence[Pod], need: int, room: RoomNumbers | None) -> str:
    profile = profile_of(simulation, pods)
    if profile is None or not profile.enabled & {CAPACITY_SCHEDULING, DEFAULT_PREEMPTION}:
        return "the profile has no plugin that preempts"
    if any(pod.preemption_policy == NEVER for pod in pods):
        return "preemptionPolicy is Never"
    ledger, namespace = simulation.state.ledger, pods[0].namespace
    quota = ledger.quota_of(namespace)
    fits = _emptied(need, room)
    if quota is None or CAPACITY_SCHEDULING not in profile.enabled:
        return fits or "no pod of lower priority would make room"
    charge = charge_of(pods, need)
    if not charge_within_min(ledger, quota, charge):
        why = _beyond_min(simulation, pods, charge)
        if stay := _covered_by_min(simulation, pods, charge):
            return f"{why}, and the min covers pods of lower priority, but not this work: {stay} stay"
        return f"{why}, and pods of lower priority under its own quota do not make room"
    borrowers = [other for other in ledger.quotas() if other is not quota and borrowed(ledger, other)]
    if not borrowers:
        return f"no other quota borrows; {fits}" if fits else "no other quota borrows"
    lent = "; ".join(f"{other.key} borrows {_amounts(borrowed(ledger, other))}" for other in borrowers[:5])
    return f"{lent}; {fits}" if fits else lent


def _covered_by_min(simulation: Simulation, pods: Sequence[Pod], charge: dict[str, int]) -> str:
    """The less important pods of the own quota that the work must spare, as the min does not cover it."""
    state, lowest = simulation.state, min(pods, key=lambda pod: pod.priority)
    quota, table = state.ledger.quota_of(lowest.namespace), state.table
    if quota is None:
        return ""
    stay = spared(state, quota, lowest.priority, charge, {})
    stay &= table.priority[: table.size] < lowest.priority
    return names_text(sorted(pod.key for pod in table.of(np.flatnonzero(stay))))


def _emptied(need: int, room: RoomNumbers | None) -> str:
    """Whether there would be room without the pods that may be evicted."""
    if room is None:
        return ""
    if room.now >= need:
        return "the nodes have room, so that no eviction helps"
    return f"without all pods that may be evicted, {min(room.emptied, need)} of {need} would fit"


def _beyond_min(simulation: Simulation, pods: Sequence[Pod], charge: dict[str, int]) -> str:
    """The first resource in which the work exceeds the min of its quota."""
    ledger, namespace = simulation.state.ledger, pods[0].namespace
    quota = ledger.quota_of(namespace)
    used = ledger.used(namespace)
    names = [*sorted(name for name in charge if name != PODS), PODS]
    for name in names:
        low = quota.min.get(name, 0) if quota is not None else 0
        then = used.get(name, 0) + charge.get(name, 0)
        if charge.get(name, 0) > 0 and then > low:
            return f"{name} of {format_resource(name, then)} exceeds min {format_resource(name, low)}"
    return "it exceeds the min of its quota"


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{name}={format_resource(name, value)}" for name, value in amounts.items())
