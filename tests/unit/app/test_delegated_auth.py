"""Who sees a guarded page, by what the API server answers; without an answer nobody does."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from scheduler_core.app.delegated_auth import HOLDS_SECONDS, MOST_WAITING, DelegatedAuthorizer
from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.model.writes import Create
from tests.support.eventually import eventually
from tests.support.kept import entries, reached

PATH = "/debug/cache"
EVE = {"username": "eve", "groups": ["team"], "uid": "7", "extra": {"k": ["v"]}}
KNOWN = {"authenticated": True, "user": EVE}


class Answers(Client):
    """An API server that answers reviews as told; an error is raised."""

    def __init__(self, token: Any = None, access: Any = None) -> None:
        self.token = KNOWN if token is None else token
        self.access = {"allowed": True} if access is None else access
        self.asked: list[tuple[str, Any]] = []

    def create(self, write: Create, *, dry_run: bool = False) -> bytes:
        self.asked.append((write.resource.kind, json.loads(msgspec.json.encode(write.body["spec"]))))
        said = self.token if write.resource.kind == "TokenReview" else self.access
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, bytes) else json.dumps({"status": said}).encode()


def test_the_user_of_the_token_is_asked_about() -> None:
    server = Answers()
    assert DelegatedAuthorizer(server)(PATH, "Bearer secret") == (200, "")
    assert server.asked == [
        ("TokenReview", {"token": "secret"}),
        (
            "SubjectAccessReview",
            {
                "user": "eve",
                "groups": ["team"],
                "uid": "7",
                "extra": {"k": ["v"]},
                "nonResourceAttributes": {"path": PATH, "verb": "get"},
            },
        ),
    ]


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic YTpi", "secret", f"Bearer {'x' * 20_000}"]
)
def test_without_a_token_no_request_is_made(header: str) -> None:
    server = Answers()
    assert DelegatedAuthorizer(server)(PATH, header)[0] == 401
    assert server.asked == []


@pytest.mark.parametrize(
    ("token", "access", "status", "words"),
    [
        pytest.param({"authenticated": False}, None, 401, "does not know this token", id="unknown"),
        pytest.param({"error": "x"}, None, 401, "does not know", id="an error in the answer"),
        pytest.param({"authenticated": True}, None, 401, "does not know", id="nobody"),
        pytest.param({"authenticated": "true", "user": EVE}, None, 503, "", id="text"),
        pytest.param(None, {"allowed": False}, 403, "user eve cannot get path /debug/cache", id="no right"),
        pytest.param(None, {}, 403, "cannot get", id="no answer about the right"),
        pytest.param(None, {"allowed": True, "denied": True}, 403, "cannot get", id="both"),
        pytest.param(b"{", None, 503, "could not be asked", id="garbage"),
        pytest.param(b"[]", None, 503, "could not be asked", id="a list"),
        pytest.param(b'{"status": 7}', None, 503, "could not be asked", id="a number"),
    ],
)
def test_what_is_answered(token: Any, access: Any, status: int, words: str) -> None:
    found, said = DelegatedAuthorizer(Answers(token, access))(PATH, "bearer secret")
    assert found == status
    assert words in said


def test_answers_hold_for_a_while_for_this_token_and_path() -> None:
    now = [100.0]
    server = Answers()
    gate = DelegatedAuthorizer(server, lambda: now[0])
    for _ in range(5):
        assert gate(PATH, "Bearer a")[0] == 200
    assert len(server.asked) == 2
    server.access = {"allowed": False}
    assert gate("/configz", "Bearer a")[0] == 403
    assert gate(PATH, "Bearer b")[0] == 403
    assert gate(PATH, "Bearer a")[0] == 200
    now[0] += HOLDS_SECONDS
    assert gate(PATH, "Bearer a")[0] == 403


def test_no_answer_is_no_and_is_not_kept() -> None:

    server = Answers(MusterError("away"))
    gate = DelegatedAuthorizer(server)
    assert gate(PATH, "Bearer a") == (503, "the API server could not be asked: away")
    server.token = KNOWN
    assert gate(PATH, "Bearer a")[0] == 200


def test_the_cache_is_bounded_and_holds_no_token() -> None:
    server = Answers({"authenticated": False})
    gate = DelegatedAuthorizer(server)
    for number in range(1000):
        gate(PATH, f"Bearer secret-{number}")
    assert entries(gate, without=server) <= 256
    texts = [item for item in reached(gate, without=server) if isinstance(item, str | bytes)]
    assert PATH in texts
    assert not [text for text in texts if "secret" in str(text)]


def test_many_unknown_tokens_hold_few_threads_and_keep_out_no_known_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server is slow, and strangers send one token after the other."""
    monkeypatch.setattr("scheduler_core.app.delegated_auth.WAIT_SECONDS", 60.0)
    resumed = threading.Event()
    server = Answers()
    gate = DelegatedAuthorizer(server)
    assert gate(PATH, "Bearer known")[0] == 200
    create = server.create

    def slowly(write: Create, *, dry_run: bool = False) -> bytes:
        resumed.wait(60)
        return create(write, dry_run=dry_run)

    monkeypatch.setattr(server, "create", slowly)
    with ThreadPoolExecutor(30) as pool:
        try:
            asked = [pool.submit(gate, PATH, f"Bearer {number}") for number in range(30)]
            eventually(lambda: sum(one.done() for one in asked) == 30 - MOST_WAITING, 20)
            assert {one.result() for one in asked if one.done()} == {
                (503, "too many requests wait for authorization")
            }
            assert pool.submit(gate, PATH, "Bearer known").result(60) == (200, "")
        finally:
            resumed.set()
    assert [one.result()[0] for one in asked].count(200) == MOST_WAITING
