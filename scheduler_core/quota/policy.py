"""The admission rules of capacity scheduling: whether a pod fits under its quota, and whether it borrows.

The rules are in docs/quota.md#admission and docs/quota.md#preemption.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, Literal

import msgspec

from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.aggregate import (
    counts_guarantees,
    reclaims_guaranteed,
    stays_below_min,
    sum_limits,
)
from scheduler_core.quota.aggregate import guaranteed as guaranteed_by
from scheduler_core.quota.group_limits import (
    Checked,
    Compared,
    KeptBack,
    Reading,
    Rule,
    RuleLine,
    group_refusal,
    kept_back,
)
from scheduler_core.quota.ledger import QuotaLedger, charged, less, plus

# The use that each rule limits, its limit, and what helps where that does not say it.
_WORDING: Final[dict[Rule, tuple[str, str, str]]] = {
    "max": ("used", "max", ""),
    "group max": ("used by all quotas of QuotaGroup", "its max", ""),
    "sum(min)": (
        "used by all quotas",
        "sum(min)",
        ", the sum of min of all quotas; raise a min, or wait until pods end",
    ),
}

_NOTHING: Final[ResourceList] = {}
_NO_QUOTAS: Final[Mapping[str, ResourceList]] = {}


class Refusal(msgspec.Struct, frozen=True):
    """The reason why a quota refuses a pod: the numbers of the first resource that exceeds its limit.

    `used` counts running pods, `nominated` pods that have preempted others and wait for their node, `held`
    what the quota holds for waiting groups; `holder` names the first of these and the end of its hold.
    `group` is the QuotaGroup whose max refuses, or the first one that keeps back a part of its min (`kept`).
    `until_later`: quotas admit the pod beside what runs, and nominated pods that wait need that afterwards.
    """

    quota: str
    rule: Rule
    resource: str
    used: int
    nominated: int
    asked: int
    limit: int
    held: int = 0
    holder: str = ""
    group: str = ""
    kept: int = 0
    until_later: bool = False

    def __str__(self) -> str:
        def text(value: int) -> str:
            return format_resource(self.resource, value)

        nominated = f" + nominated {text(self.nominated)}" if self.nominated else ""
        held = f" + held {text(self.held)}" if self.held else ""
        kept = f" + kept back {text(self.kept)} by QuotaGroup {self.group}" if self.kept else ""
        reason = f"held for {self.holder}: " if self.holder else ""
        scope, limit, helps = _WORDING[self.rule]
        if self.rule == "group max":
            scope += f" {self.group}"
        return (
            f"{reason}ElasticQuota {self.quota}: {scope} {self.resource}={text(self.used)}{nominated}{held}"
            f"{kept} + requested {text(self.asked)} exceeds {limit}={text(self.limit)}{helps}"
        )


def admit(
    ledger: QuotaLedger,
    namespace: str,
    requests: ResourceList,
    *,
    nominated: ResourceList = _NOTHING,
    nominated_total: ResourceList = _NOTHING,
    nominated_by: Mapping[str, ResourceList] = _NO_QUOTAS,
    after_leaving: bool = False,
    beyond_max: bool = False,
    held: ResourceList = _NOTHING,
    holder: str = "",
) -> Refusal | None:
    """None if the pod may be scheduled under its quota, else the first refusal in resource order.

    Rule max: `used + nominated + request <= max` of the pod's own quota. Rule sum(min):
    `used of all quotas + nominated_total + request <= sum of min`, where no other quota counts with more than
    its max, and for a pod within its min not with pods above their min that have no node either
    (`QuotaLedger.in_use`). Only strictly greater is refused, and only requested resources are compared. A
    resource absent from max is unlimited, one that no quota names in min is outside the second rule;
    `sum_limits` says which others are. A namespace without a quota is always admitted.
    With `after_leaving`, pods on their way out do not count. With `beyond_max`, the rule max is not checked.
    `held` is what the quota holds for waiting groups that go before the pod. It counts as use of the quota,
    in the second rule only if the min of the quota has no room for both; other quotas never see it.
    Groups above the quota limit it by their max, and other groups keep back what they do not lend
    (`quota.group_limits`); `nominated_by` is what nominated pods of other quotas will use, by namespace.
    """
    return admit_charge(
        ledger,
        namespace,
        charged(requests),
        nominated=nominated,
        nominated_total=nominated_total,
        nominated_by=nominated_by,
        after_leaving=after_leaving,
        beyond_max=beyond_max,
        held=held,
        holder=holder,
    )


def admit_charge(
    ledger: QuotaLedger,
    namespace: str,
    demand: ResourceList,
    *,
    nominated: ResourceList = _NOTHING,
    nominated_total: ResourceList = _NOTHING,
    nominated_by: Mapping[str, ResourceList] = _NO_QUOTAS,
    after_leaving: bool = False,
    beyond_max: bool = False,
    held: ResourceList = _NOTHING,
    holder: str = "",
    told: list[RuleLine] | None = None,
) -> Refusal | None:
    """`admit` for a charge, which may be that of several pods together.

    `told` gets all that is compared, in the order of the rules, where the charge is admitted, too: whoever
    tells people about a decision has the numbers from here.
    """
    quota = ledger.quota_of(namespace)
    if quota is None:
        return None
    used: ResourceList = ledger.used(namespace)
    if after_leaving:
        used = less(used, ledger.leaving(namespace))
    fixed = any(ledger.total_fixed.values())
    guaranteed = fixed and charge_within_min(ledger, quota, demand, nominated)
    before = plus(nominated, held) if held else nominated
    guaranteeing = counts_guarantees(ledger, quota, demand, before)
    total_used = ledger.in_use(after_leaving=after_leaving, guaranteed=guaranteed, guaranteeing=guaranteeing)
    held_total = held
    if held and charge_within_min(ledger, quota, demand, before):
        held_total = _NOTHING
    sums = sum_limits(ledger, quota, demand, before)
    own = Checked(demand, nominated, held)
    first: Refusal | None = None
    refused = None if beyond_max else own.beyond(quota.max, used)
    if refused is not None:
        first = _refusal(quota, "max", refused, holder)
    if told is not None:
        told += own.lines("max", quota.max, used)
    elif first is not None:
        return first
    kept = KeptBack({})
    if ledger.tree:
        in_groups = group_refusal(ledger, quota, own, nominated_by, after_leaving=after_leaving, told=told)
        if in_groups is not None:
            group, refused = in_groups
            first = first or _refusal(quota, "group max", refused, holder, group)
            if told is None:
                return first
        reading = Reading(ledger, nominated_by, after_leaving, guaranteed, guaranteeing)
        kept = kept_back(reading, quota, demand)
    together = Checked(demand, nominated_total, held_total, kept.amounts)
    refused = together.beyond(sums, total_used)
    if told is not None:
        told += together.lines("sum(min)", sums, total_used)
    if refused is None or first is not None:
        return first
    return _refusal(quota, "sum(min)", refused, holder, kept.group)


def _refusal(quota: ElasticQuota, rule: Rule, numbers: Compared, holder: str, group: str = "") -> Refusal:
    return Refusal(
        quota.key,
        rule,
        numbers.resource,
        numbers.used,
        numbers.nominated,
        numbers.asked,
        numbers.limit,
        numbers.held,
        holder if numbers.held else "",
        group if numbers.kept or rule == "group max" else "",
        numbers.kept,
    )


def relevant(ledger: QuotaLedger, quota: ElasticQuota) -> set[str]:
    """The resources in which a quota has a min: those in the min of any quota, and those in its own max.

    A resource that is absent from min has min 0, so the use of what only others are guaranteed is borrowing.
    A resource that is in no min and not in the max of this quota is not governed by quotas.
    """
    return {*ledger.total_min, *quota.max}


def within_min(
    ledger: QuotaLedger, quota: ElasticQuota, requests: ResourceList, nominated: ResourceList = _NOTHING
) -> bool:
    """Whether a pod would stay within its quota's min: `used + nominated + request <= min`.

    Pods of the same quota that are on their way out do not count.
    """
    return charge_within_min(ledger, quota, charged(requests), nominated)


def charge_within_min(
    ledger: QuotaLedger, quota: ElasticQuota, charge: ResourceList, nominated: ResourceList = _NOTHING
) -> bool:
    """As `within_min`, for the charge of one pod or of a whole group."""
    return stays_below_min(ledger, quota, relevant(ledger, quota), charge, nominated)


def may_reclaim(
    ledger: QuotaLedger, quota: ElasticQuota, charge: ResourceList, nominated: ResourceList = _NOTHING
) -> bool:
    """Whether a charge may take pods of other quotas: of those that borrow if it is within its min, else of
    those that exceed what they are guaranteed (`reclaims_guaranteed`).
    """
    if charge_within_min(ledger, quota, charge, nominated):
        return True
    return reclaims_guaranteed(ledger, quota, charge, nominated)


def reclaimable_from(ledger: QuotaLedger, quota: ElasticQuota, *, borrows: bool) -> set[str]:
    """The resources in which use above the min of a quota makes its pods victims of a reclaim.

    All relevant ones; if the preemptor itself borrows, only what the quota guarantees. So of two quotas that
    stay within their guarantees and borrow something else, neither takes pods of the other.
    """
    names = guaranteed_by(quota) if borrows else frozenset()
    return set(names) if names else relevant(ledger, quota)


def over_min(ledger: QuotaLedger, quota: ElasticQuota, *, borrows: bool = False) -> bool:
    """Whether running pods of a quota, without those on their way out, exceed its min in any resource.

    `borrows`: as a preemptor sees it that borrows itself, see `reclaimable_from`.
    """
    used, names = lendable(ledger, quota), reclaimable_from(ledger, quota, borrows=borrows)
    return any(used.get(name, 0) > quota.min.get(name, 0) for name in names)


def lendable(ledger: QuotaLedger, quota: ElasticQuota) -> ResourceList:
    """The use of a quota by pods that have a node which is there and are not on their way out. Read only."""
    used = less(ledger.used(quota.namespace), ledger.leaving(quota.namespace))
    return less(used, ledger.fixed(quota.namespace))


def borrowed(ledger: QuotaLedger, quota: ElasticQuota, *, after_leaving: bool = False) -> dict[str, int]:
    """Use above min per resource, sorted by name. Zeros are left out. Read only.

    With `after_leaving` the pods that are on their way out no longer count.
    """
    return _above(ledger, quota, "min", after_leaving=after_leaving)


def above_max(ledger: QuotaLedger, quota: ElasticQuota, *, after_leaving: bool = False) -> dict[str, int]:
    """Use above max per resource, sorted by name: placed past the rules. Zeros are left out. Read only.

    With `after_leaving` the pods that are on their way out no longer count.
    """
    return _above(ledger, quota, "max", after_leaving=after_leaving)


def passes_max(ledger: QuotaLedger, quota: ElasticQuota, *, after_leaving: bool = False) -> bool:
    """Whether a quota, or all quotas of a group above it together, use more than their max of anything."""
    return bool(above_max(ledger, quota, after_leaving=after_leaving)) or any(
        group.above_max(name, after_leaving=after_leaving)
        for group in ledger.groups_above(quota.namespace)
        for name in group.group.max
    )


def above_max_text(ledger: QuotaLedger, quota: ElasticQuota, names: Container[str] | None = None) -> str:
    """`uses cpu=7 of max=4`: the use above max as text, of the resources in `names` (None: all); or empty."""
    used = ledger.used(quota.namespace)
    amounts = ", ".join(
        f"{name}={format_resource(name, used[name])} of max={format_resource(name, quota.max[name])}"
        for name in above_max(ledger, quota)
        if names is None or name in names
    )
    return f"uses {amounts}" if amounts else ""


def _above(
    ledger: QuotaLedger, quota: ElasticQuota, line: Literal["min", "max"], *, after_leaving: bool
) -> dict[str, int]:
    known = ledger.known(quota)
    found = known.get((line, after_leaving))
    if found is None:
        used = ledger.used(quota.namespace)
        if after_leaving:
            used = less(used, ledger.leaving(quota.namespace))
        limits = quota.min if line == "min" else quota.max
        names = relevant(ledger, quota) if line == "min" else quota.max
        over = {name: used.get(name, 0) - limits.get(name, 0) for name in sorted(names)}
        found = known[line, after_leaving] = {name: value for name, value in over.items() if value > 0}
    return found


def borrows_guaranteed(
    ledger: QuotaLedger, namespace: str, charge: ResourceList, freed: Mapping[str, ResourceList]
) -> bool:
    """Whether a group would borrow room that evictions take from the min of other quotas.

    `charge` is the use of the group, `freed` the use of its victims by namespace. A group that may reclaim
    can take more than a quota borrows, as pods cannot be divided.
    """
    quota = ledger.quota_of(namespace)
    if quota is None:
        return False
    own = freed.get(namespace, _NOTHING)
    if may_reclaim(ledger, quota, charge, {name: -value for name, value in own.items()}):
        return False
    for space, taken in freed.items():
        other = ledger.quota_of(space)
        if other is None or other is quota:
            continue
        lent, names = borrowed(ledger, other, after_leaving=True), relevant(ledger, other)
        if any(taken.get(name, 0) > lent.get(name, 0) for name in names if charge.get(name)):
            return True
    return False
