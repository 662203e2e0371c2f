"""Lists of objects, page by page, with kubectl's messages on failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import Forbidden, Gone, NotFound
from scheduler_core.kube.paging import PageClient, list_pages
from scheduler_core.model.kinds import Resource

T = TypeVar("T")

# Field selector for unfinished pods: finished pods count in no quota.
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class ListClient(PageClient, Protocol):
    """The methods of `kube.client.Client` that lists need."""

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> bytes: ...

    def call(self, method: str, path: str) -> bytes: ...


class ListScope(msgspec.Struct, frozen=True):
    """The scope of a list: namespace (all if empty), label and field selectors, page size (0: one page)."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    chunk: int = 500


def list_raw(client: ListClient, resource: Resource, scope: ListScope) -> list[msgspec.Raw]:
    """Every object of the scope. A list whose continue token expires is read again in one page.

    Raises the ApiError tree, and CommandFailed if the server does not serve the kind.
    """
    try:
        return list(_pages(client, resource, scope, scope.chunk))
    except Gone:
        return list(_pages(client, resource, scope, 0))
    except NotFound:
        raise CommandFailed(
            f"the server doesn't have a resource type {resource.plural!r}; "
            f"is the CRD {kind_name(resource)} installed?"
        ) from None


def kind_name(resource: Resource) -> str:
    """`podgroups.scheduling.k8s.io`, as in kubectl's messages."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def kind_outside(resource: Resource, namespace: str) -> str:
    """The objects of a kind that are not known where those of one namespace are."""
    return f"{kind_name(resource)} outside the namespace {namespace}"


def _pages(client: ListClient, resource: Resource, scope: ListScope, limit: int) -> Iterator[msgspec.Raw]:
    for page in list_pages(
        client,
        resource,
        scope.namespace,
        label_selector=scope.labels,
        field_selector=scope.fields,
        limit=limit,
    ):
        yield from page.items or ()


def list_or_none(client: ListClient, resource: Resource, scope: ListScope) -> list[msgspec.Raw] | None:
    """The objects of the scope; None if the user may not list them."""
    try:
        return list_raw(client, resource, scope)
    except Forbidden:
        return None


def list_if_served(client: ListClient, resource: Resource, scope: ListScope) -> list[msgspec.Raw] | None:
    """As `list_or_none`; an empty list if the server does not serve the kind."""
    try:
        return list_or_none(client, resource, scope)
    except CommandFailed:
        return []


def is_listed(client: ListClient, resource: Resource, scope: ListScope) -> bool:
    """Whether the server serves the kind and the user may list it."""
    try:
        client.get_page(resource, scope.namespace, label_selector=scope.labels, limit=1)
    except (NotFound, Forbidden):
        return False
    return True


def parsed(
    items: Iterable[msgspec.Raw | bytes],
    parse: Callable[[msgspec.Raw | bytes], T],
    on_malformed: Callable[[ModelError], None],
) -> Iterator[T]:
    """The parsed objects. An invalid object is reported to `on_malformed` and left out."""
    for raw in items:
        try:
            yield parse(raw)
        except ModelError as error:
            on_malformed(error)
