"""Lists page by page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubectl_plugin.cluster.reading import ListScope, list_or_none, list_raw
from scheduler_core.kube.errors import Forbidden, Gone, NotFound
from scheduler_core.kube.paging import ListMeta, Page
from scheduler_core.model.kinds import ELASTIC_QUOTAS, Resource


class Pages:
    """Ten objects; a token is the position to go on from, and may have expired."""

    def __init__(self, *, expires_at: int | None = None, error: Exception | None = None) -> None:
        self.asked: list[tuple[int, str]] = []
        self._expires_at = expires_at
        self._error = error

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> bytes:
        raise AssertionError("a list reads no single object")

    def get_page(
        self, resource: Resource, namespace: str = "", *, limit: int = 0, continue_token: str = "", **_: Any
    ) -> Page:
        self.asked.append((limit, continue_token))
        if self._error is not None:
            raise self._error
        start = int(continue_token or 0)
        if start and start == self._expires_at:
            raise Gone(410, "Expired", "too old")
        end = min(10, start + (limit or 10))
        items = [msgspec.Raw(str(i).encode()) for i in range(start, end)]
        return Page(ListMeta("1", str(end) if end < 10 else ""), items)


@pytest.mark.parametrize(("chunk", "calls"), [(3, 4), (10, 1), (0, 1)])
def test_every_page_is_read(chunk: int, calls: int) -> None:
    client = Pages()
    found = list_raw(client, ELASTIC_QUOTAS, ListScope(chunk=chunk))
    assert [int(bytes(item)) for item in found] == list(range(10))
    assert len(client.asked) == calls


def test_a_list_whose_token_expires_is_read_again_at_once_and_nothing_comes_twice() -> None:
    client = Pages(expires_at=6)
    assert len(list_raw(client, ELASTIC_QUOTAS, ListScope(chunk=3))) == 10
    assert client.asked[-1] == (0, "")


def test_only_a_refusal_is_none() -> None:
    refused = Pages(error=Forbidden(403, "Forbidden", "no"))
    assert list_or_none(refused, ELASTIC_QUOTAS, ListScope()) is None
    with pytest.raises(Exception, match="resource type 'elasticquotas'"):
        list_or_none(Pages(error=NotFound(404, "NotFound", "?")), ELASTIC_QUOTAS, ListScope())
