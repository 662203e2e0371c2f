"""Changes of loans for `kubectl elasticquota lending --watch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.pods import pod_reader
from kubectl_plugin.cluster.reading import UNFINISHED, ListScope
from kubectl_plugin.cluster.reflectors import FeedEvent, Reflectors
from kubectl_plugin.inspection.loans import LoanRow, balances, loan_rows
from scheduler_core.kube.client import Client
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota


class WatchedLoans:
    """A view that events update, and the loans that were printed last."""

    def __init__(self, namespace: str = "") -> None:
        self._view = ClusterView()
        self._namespace = namespace
        self._printed: dict[tuple[str, str, str], LoanRow] = {}

    def apply(self, batch: Sequence[FeedEvent]) -> list[LoanRow]:
        """Apply events. Returns the loans that changed since they were printed; ended ones have amount 0."""
        for change in batch:
            self._apply(change)
        found = balances(self._view.ledger, self._namespace)
        now = {row.place: row for lending in found for row in loan_rows(lending, None)}
        before, self._printed = self._printed, now
        ended = [
            msgspec.structs.replace(row, amount=0, reclaimable=0)
            for place, row in before.items()
            if place not in now
        ]
        return [*ended, *(row for place, row in now.items() if before.get(place) != row)]

    def _apply(self, change: FeedEvent) -> None:
        match change.event.obj:
            case ElasticQuota() as quota:
                self._view.put_quota(quota)
            case Pod() as pod:
                self._view.put_pod(pod)
            case None if change.event.type == "DELETED" and change.event.resource == PODS:
                self._view.remove_pod(*change.key)
            case None if change.event.type == "DELETED":
                self._view.remove_quota(*change.key)


def changed_loans(client: Client, namespace: str, note: Callable[[str], None]) -> Iterator[list[LoanRow]]:
    """The loans of a namespace (all if empty) in batches, without end: first all, then those that change.

    Loans cross namespaces: the quotas and pods of all namespaces are watched. Raises the ApiError tree.
    """
    watched = WatchedLoans(namespace)
    reflectors = Reflectors(client, note)
    for resource in (ELASTIC_QUOTAS, PODS):
        # A reflector would ask again without end where the user may not list.
        client.get_page(resource, "", limit=1)
    reflectors.start("quotas", ELASTIC_QUOTAS, parse_elastic_quota, ListScope())
    reflectors.start("pods", PODS, pod_reader(client), ListScope(fields=UNFINISHED))
    try:
        for batch in reflectors.batches():
            yield watched.apply(batch)
    finally:
        reflectors.stop()
