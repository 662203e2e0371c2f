"""Lists in pages of bounded size: objects are as large as their authors like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from scheduler_core.kube.errors import AnswerTooLarge

# Objects in a page, and its bytes. A page of usual pods has some 3 MB, the largest object some 10 MB: servers
# store 1.5 MB of one, and write a character in six bytes at most.
PAGE_SIZE: Final = 500
MOST_PAGE_BYTES: Final = 16 << 20
# Next time fewer objects by this factor; more again where a page has less than such a part of what it may.
_SHRINK: Final = 4
_ROOM: Final = 4


class ListMeta(msgspec.Struct):
    """metadata of a list: its version, and the token of the next page."""

    resourceVersion: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """One page of a list; the items are left raw. Items carry no kind and apiVersion of their own."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


def pages(ask: Callable[[int, str], Page], limit: int = PAGE_SIZE) -> Iterator[Page]:
    """Every page of a list, all of one resourceVersion, of at most `limit` objects (0: all at once).

    `ask(limit, token)` gives a page, or raises AnswerTooLarge: then it is asked for fewer objects. Raises
    what `ask` raises besides; AnswerTooLarge for a single object.
    """
    size, token = limit, ""
    while True:
        try:
            page = ask(size, token)
        except AnswerTooLarge:
            if size == 1:
                raise
            size = max(1, size // _SHRINK) if size else PAGE_SIZE
            continue
        yield page
        token = page.metadata.continue_
        if not token:
            return
        if _bytes(page) * _ROOM < MOST_PAGE_BYTES:
            size = min(2 * size, limit or PAGE_SIZE)


def _bytes(page: Page) -> int:
    return sum(len(memoryview(item)) for item in page.items or ())
