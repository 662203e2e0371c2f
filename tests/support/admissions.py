"""Enters pods and groups one after the other if nothing is short for them; ledgers with given charges.

The decision of the webhook itself is in `webhook.reservations.reservation_decisions`.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_core.model.names import CPU
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, Charge, Hold, ReservationLedger
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.quota.reservations.usage import NamespaceUsage, Shortage


def admit(book: NamespaceUsage, asked: Charge | Hold, quotas: Iterable[ResourceQuota]) -> list[Shortage]:
    """Enter a pod or a hold if nothing is short for it. Returns what is short."""
    short = book.shortages(asked, quotas)
    if not short:
        book.enter(asked)
    return short


def charges(*made: tuple[str, int], namespace: str = "a") -> ReservationLedger:
    """A ledger of an ElasticQuota with charges for pods, each a uid and CPUs."""
    found = tuple(Charge(uid, uid, "", {CPU: 1000 * cpu, "pods": 1}) for uid, cpu in made)
    return ReservationLedger(namespace, charges=found, name=ELASTIC_NAME)
