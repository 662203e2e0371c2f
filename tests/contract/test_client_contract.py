"""The client against a scripted server: lost answers, stale connections, waits, credentials."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from scheduler_core.kube.auth.credentials import Impersonating, StaticCredentials, TokenFile
from scheduler_core.kube.auth.users import Impersonation
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from scheduler_core.model.kinds import NODES, PODS
from scheduler_core.model.writes import Bind
from tests.support.faults.client import client_for, pod
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault


def test_a_bind_is_carried_out_with_the_uid_in_its_metadata(server: FaultServer, client: Client) -> None:
    uid = pod(server)
    client.write(Bind("a", "p", uid, "node-1"))
    assert server.objects["pods", "a", "p"]["spec"]["nodeName"] == "node-1"
    request = server.requests[-1]
    assert request.path == "/api/v1/namespaces/a/pods/p/binding"
    assert request.body["metadata"] == {"name": "p", "namespace": "a", "uid": uid}
    assert request.headers["User-Agent"] == "muster/test"


def test_a_bind_of_a_bound_or_replaced_pod_is_a_conflict(server: FaultServer, client: Client) -> None:
    uid = pod(server)
    with pytest.raises(Conflict):
        client.write(Bind("a", "p", "another", "node-1"))
    client.write(Bind("a", "p", uid, "node-1"))
    with pytest.raises(Conflict, match="already assigned"):
        client.write(Bind("a", "p", uid, "node-2"))


def test_a_bind_whose_answer_was_lost_is_not_sent_twice_and_says_that_it_may_have_happened(
    server: FaultServer, client: Client
) -> None:
    uid = pod(server)
    client.get(PODS, "a", "p")
    server.fail(Fault("POST", lose=True))
    with pytest.raises(Unreachable) as caught:
        client.write(Bind("a", "p", uid, "node-1"))
    assert caught.value.sent
    assert caught.value.maybe_accepted
    assert server.count("POST") == 1
    assert client.get_json(PODS, "a", "p")["spec"]["nodeName"] == "node-1"


def test_a_bind_to_a_server_that_is_down_has_not_happened(server: FaultServer, client: Client) -> None:
    server.kill()
    with pytest.raises(Unreachable) as caught:
        client.write(Bind("a", "p", "u", "node-1"))
    assert not caught.value.maybe_accepted
    assert caught.value.refused
    path = "/api/v1/namespaces/a/pods/p/binding?fieldManager=muster"
    assert str(caught.value) == f"POST {path}: Unreachable: {server.url}: connection refused"


def test_a_server_that_does_not_answer_in_time_may_have_accepted(server: FaultServer, client: Client) -> None:
    server.fail(Fault("POST", silent=True))
    with pytest.raises(Unreachable, match="no answer in time") as caught:
        client.write(Bind("a", "p", "u", "node-1"))
    assert caught.value.maybe_accepted


@pytest.mark.parametrize(
    ("status", "maybe"), [(409, False), (422, False), (429, False), (500, True), (503, False), (504, True)]
)
def test_an_error_says_whether_the_write_may_have_happened(
    server: FaultServer, client: Client, status: int, maybe: bool
) -> None:
    server.fail(Fault("POST", status=status))
    with pytest.raises(ApiError) as caught:
        client.write(Bind("a", "p", "u", "node-1"))
    assert caught.value.status == status
    assert caught.value.maybe_accepted is maybe


def test_connections_are_reused_and_replaced_when_the_server_closed_them(
    server: FaultServer, client: Client
) -> None:
    uid = pod(server)
    for _ in range(3):
        client.get(PODS, "a", "p")
        server.break_streams()
    client.write(Bind("a", "p", uid, "node-1"))
    assert server.count("GET") + server.count("POST") == 4


def test_a_read_is_repeated_once_when_its_connection_breaks(server: FaultServer, client: Client) -> None:
    pod(server)
    client.get(PODS, "a", "p")
    server.fail(Fault("GET", lose=True))
    assert json.loads(client.get(PODS, "a", "p"))["metadata"]["name"] == "p"
    server.fail(Fault("GET", times=2, lose=True))
    with pytest.raises(Unreachable):
        client.get(PODS, "a", "p")


def test_retry_after_is_waited_for_within_the_budget(
    server: FaultServer, client: Client, slept: list[float]
) -> None:
    pod(server)
    server.fail(Fault("GET", status=429, retry_after=3), Fault("GET", status=503, retry_after=4))
    client.get(PODS, "a", "p")
    assert slept == [3.0, 4.0]


def test_a_wait_beyond_the_budget_is_the_callers(
    server: FaultServer, client: Client, slept: list[float]
) -> None:
    server.fail(Fault("GET", times=9, status=429, reason="TooManyRequests", retry_after=6))
    with pytest.raises(TooManyRequests) as caught:
        client.get(PODS, "a", "p")
    assert caught.value.retry_after == 6.0
    assert slept == [6.0]


def test_an_answer_that_is_no_status_is_quoted(server: FaultServer, client: Client) -> None:
    with pytest.raises(NotFound, match="could not find"):
        client.call("GET", "/nothing/here")
    server.fail(Fault("GET", status=500))
    with pytest.raises(ServerError, match="GET /api/v1/nodes/n: 500 Scripted: scripted fault"):
        client.get(NODES, "", "n")


def test_a_list_is_streamed_in_pages(server: FaultServer, client: Client) -> None:
    for number in range(1203):
        server.put("pods", "a", f"p{number}")
    assert sum(1 for _ in client.list_raw(PODS)) == 1203
    assert server.count("list") == 3


def test_a_token_file_is_read_again_after_401(server: FaultServer, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old\n")
    pod(server)
    client = client_for(server, TokenFile(path))
    client.get(PODS, "a", "p")
    path.write_text("new\n")
    server.fail(Fault("GET", status=401, reason="Unauthorized"))
    client.get(PODS, "a", "p")
    client.session.close()
    sent = [request.headers["Authorization"] for request in server.requests]
    assert sent == ["Bearer old", "Bearer old", "Bearer new"]


def test_401_with_nothing_to_renew_is_unauthorized(server: FaultServer) -> None:
    client = client_for(server, StaticCredentials(token="t"))
    server.fail(Fault("GET", times=2, status=401, reason="Unauthorized"))
    with pytest.raises(Unauthorized):
        client.get(PODS, "a", "p")
    client.session.close()
    assert server.count("GET") == 1


class Renewable(StaticCredentials):
    """Credentials that always claim to be fresh after a refresh."""

    def refresh(self) -> bool:
        return True


def test_a_watch_refused_with_401_is_tried_once_more_with_new_credentials(server: FaultServer) -> None:
    client = client_for(server, Renewable(token="t"))
    server.fail(Fault("watch", times=3, status=401, reason="Unauthorized"))
    with pytest.raises(Unauthorized):
        client.watch(PODS, resource_version="1")
    assert server.count("watch") == 2
    client.session.close()


def test_impersonation_travels_in_headers(server: FaultServer) -> None:
    pod(server)
    acting = Impersonation("jane", groups=("g",))
    client = client_for(server, Impersonating(StaticCredentials(username="u", password="p"), acting))
    client.get(PODS, "a", "p")
    client.session.close()
    headers = server.requests[-1].headers
    assert (headers["Impersonate-User"], headers["Impersonate-Group"]) == ("jane", "g")
    assert headers["Authorization"] == "Basic dTpw"


def test_many_threads_share_a_client(server: FaultServer, client: Client) -> None:
    uids = {f"p{number}": pod(server, f"p{number}") for number in range(40)}
    wrong: list[Exception] = []

    def bind(names: list[str]) -> None:
        for name in names:
            try:
                client.write(Bind("a", name, uids[name], "n"))
            except ApiError as error:
                wrong.append(error)

    names = list(uids)
    threads = [threading.Thread(target=bind, args=(names[part::8],)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert wrong == []
    assert all(obj["spec"]["nodeName"] == "n" for obj in server.objects.values())
