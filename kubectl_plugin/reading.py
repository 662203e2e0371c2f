"""Reads of the API server for `get`: lists page by page, with kubectl's words on failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

import msgspec

from kubectl_plugin.entry import CommandFailed
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import Forbidden, Gone, NotFound
from scheduler_core.kube.paging import Page, pages
from scheduler_core.model.kinds import Resource

T = TypeVar("T")

# The server leaves out what no quota counts: finished pods. This is cheaper than reading and skipping them.
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Reader(Protocol):
    """The part of `kube.client.Client` that reading needs."""

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> bytes: ...

    def get_page(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
        retry_budget: float | None = None,
    ) -> Page: ...


class Scope(msgspec.Struct, frozen=True):
    """Which objects: one namespace or all (empty), label and field selectors, and the page size (0: all)."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    chunk: int = 500


def list_raw(client: Reader, resource: Resource, scope: Scope) -> list[msgspec.Raw]:
    """Every object of the scope. A list that outlives its token is read again as a whole.

    Raises CommandFailed where the server does not know the kind at all.
    """
    try:
        return list(_pages(client, resource, scope, scope.chunk))
    except Gone:
        return list(_pages(client, resource, scope, 0))
    except NotFound:
        kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        raise CommandFailed(
            f"the server doesn't have a resource type {resource.plural!r}; is the CRD {kind} installed?"
        ) from None


def _pages(client: Reader, resource: Resource, scope: Scope, limit: int) -> Iterator[msgspec.Raw]:
    def ask(size: int, token: str) -> Page:
        return client.get_page(
            resource,
            scope.namespace,
            label_selector=scope.labels,
            field_selector=scope.fields,
            limit=size,
            continue_token=token,
        )

    for page in pages(ask, limit):
        yield from page.items or ()


def list_or_none(client: Reader, resource: Resource, scope: Scope) -> list[msgspec.Raw] | None:
    """The objects of the scope, or None where the user may not list them."""
    try:
        return list_raw(client, resource, scope)
    except Forbidden:
        return None


def list_if_served(client: Reader, resource: Resource, scope: Scope) -> list[msgspec.Raw] | None:
    """As `list_or_none`; there are no objects of a kind that the server does not know."""
    try:
        return list_or_none(client, resource, scope)
    except CommandFailed:
        return []


def parsed(
    items: Iterable[msgspec.Raw | bytes],
    parse: Callable[[msgspec.Raw | bytes], T],
    on_malformed: Callable[[ModelError], None],
) -> Iterator[T]:
    """The typed objects; one that cannot be read is reported and left out."""
    for raw in items:
        try:
            yield parse(raw)
        except ModelError as error:
            on_malformed(error)
