"""Enters pods and groups one after the other if nothing is short for them.

The decision of the webhook itself is in `webhook.reservations.reservation_decisions`.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_core.model.quotas.reservation_ledger import Charge, Hold
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.quota.reservations.usage import NamespaceUsage, Shortage


def admit(book: NamespaceUsage, asked: Charge | Hold, quotas: Iterable[ResourceQuota]) -> list[Shortage]:
    """Enter a pod or a hold if nothing is short for it. Returns what is short."""
    short = book.shortages(asked, quotas)
    if not short:
        book.enter(asked)
    return short
