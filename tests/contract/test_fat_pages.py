"""Lists whose pages are larger than a reader takes: everything is read, in bounded pieces."""

from __future__ import annotations

import pytest

from scheduler_core.kube import client as client_module
from scheduler_core.kube import paging
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AnswerTooLarge
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.use import parse_pod_use
from tests.support.faults.server import FaultServer
from webhook.reservations.ledger_api import LedgerClient

NAMES = [f"fat-{number}" for number in range(6)]


MOST = 100_000


@pytest.fixture
def fat(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    """Six pods of which two are more than a page may have."""
    for module in (client_module, paging):
        monkeypatch.setattr(module, "MOST_PAGE_BYTES", MOST)
    for name in NAMES:
        server.put("pods", "a", name, spec={"containers": [{"name": "x" * 60_000}]})
    return server


def limits(server: FaultServer) -> list[str | None]:
    return [request.query.get("limit") for request in server.requests if request.verb == "list"]


@pytest.mark.usefixtures("fat")
def test_a_page_that_is_too_large_is_not_read(client: Client) -> None:
    for limit in (0, 500):
        with pytest.raises(AnswerTooLarge, match=f"more than {MOST} bytes"):
            client.get_page(PODS, "a", limit=limit)


def test_a_list_in_pages(fat: FaultServer, client: Client) -> None:
    assert len(list(client.list_raw(PODS, "a"))) == len(NAMES)
    assert limits(fat) == ["500", "125", "31", "7", "1", "1", "1", "1", "1", "1"]


def test_a_reflector(fat: FaultServer, client: Client) -> None:
    told: list[Event] = []
    reflector = Reflector(client, PODS, parse_pod_use, told.append)
    reflector.start()
    assert reflector.synced.wait(30)
    reflector.stop()
    reflector.join(10)
    assert sorted(event.key for event in told if event.key) == [f"a/{name}" for name in NAMES]
    assert reflector.lists == 1


def test_a_review_lists_in_pages(fat: FaultServer, client: Client) -> None:
    version, pods = LedgerClient(client).pods("a")
    assert sorted(pod.name for pod in pods) == NAMES
    assert version
    assert limits(fat)[:2] == [None, "500"]
