"""Large reviews for which there is no room are refused: without a verdict they would pass."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.unit.webhook.http.reviews import envelope, namespace, pod, quota, synced
from webhook.http.app import create_app
from webhook.http.body import MAX_BODIES
from webhook.http.review_endpoint import ReviewEndpoint
from webhook.http.throttling import LARGE_BYTES
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher

LARGE = {"annotations": {"fat": "x" * (LARGE_BYTES + 1)}}


def ask(app: Any, body: bytes, path: str) -> tuple[str, dict[str, Any], int]:
    """Status, answer, and how much of the body was left unread."""
    stream = io.BytesIO(body)
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "QUERY_STRING": "timeout=1s",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": stream,
    }
    codes: list[str] = []
    answer = b"".join(app.wsgi_app(environ, lambda code, headers: codes.append(code)))
    return codes[0], json.loads(answer), len(stream.read())


@pytest.fixture
def app() -> Any:
    return create_app(ReviewDispatcher(synced(namespace("a"), quota(max={"cpu": "4"}))), WebhookMetrics())


def endpoint_of(app: Any) -> ReviewEndpoint:
    found: ReviewEndpoint = app.wsgi_app.endpoint
    return found


def body(**more: Any) -> bytes:
    # As API servers write it: the uid comes first.
    whole = envelope(pod(namespace="a", meta=LARGE), **more)
    request = {"uid": whole["request"].pop("uid"), **whole["request"]}
    return json.dumps({**whole, "request": request}, separators=(",", ":")).encode()


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("crowd", ["memory", "turn"])
def test_a_large_review_without_room_is_refused_by_a_verdict(app: Any, path: str, crowd: str) -> None:
    sent = body()
    uid = json.loads(sent)["request"]["uid"]
    inside = endpoint_of(app)
    with inside.memory.claims() as claim, inside.throttle.turn(LARGE_BYTES + 1 if crowd == "turn" else 0):
        if crowd == "memory":
            claim(MAX_BODIES)
        code, answer, unread = ask(app, sent, path)
    assert (code, unread) == ("200 OK", 0)
    response = answer["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == (uid, False, 503)
    assert response["status"]["message"] == "too many large reviews at the same time; try again"
    assert ask(app, sent, path)[1]["response"]["allowed"]


HEADS = [b"", b"{}", b'{"request":{"uid":"', b'{"request":{"uid":"a\\u0022"', b'{"request":{"uid":"\xff"']


@pytest.mark.parametrize("head", HEADS)
def test_without_a_uid_there_is_no_verdict(app: Any, head: bytes) -> None:
    inside = endpoint_of(app)
    with inside.memory.claims() as claim:
        claim(MAX_BODIES)
        code, answer, _ = ask(app, head + b" " * LARGE_BYTES, "/validate")
    assert (code, answer["response"]["uid"]) == ("503 Service Unavailable", "")
