"""What a client asks for, and how often, of a session whose answers are written down."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, Conflict, NotFound
from scheduler_core.kube.http.response_parser import ApiResponse
from scheduler_core.model.kinds import CONFIG_MAPS, PODS
from scheduler_core.model.writes import Evict


class Said:
    """A session: answers in turn, the last one for ever; notes requests."""

    def __init__(self, *answers: ApiResponse) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []
        self.most: list[int] = []
        self.served = self

    def known(self, resource: Any) -> Any:
        return resource

    def translated(self, write: Any) -> Any:
        return write

    def request(self, method: str, path: str, payload: bytes, content_type: str, most: int) -> ApiResponse:
        self.asked.append((method, path))
        self.most.append(most)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def stream(self, path: str, silence: float) -> ApiResponse:
        self.asked.append(("WATCH", path))
        return self.answers[0]


def answer(status: int, body: bytes = b"{}", wait: float | None = None) -> ApiResponse:
    return ApiResponse(status, wait, body)


def client(session: Said, **options: Any) -> tuple[Client, list[float]]:
    slept: list[float] = []
    return Client(cast(Any, session), sleep=slept.append, wall=lambda: 0.0, **options), slept


OK, SAME, OTHER = (
    answer(200),
    answer(200, b'{"metadata":{"uid":"u"}}'),
    answer(200, b'{"metadata":{"uid":"v"}}'),
)
# name, answers, seconds that a call may wait in all, what it waits, the status at the end
WAITS: list[tuple[str, list[ApiResponse], float, list[float], int]] = [
    ("at once", [OK], 10.0, [], 200),
    ("too many requests, once", [answer(429, wait=1.0), OK], 10.0, [1.0], 200),
    ("a server that starts", [answer(503, wait=2.0), OK], 10.0, [2.0], 200),
    ("the smallest of its errors", [answer(500, wait=2.0), OK], 10.0, [2.0], 200),
    ("a refusal", [answer(403, wait=2.0)], 10.0, [], 403),
    ("an error that names no time", [answer(503)], 10.0, [], 503),
    ("all of the time", [answer(429, wait=4.0), answer(429, wait=6.0), OK], 10.0, [4.0, 6.0], 200),
    ("more than the time", [answer(429, wait=4.0), answer(429, wait=6.5), OK], 10.0, [4.0], 429),
    ("no time", [answer(429, wait=0.5), OK], 0.0, [], 429),
    ("for ever", [answer(429, wait=0.0)], 10.0, [0.0] * 5, 429),
    ("the last time", [*[answer(429, wait=0.0)] * 5, OK], 10.0, [0.0] * 5, 200),
]


@pytest.mark.parametrize(
    ("answers", "budget", "waits", "status"), [case[1:] for case in WAITS], ids=[case[0] for case in WAITS]
)
def test_how_long_a_call_waits(
    answers: list[ApiResponse], budget: float, waits: list[float], status: int
) -> None:
    for own in (True, False):
        session = Said(*answers)
        asks, slept = client(session, retry_budget=budget if own else 99.0)
        try:
            asks.call("GET", "/x", retry_budget=None if own else budget)
            found = 200
        except ApiError as error:
            found = error.status
        assert (found, slept, len(session.asked)) == (status, waits, len(waits) + 1)


def test_every_try_has_the_leave_of_the_limiter() -> None:
    left: list[int] = []

    class Limiter:
        def wait(self) -> None:
            left.append(1)

    asks, _ = client(Said(answer(429, wait=0.0), OK), limiter=Limiter())
    asks.call("GET", "/x")
    assert len(left) == 2


# name, answers to the mark, the deletion and a look at the pod; requests; what comes of it
EVICTIONS: list[tuple[str, list[ApiResponse], list[str], type[ApiError] | None]] = [
    ("both", [OK, OK], ["PATCH", "DELETE"], None),
    ("gone before the mark", [answer(404)], ["PATCH"], None),
    ("gone before the deletion", [OK, answer(404)], ["PATCH", "DELETE"], None),
    ("replaced, as a look tells", [answer(409), OTHER], ["PATCH", "GET"], None),
    ("gone, as a look tells", [answer(409), answer(404)], ["PATCH", "GET"], None),
    ("a conflict of the same pod", [answer(409), SAME], ["PATCH", "GET"], Conflict),
    ("refused", [answer(403)], ["PATCH"], ApiError),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "methods", "error"), [case[1:] for case in EVICTIONS], ids=[case[0] for case in EVICTIONS]
)
def test_an_eviction(answers: list[ApiResponse], methods: list[str], error: type[ApiError] | None) -> None:
    session = Said(*answers)
    asks, _ = client(session)
    evict = Evict("a", "p", "u", "R", "why")
    if error is None:
        asks.write(evict)
    else:
        with pytest.raises(error):
            asks.write(evict)
    assert [method for method, _ in session.asked] == methods


def test_a_page_names_its_limit_and_where_it_goes_on() -> None:
    session = Said(answer(200, b'{"metadata":{},"items":[]}'))
    asks, _ = client(session)
    asks.get_page(CONFIG_MAPS, "a", limit=0)
    asks.get_page(CONFIG_MAPS, "a", limit=1, continue_token="c", field_selector="metadata.name=x")
    asks.get_page(CONFIG_MAPS, label_selector="a=b", limit=7)
    assert [path for _, path in session.asked] == [
        "/api/v1/namespaces/a/configmaps",
        "/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Dx&limit=1&continue=c",
        "/api/v1/configmaps?labelSelector=a%3Db&limit=7",
    ]
    assert session.most[0] == session.most[2] < session.most[1]


def test_a_watch_that_is_refused_says_why() -> None:
    session = Said(answer(404))
    asks, _ = client(session)
    with pytest.raises(NotFound):
        asks.watch(PODS, "a", resource_version="7", timeout_seconds=5)
    (path,) = [path for _, path in session.asked]
    assert path.startswith("/api/v1/namespaces/a/pods?")
    assert {"watch=true", "allowWatchBookmarks=true", "resourceVersion=7", "timeoutSeconds=5"} == set(
        path.partition("?")[2].split("&")
    )
