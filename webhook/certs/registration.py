"""Registers the webhook configurations, and removes them.

`scheduler_core.model.admission_webhooks` says what is in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.model.admission_webhooks import (
    CONFIGURATIONS,
    NAME,
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from scheduler_core.model.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from scheduler_core.model.names import EXEMPT_NAMESPACES
from scheduler_core.model.writes import Create, Delete, Replace

_ATTEMPTS: Final = 5


def register(
    client: Client,
    endpoint: WebhookEndpoint,
    exempt: Iterable[str] = EXEMPT_NAMESPACES,
) -> None:
    """Create or update both configurations. Raises ApiError.

    Additions by others are kept: labels, annotations, other webhooks, and fields that Muster does not set.
    """
    names = list(exempt)
    _apply(client, VALIDATING_WEBHOOKS, validating_configuration(endpoint, names))
    _apply(client, MUTATING_WEBHOOKS, mutating_configuration(endpoint, names))


def unregister(client: Client) -> None:
    """Delete both configurations, if they exist. Raises ApiError."""
    for resource in CONFIGURATIONS:
        try:
            client.delete(Delete(resource, "", NAME))
        except NotFound:
            continue


def merged(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The stored configuration with the webhooks of Muster as wanted, and everything else unchanged."""
    ours = {entry["name"]: entry for entry in wanted["webhooks"]}
    kept = [
        {**entry, **ours.pop(entry["name"])} if entry.get("name") in ours else entry
        for entry in current.get("webhooks") or ()
    ]
    return {**current, "webhooks": [*kept, *ours.values()]}


def _apply(client: Client, resource: Resource, wanted: dict[str, Any]) -> None:
    """Create, or replace on the version that was read; retries on conflict."""
    for attempt in range(_ATTEMPTS):
        try:
            current = client.get_json(resource, "", NAME)
        except NotFound:
            current = None
        try:
            if current is None:
                client.create(Create(resource, "", wanted))
            elif merged(current, wanted) != current:
                client.replace(Replace(resource, "", NAME, merged(current, wanted)))
            return
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
