"""The pager of lists, as client-go's `ListPager`: pages of bounded size, because objects may be large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec

from scheduler_core.kube.errors import AnswerTooLarge
from scheduler_core.model.kinds import Resource

# Limits of a page: objects and bytes. A page of usual pods has about 3 MB. The largest object has about
# 10 MB: servers store at most 1.5 MB of an object, and write a character in at most six bytes.
PAGE_SIZE: Final = 500
MOST_PAGE_BYTES: Final = 16 << 20
# The limit shrinks by this factor after a page that was too large, and grows again after a page that has less
# than this part of MOST_PAGE_BYTES.
_SHRINK: Final = 4
_SMALL_PART: Final = 4


class ListMeta(msgspec.Struct):
    """`metadata` of a list: its resourceVersion and the token of the next page."""

    resourceVersion: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """One page of a list with raw items. The items have no `kind` and `apiVersion`."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class PageClient(Protocol):
    """The part of `kube.client.Client` that the pager needs."""

    def get_page(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        continue_token: str = "",
        retry_budget: float | None = None,
    ) -> Page:
        """One page of a list. Raises ApiError; AnswerTooLarge for a page of too many bytes."""
        ...


def list_pages(
    client: PageClient,
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    limit: int = PAGE_SIZE,
    retry_budget: float | None = None,
) -> Iterator[Page]:
    """Every page of a list; see `pages`. Raises ApiError; Gone where the list expired between two pages."""

    def get(size: int, token: str) -> Page:
        return client.get_page(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=size,
            continue_token=token,
            retry_budget=retry_budget,
        )

    return pages(get, limit)


def pages(get: Callable[[int, str], Page], limit: int = PAGE_SIZE) -> Iterator[Page]:
    """Every page of a list, all at one resourceVersion, with at most `limit` objects each (0: one page).

    `get(limit, token)` returns a page. Where it raises AnswerTooLarge, the page is requested again with a
    smaller limit. Raises what `get` raises otherwise, and AnswerTooLarge for a single object.
    """
    size, token = limit, ""
    while True:
        try:
            page = get(size, token)
        except AnswerTooLarge:
            if size == 1:
                raise
            size = max(1, size // _SHRINK) if size else PAGE_SIZE
            continue
        yield page
        token = page.metadata.continue_
        if not token:
            return
        if _bytes(page) * _SMALL_PART < MOST_PAGE_BYTES:
            size = min(2 * size, limit or PAGE_SIZE)


def _bytes(page: Page) -> int:
    return sum(len(memoryview(item)) for item in page.items or ())
