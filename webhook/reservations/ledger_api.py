"""Reads and writes ledgers, and lists what they must agree with, at the API server."""

from __future__ import annotations

from functools import partial
from typing import Protocol

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.model.groups.pod_group import PodGroup, parse_pod_group
from scheduler_core.model.kinds import POD_GROUPS, PODS, RESERVATION_LEDGERS, RESOURCE_QUOTAS
from scheduler_core.model.meta import identity_of
from scheduler_core.model.pods.requests import CurrentRule, ResizeRule
from scheduler_core.model.pods.use import PodUse, parse_pod_use
from scheduler_core.model.quotas.reservation_ledger import (
    NAME,
    ReservationLedger,
    ledger_body,
    parse_reservation_ledger,
)
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.model.writes import Create, Replace
from webhook.view.listing import listed


class LedgerApi(Protocol):
    """Access to ledgers and to the objects of their namespaces. Every method raises ApiError."""

    def ledger(self, namespace: str) -> ReservationLedger:
        """The stored ledger; one without resourceVersion if there is none, an empty one if it is invalid."""

    def put(self, ledger: ReservationLedger) -> ReservationLedger:
        """Create the ledger, or replace the version that it is based on. Raises Conflict."""

    def pods(self, namespace: str) -> tuple[str, list[PodUse]]:
        """The list's resourceVersion, and the pods."""

    def groups(self, namespace: str) -> list[PodGroup]:
        """The PodGroups."""

    def quotas(self, namespace: str) -> list[ResourceQuota]:
        """The ResourceQuotas."""


class LedgerClient:
    """LedgerApi on a client whose time limit is well below the webhooks' `timeoutSeconds`.

    `name` says which ledger of a namespace it reads and writes, `rule` what resized pods count for.
    """

    def __init__(self, client: Client, name: str = NAME, rule: CurrentRule = ResizeRule.newest) -> None:
        self._client = client
        self._name = name
        self._rule = rule

    def ledger(self, namespace: str) -> ReservationLedger:
        try:
            raw = self._client.get(RESERVATION_LEDGERS, namespace, self._name)
        except NotFound:
            return ReservationLedger(namespace, name=self._name)
        return _read(raw, namespace, self._name)

    def put(self, ledger: ReservationLedger) -> ReservationLedger:
        body = ledger_body(ledger)
        if ledger.resource_version:
            raw = self._client.replace(Replace(RESERVATION_LEDGERS, ledger.namespace, self._name, body))
        else:
            raw = self._client.create(Create(RESERVATION_LEDGERS, ledger.namespace, body))
        return msgspec.structs.replace(ledger, resource_version=identity_of(raw).resource_version)

    def pods(self, namespace: str) -> tuple[str, list[PodUse]]:
        return listed(self._client, PODS, namespace, partial(parse_pod_use, rule=self._rule()))

    def groups(self, namespace: str) -> list[PodGroup]:
        try:
            return listed(self._client, POD_GROUPS, namespace, parse_pod_group)[1]
        except NotFound:
            return []

    def quotas(self, namespace: str) -> list[ResourceQuota]:
        return listed(self._client, RESOURCE_QUOTAS, namespace, parse_resource_quota)[1]


def _read(raw: bytes, namespace: str, name: str) -> ReservationLedger:
    """Parse a ledger; an invalid one counts as empty, and is replaced."""
    try:
        return parse_reservation_ledger(raw)
    except ModelError:
        return ReservationLedger(namespace, identity_of(raw).resource_version, name=name)
