"""Pages of lists: fewer objects in one where they are large."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.errors import AnswerTooLarge
from scheduler_core.kube.paging import MOST_PAGE_BYTES, PAGE_SIZE, ListMeta, Page, pages

MIB = 1 << 20


class Server:
    """Objects of so many bytes each; what is larger together than a page may be is not given."""

    def __init__(self, sizes: list[int]) -> None:
        self.items = [msgspec.Raw(b"x" * size) for size in sizes]
        self.asked: list[int] = []

    def page(self, limit: int, token: str) -> Page:
        self.asked.append(limit)
        start = int(token or 0)
        end = min(len(self.items), start + (limit or len(self.items)))
        found = self.items[start:end]
        if sum(len(memoryview(item)) for item in found) > MOST_PAGE_BYTES and limit != 1:
            raise AnswerTooLarge(MOST_PAGE_BYTES)
        return Page(ListMeta("7", str(end) if end < len(self.items) else ""), found)


def read(server: Server, limit: int = PAGE_SIZE) -> list[msgspec.Raw]:
    return [item for page in pages(server.page, limit) for item in page.items or ()]


def test_usual_objects_come_in_full_pages() -> None:
    server = Server([6_000] * 1_200)
    assert read(server) == server.items
    assert server.asked == [500, 500, 500]


def test_all_at_once_is_one_request_where_that_is_small() -> None:
    server = Server([6_000] * 1_200)
    assert read(server, 0) == server.items
    assert server.asked == [0]


def test_fat_objects_come_in_small_pages_and_those_behind_them_in_full_ones_again() -> None:
    server = Server([7 * MIB] * 10 + [6_000] * 3_000)
    assert read(server) == server.items
    assert server.asked[:5] == [500, 125, 31, 7, 1]
    assert server.asked[-1] == PAGE_SIZE
    assert len(server.asked) < 40


def test_all_at_once_that_is_too_large_goes_on_in_usual_pages() -> None:
    server = Server([MIB] * 20 + [6_000] * 1_600)
    assert read(server, 0) == server.items
    assert server.asked[0] == 0
    assert 0 not in server.asked[1:]
    assert max(server.asked) == PAGE_SIZE
    assert len(server.asked) < 40


def test_one_object_larger_than_a_page_is_read_by_itself() -> None:
    server = Server([5, MOST_PAGE_BYTES + 1, 5])
    assert read(server, 0) == server.items


def test_a_server_that_answers_no_page_size_is_not_asked_again() -> None:
    def ask(limit: int, token: str) -> Page:
        raise AnswerTooLarge(1)

    with pytest.raises(AnswerTooLarge, match="more than 1 bytes"):
        list(pages(ask))


@given(st.lists(st.sampled_from([1, MIB, 7 * MIB, 17 * MIB]), max_size=30), st.sampled_from([0, 1, 3, 500]))
def test_every_object_comes_once_and_in_order(sizes: list[int], limit: int) -> None:
    server = Server([1] * len(sizes))
    server.items = [_SHARED[size] for size in sizes]
    assert read(server, limit) == server.items
    assert len(server.asked) <= 6 + 3 * len(sizes)


_SHARED = {size: msgspec.Raw(b"x" * size) for size in (1, MIB, 7 * MIB, 17 * MIB)}
