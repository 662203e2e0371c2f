"""The cache of the objects that admission reads, kept up to date by watches.

Watched are ElasticQuotas, QuotaGroups, QuotaFlavors, ResourceQuotas, Namespaces, PodGroups, ledgers
(`reservations.ledger_cache`) and Nodes, of which only the sum of allocatable of schedulable nodes and the
keys of labels are kept. Reflector threads write, request threads read, under one lock.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.kube.watch.reading import is_older
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.groups.pod_group import parse_pod_group
from scheduler_core.model.kinds import (
    ELASTIC_QUOTAS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    QUOTA_FLAVORS,
    QUOTA_GROUPS,
    RESERVATION_LEDGERS,
    RESOURCE_QUOTAS,
    Resource,
)
from scheduler_core.model.namespace import Namespace, parse_namespace
from scheduler_core.model.node import Node, parse_node
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor, parse_quota_flavor
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, parse_reservation_ledger
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.model.resources import ResourceList, maximum
from scheduler_core.quota.flavor_validation import by_name
from scheduler_core.quota.ledger import QuotaLedger
from webhook.policy.elastic_quotas import QuotaView, SumMode
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.quota_standing import QuotaStanding, standing
from webhook.view.pending import AdmittedQuotas

WATCHED: Final[tuple[tuple[Resource, Callable[[Any], Any]], ...]] = (
    (QUOTA_FLAVORS, parse_quota_flavor),
    (QUOTA_GROUPS, parse_quota_group),
    (ELASTIC_QUOTAS, parse_elastic_quota),
    (RESOURCE_QUOTAS, parse_resource_quota),
    (NODES, parse_node),
    (NAMESPACES, parse_namespace),
    (POD_GROUPS, parse_pod_group),
    (RESERVATION_LEDGERS, parse_reservation_ledger),
)


@dataclass(frozen=True)
class FreshList:
    """Quotas as just listed; they replace what the watch has up to `version`.

    `quotas` are the ElasticQuotas of `scope` (a namespace, or empty for all); `native` the ResourceQuotas of
    the namespace in question, `groups` all QuotaGroups, `flavors` all QuotaFlavors, None if not
    listed. `began` is when they were requested, by the clock of the cache; infinite if it is not known.
    """

    scope: str
    version: str
    quotas: tuple[ElasticQuota, ...]
    native_version: str = ""
    native: tuple[ResourceQuota, ...] | None = None
    began: float = inf
    groups: tuple[QuotaGroup, ...] | None = None
    flavors: tuple[QuotaFlavor, ...] | None = None


class StoredQuotas(NamedTuple):
    """All stored ElasticQuotas, and what bounds them."""

    quotas: tuple[ElasticQuota, ...]
    natives: tuple[ResourceQuota, ...]
    total_min: ResourceList
    allocatable: ResourceList
    groups: Mapping[str, QuotaGroup]
    flavors: Mapping[str, QuotaFlavor]


class Cache:
    """The objects that admission decides on.

    A decision about a quota holds `lock` from `view` to `admitted`, so that of two concurrent requests one
    sees the other.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.lock = threading.RLock()
        self.reservations = LedgerCache(monotonic)
        self.charges = LedgerCache(monotonic, ELASTIC_NAME)
        self._monotonic = monotonic
        self._waiting = {resource.plural for resource, _ in WATCHED}
        self._ledger = QuotaLedger()
        self._native: dict[str, dict[str, ResourceQuota]] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._flavors: dict[str, QuotaFlavor] = {}
        self._nodes: dict[str, ResourceList] = {}
        self._allocatable: dict[str, int] = {}
        self._node_labels: dict[str, tuple[str, ...]] = {}
        self._quotas_underway: AdmittedQuotas[ElasticQuota] = AdmittedQuotas()
        self._native_underway: AdmittedQuotas[ResourceQuota] = AdmittedQuotas()
        self._numbers = itertools.count(1)
        # Whether a namespace has a stored ElasticQuota; called if one was admitted and is not visible yet.
        self.is_stored: Callable[[str], bool] = lambda namespace: True

    # Written by the reflectors

    def sink(self, event: Event) -> None:
        """Take one change of a watched resource; called on the reflectors' threads."""
        with self.lock:
            if event.type == "SYNCED":
                self._waiting.discard(event.resource.plural)
            elif event.resource == ELASTIC_QUOTAS:
                self._put_quota(event)
            elif event.resource == QUOTA_FLAVORS:
                if event.obj is None:
                    self._flavors.pop(event.key, None)
                else:
                    self._flavors[event.key] = event.obj
            elif event.resource == QUOTA_GROUPS:
                if event.obj is None:
                    self._ledger.remove_group(event.key)
                else:
                    self._ledger.put_group(event.obj)
            elif event.resource == RESOURCE_QUOTAS:
                self._put_native(event)
            elif event.resource == NODES:
                self._put_node(event.key, event.obj)
            elif event.resource == NAMESPACES:
                if event.obj is None:
                    self._namespaces.pop(event.key, None)
                else:
                    self._namespaces[event.key] = event.obj
            else:
                self.reservations.sink(event)
                if event.resource == RESERVATION_LEDGERS:
                    self.charges.sink(event)

    def _put_quota(self, event: Event) -> None:
        namespace, _, name = event.key.partition("/")
        if event.obj is None:
            self._ledger.remove_quota(namespace, name)
            self._quotas_underway.gone(namespace, name)
        else:
            self._ledger.put_quota(event.obj)
            self._quotas_underway.seen(namespace, name, event.obj.resource_version)

    def _put_native(self, event: Event) -> None:
        namespace, _, name = event.key.partition("/")
        known = self._native.setdefault(namespace, {})
        if event.obj is None:
            known.pop(name, None)
            self._native_underway.gone(namespace, name)
        else:
            known[name] = event.obj
            self._native_underway.seen(namespace, name, event.obj.resource_version)

    def _put_node(self, name: str, node: Node | None) -> None:
        self._node_labels.pop(name, None)
        if node is not None:
            self._node_labels[name] = tuple(map(sys.intern, node.labels))
        old = self._nodes.pop(name, {})
        new = node.allocatable if node is not None and not node.unschedulable else {}
        if new:
            self._nodes[name] = new
        for resource in {*old, *new}:
            total = self._allocatable.get(resource, 0) - old.get(resource, 0) + new.get(resource, 0)
            self._allocatable[resource] = total

    # Read by requests

    def now(self) -> float:
        """The time by the clock of the cache, in seconds."""
        return self._monotonic()

    @property
    def unsynced(self) -> list[str]:
        """The resources of which no complete list has been seen yet; empty when ready."""
        with self.lock:
            return sorted(self._waiting)

    @property
    def node_labels(self) -> frozenset[str]:
        """The keys of the labels that nodes have."""
        with self.lock:
            return frozenset().union(*self._node_labels.values())

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, or None where it is not known (yet)."""
        return self._namespaces.get(name)

    def has_quota(self, namespace: str) -> bool:
        """Whether the namespace has an ElasticQuota, including one that the watch has not shown yet."""
        with self.lock:
            if self._ledger.quota_of(namespace) is not None:
                return True
            now = self._monotonic()
            underway = [*self._quotas_underway.quotas(now), *self._quotas_underway.stored(now)]
        # An admitted quota may never be stored; then the namespace is not managed.
        return any(quota.namespace == namespace for quota in underway) and self.is_stored(namespace)

    def quota_of(self, namespace: str) -> ElasticQuota | None:
        """The ElasticQuota in effect in the namespace, or None."""
        with self.lock:
            return self._ledger.quota_of(namespace)

    @property
    def total_min(self) -> ResourceList:
        """The sum of the min of all quotas in effect."""
        with self.lock:
            return dict(self._ledger.total_min)

    def standing(self, namespace: str, listed: Iterable[ElasticQuota] = ()) -> QuotaStanding | None:
        """The quota in effect in the namespace beside all others; None without one.

        `listed` quotas of the namespace, if there are any, replace the cached ones. Others count as they are
        stored: what a review says of a quota may never be stored, and must not judge pods of others.
        """
        with self.lock:
            ledger = self._with_stored(self._ledger)
            underway = self._quotas_underway.quotas(self._monotonic())
            quotas = [*_others(ledger, (one for one in underway if one.namespace == namespace), "")]
            groups = self._groups(None)
        own = min(listed, key=lambda quota: quota.age_order, default=None)
        if own is not None:
            quotas = [own, *(quota for quota in quotas if quota.namespace != namespace)]
        return standing(namespace, quotas, groups)

    def natives(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """The ResourceQuotas of the namespace."""
        with self.lock:
            return tuple(self._native.get(namespace, {}).values())

    def view(
        self, namespace: str, sum_of_min: SumMode, fresh: FreshList | None = None, before: float = inf
    ) -> QuotaView:
        """All objects on which the decision about a quota of the namespace depends.

        Hold `lock` from here to `admitted`. Provisional quotas with a number less than `before` are included.
        """
        with self.lock:
            ledger = self._with_stored(self._ledger if fresh is None else self._refreshed(fresh))
            known = self._namespaces.get(namespace)
            native = tuple(self._native_of(namespace, fresh, before))
            underway = self._quotas_underway.quotas(self._monotonic(), before)
            return QuotaView(
                siblings=(*_stored(ledger, namespace), *(q for q in underway if q.namespace == namespace)),
                others=tuple(_others(ledger, underway, namespace)),
                native=native,
                allocatable=dict(self._allocatable),
                groups=self._groups(fresh),
                flavors=self._flavors_by_name(fresh),
                terminating=known is not None and known.terminating,
                sum_of_min=sum_of_min,
            )

    def stored(self) -> StoredQuotas:
        """All quotas and their bounds, as the watches have them."""
        with self.lock:
            binding = list(self._ledger.quotas())
            quotas = tuple(one for quota in binding for one in _stored(self._ledger, quota.namespace))
            natives = tuple(native for known in self._native.values() for native in known.values())
            return StoredQuotas(
                quotas,
                natives,
                dict(self._ledger.total_min),
                dict(self._allocatable),
                self._groups(None),
                dict(self._flavors),
            )

    def admitted(self, quota: ElasticQuota | ResourceQuota, base: str) -> int:
        """Add a quota that was just allowed as provisional, until the watch shows it. Not for dry runs.

        Returns its number.
        """
        with self.lock:
            number = next(self._numbers)
            if isinstance(quota, ElasticQuota):
                self._quotas_underway.add(quota, base, self._monotonic(), number)
            else:
                self._native_underway.add(quota, base, self._monotonic(), number)
            return number

    def mark(self) -> int:
        """A number greater than those of all provisional quotas."""
        return next(self._numbers)

    def withdraw(self, number: int) -> None:
        """Remove a provisional quota, which was not allowed after all."""
        with self.lock:
            for pending in (self._quotas_underway, self._native_underway):
                pending.withdraw(number)

    def renew(self, number: int) -> None:
        """Restart the time of a provisional quota, which is allowed only now."""
        with self.lock:
            for pending in (self._quotas_underway, self._native_underway):
                pending.renew(number, self._monotonic())

    def is_open(self, number: int) -> bool:
        """Whether a provisional quota with a smaller number may still be stored."""
        with self.lock:
            now = self._monotonic()
            return self._quotas_underway.open(number, now) or self._native_underway.open(number, now)

    def _refreshed(self, fresh: FreshList) -> QuotaLedger:
        """The quotas as listed, with those that the watch has in a later version or outside the scope."""
        ledger = QuotaLedger()
        self._quotas_underway.listed(fresh.quotas)
        for quota in fresh.quotas:
            ledger.put_quota(quota)
        for binding in self._ledger.quotas():
            for quota in (binding, *self._ledger.shadowed(binding.namespace)):
                in_scope = fresh.scope in ("", quota.namespace)
                if not in_scope or is_older(fresh.version, quota.resource_version):
                    ledger.put_quota(quota)
        if not fresh.scope:
            self._quotas_underway.drop(fresh.quotas, fresh.version, self._time_of(fresh))
        return ledger

    def _groups(self, fresh: FreshList | None) -> Mapping[str, QuotaGroup]:
        """The QuotaGroups by name, as listed if they were."""
        if fresh is not None and fresh.groups is not None:
            return {group.name: group for group in fresh.groups}
        return dict(self._ledger.tree.groups)

    def _flavors_by_name(self, fresh: FreshList | None) -> Mapping[str, QuotaFlavor]:
        """The QuotaFlavors by name, as listed if they were."""
        listed = fresh.flavors if fresh is not None else None
        return dict(self._flavors) if listed is None else by_name(listed)

    def _time_of(self, fresh: FreshList) -> float:
        """Up to when what was stored is in the list for certain."""
        return min(fresh.began, self.now())

    def _with_stored(self, ledger: QuotaLedger) -> QuotaLedger:
        """The ledger with the quotas that another list has shown in a later version."""
        later = [
            quota
            for quota in self._quotas_underway.stored(self._monotonic())
            if _is_news(quota, _stored(ledger, quota.namespace))
        ]
        if not later:
            return ledger
        found = QuotaLedger()
        for binding in ledger.quotas():
            for quota in _stored(ledger, binding.namespace):
                found.put_quota(quota)
        for quota in later:
            found.put_quota(quota)
        return found

    def _native_of(self, namespace: str, fresh: FreshList | None, before: float) -> Iterator[ResourceQuota]:
        watched = self._native.get(namespace, {})
        found = dict(watched)
        if fresh is not None and fresh.native is not None:
            self._native_underway.listed(fresh.native)
            later = (q for q in watched.values() if is_older(fresh.native_version, q.resource_version))
            found = {quota.name: quota for quota in (*fresh.native, *later)}
            began = self._time_of(fresh)
            self._native_underway.drop(fresh.native, fresh.native_version, began, namespace)
        for quota in self._native_underway.stored(self._monotonic()):
            if quota.namespace == namespace and _is_news(quota, found.values()):
                found[quota.name] = quota
        yield from found.values()
        underway = self._native_underway.quotas(self._monotonic(), before)
        yield from (quota for quota in underway if quota.namespace == namespace)


def _is_news(quota: ElasticQuota | ResourceQuota, known: Iterable[ElasticQuota | ResourceQuota]) -> bool:
    """Whether a quota is known in no version as late as this one."""
    return all(
        other.name != quota.name or is_older(other.resource_version, quota.resource_version)
        for other in known
    )


def _stored(ledger: QuotaLedger, namespace: str) -> tuple[ElasticQuota, ...]:
    binding = ledger.quota_of(namespace)
    return () if binding is None else (binding, *ledger.shadowed(namespace))


def _others(ledger: QuotaLedger, underway: Iterable[ElasticQuota], namespace: str) -> Iterator[ElasticQuota]:
    """One quota for each other namespace: the one in effect, with the larger min of a provisional change."""
    found = {quota.namespace: quota for quota in ledger.quotas()}
    for quota in underway:
        known = found.get(quota.namespace)
        if known is not None:
            quota = msgspec.structs.replace(quota, min=maximum(known.min, quota.min))
        found[quota.namespace] = quota
    return (quota for name, quota in found.items() if name != namespace)
