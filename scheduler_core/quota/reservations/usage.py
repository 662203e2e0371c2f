"""Computes the use and the reservations of a namespace, and admits pods and groups under its ResourceQuotas.

A PodGroup reserves quota, its pods use the reserved part, and all other pods see what is left
(docs/reservations.md). Three things count, each pod once by its uid: pods that exist, charges (pods that were
admitted and may not be visible yet), and what groups hold beyond their pods:

    held(group) = max(0, total - spent - usage of its live pods and charges)

So what a member gives up is held again at once, for the pod that replaces it, and the sum of used and held
never grows by itself. The use of members that succeeded is `spent` once the ledger has noted it
(`reconcile`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList, maximum
from scheduler_core.quota.ledger import shift

_COUNTS_SOME = "NotBestEffort"


class Shortage(msgspec.Struct, frozen=True):
    """A ResourceQuota without enough left; maps its own keys to amounts, only for what is short."""

    quota: str
    requested: dict[str, int]
    used: dict[str, int]
    reserved: dict[str, int]
    limited: dict[str, int]

    def __str__(self) -> str:
        words = ("requested", "used", "reserved", "limited")
        text = ", ".join(f"{word}: {amounts_text(getattr(self, word))}" for word in words)
        return f"exceeded quota: {self.quota}, {text}"


def amounts_text(amounts: ResourceList) -> str:
    """`cpu=4,memory=1Gi`, as native quota messages print amounts."""
    return ",".join(f"{name}={format_resource(name, amounts[name])}" for name in sorted(amounts))


def counts_groups(quota: ResourceQuota) -> bool:
    """Whether members of any group count in this quota, so that a reservation can be made in it.

    Quotas with scopes count pods by what their specs say, which a PodGroup does not; the exception is
    NotBestEffort, as pods of a group that reserves cpu or memory are not best effort.
    """
    return all(scope.name == _COUNTS_SOME for scope in quota.scopes)


class _Counted(NamedTuple):
    """A pod or charge that counts."""

    group: str
    usage: ResourceList
    best_effort: bool


class NamespaceUsage:
    """The use of one namespace at one moment; pods and groups are judged and added one after the other.

    `used` are live pods and charges, `used_not_best_effort` the part of pods that ask for cpu or
    memory, `held` what all groups hold beyond their pods.
    """

    def __init__(self, ledger: ReservationLedger, pods: Mapping[str, PodUse]) -> None:
        self.used: dict[str, int] = {}
        self.used_not_best_effort: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self._totals: dict[str, dict[str, int]] = {}
        self._drawn: dict[str, dict[str, int]] = {}
        self._counted: dict[str, _Counted] = {}
        self.holds = {hold.uid: hold for hold in ledger.holds}
        self.charges = {charge.uid: charge for charge in ledger.charges}
        for pod in pods.values():
            if not pod.finished:
                self._count(pod.uid, pod.group, pod.usage, pod.best_effort)
        for charge in ledger.charges:
            pod_ = pods.get(charge.uid)
            if pod_ is None or not pod_.finished:
                self._count(charge.uid, charge.group, charge.usage, charge.best_effort)
        for hold in ledger.holds:
            if not hold.ended:
                shift(self._totals.setdefault(hold.group, {}), hold.total)
                shift(self._drawn.setdefault(hold.group, {}), hold.spent)
        for group in self._totals:
            shift(self.held, self.remaining(group))

    def drawn(self, group: str) -> dict[str, int]:
        """The part of a group's reservation that live, admitted and succeeded members use."""
        drawn = self._drawn.get(group, {})
        return {name: drawn.get(name, 0) for name in self._totals.get(group, {})}

    def remaining(self, group: str) -> dict[str, int]:
        """The amounts that a group holds beyond its pods; empty without a reservation."""
        drawn = self._drawn.get(group, {})
        return {name: max(0, v - drawn.get(name, 0)) for name, v in self._totals.get(group, {}).items()}

    def shortages(self, asked: Charge | Hold, quotas: Iterable[ResourceQuota]) -> list[Shortage]:
        """The resources that a pod or a group lacks, empty if there is room; the use is unchanged.

        A pod asks for what it takes beyond its group's hold, a group for what it holds beyond the pods that
        it has already. Asked again about the same uid, a pod costs what is more than before, a group nothing.
        """
        if isinstance(asked, Hold):
            more = {} if asked.uid in self.holds else self._more(asked)
            return self._exceeded(more, quotas)
        own = self.remaining(asked.group)
        growth = self._growth(asked)
        beyond = {
            name: value - own.get(name, 0) for name, value in growth.items() if value > own.get(name, 0)
        }
        return self._exceeded(beyond, quotas, asked.best_effort)

    def enter(self, asked: Charge | Hold) -> None:
        """Add a pod or a group, whether or not there is room."""
        if isinstance(asked, Hold):
            if asked.uid not in self.holds:
                more = self._more(asked)
                shift(self._totals.setdefault(asked.group, {}), asked.total)
                shift(self.held, more)
                self.holds[asked.uid] = asked
        elif asked.uid not in self._counted or any(value > 0 for value in self._growth(asked).values()):
            shift(self.held, self.remaining(asked.group), -1)
            self._count(asked.uid, asked.group, asked.usage, asked.best_effort)
            shift(self.held, self.remaining(asked.group))
            before = self.charges.get(asked.uid)
            if before is not None:
                # A charge of an earlier request for the same pod is kept.
                asked = msgspec.structs.replace(asked, usage=maximum(before.usage, asked.usage))
            self.charges[asked.uid] = asked

    def _growth(self, charge: Charge) -> dict[str, int]:
        """The use of a pod beyond what is counted for it already."""
        known = self._counted.get(charge.uid)
        before = known.usage if known is not None else {}
        return {name: value - before.get(name, 0) for name, value in charge.usage.items()}

    def _more(self, hold: Hold) -> dict[str, int]:
        """The amounts that a hold would add to those of its group."""
        before = self.remaining(hold.group)
        totals = dict(self._totals.get(hold.group, {}))
        shift(totals, hold.total)
        drawn = self._drawn.get(hold.group, {})
        return {n: max(0, v - drawn.get(n, 0)) - before.get(n, 0) for n, v in totals.items()}

    def ledger(self, base: ReservationLedger) -> ReservationLedger:
        """The ledger as it is to be stored over `base`."""
        return msgspec.structs.replace(
            base,
            holds=tuple(self.holds.values()),
            charges=tuple(self.charges.values()),
            held={name: value for name, value in sorted(self.held.items()) if value},
        )

    def _count(self, uid: str, group: str, usage: ResourceList, best_effort: bool) -> None:
        """Count a pod once, with the larger of what is known of it already and `usage`."""
        known = self._counted.get(uid)
        if known is not None:
            # The group on the pod itself takes precedence over the group in the charge.
            group, usage = known.group, maximum(known.usage, usage)
            self._shift(known, -1)
        entry = self._counted[uid] = _Counted(group, usage, best_effort)
        self._shift(entry, +1)

    def _shift(self, entry: _Counted, sign: int) -> None:
        shift(self.used, entry.usage, sign)
        if not entry.best_effort:
            shift(self.used_not_best_effort, entry.usage, sign)
        if entry.group:
            shift(self._drawn.setdefault(entry.group, {}), entry.usage, sign)

    def _exceeded(
        self, asked: ResourceList, quotas: Iterable[ResourceQuota], best_effort: bool = False
    ) -> list[Shortage]:
        """Quotas in which `asked` does not fit."""
        found = []
        for quota in quotas:
            if not counts_groups(quota) or (quota.scoped and best_effort):
                continue
            used = self.used_not_best_effort if quota.scoped else self.used
            over = {
                name: (key, limit)
                for name, (key, limit) in quota.hard_of_requests().items()
                if asked.get(name, 0) > 0 and used.get(name, 0) + self.held.get(name, 0) + asked[name] > limit
            }
            if over:
                found.append(
                    Shortage(
                        quota.name,
                        requested={key: asked[name] for name, (key, _) in over.items()},
                        used={key: used.get(name, 0) for name, (key, _) in over.items()},
                        reserved={key: self.held.get(name, 0) for name, (key, _) in over.items()},
                        limited=dict(over.values()),
                    )
                )
        return found
