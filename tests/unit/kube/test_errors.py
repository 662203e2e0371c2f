"""From an answer to a typed error with one line of text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler_core.kube import errors
from scheduler_core.kube.errors import ApiError, error_from_status
from scheduler_core.kube.paging import Page

# sentence, HTTP code, body, type
ANSWERS: list[tuple[str, int, Any, type[ApiError]]] = [
    ("404", 404, {"reason": "NotFound"}, errors.NotFound),
    ("409 on create", 409, {"reason": "AlreadyExists"}, errors.AlreadyExists),
    ("409 otherwise", 409, {"reason": "Conflict"}, errors.Conflict),
    ("410 as Expired", 410, {"reason": "Expired"}, errors.Gone),
    ("410 as Gone", 410, {"reason": "Gone"}, errors.Gone),
    ("422", 422, {"reason": "Invalid"}, errors.Invalid),
    ("401 without a reason", 401, {}, errors.Unauthorized),
    ("403 of a proxy in HTML", 403, "<html>no</html>", errors.Forbidden),
    ("429", 429, {"reason": "TooManyRequests"}, errors.TooManyRequests),
    ("500", 500, {"reason": "InternalError"}, errors.ServerError),
    ("502 of a load balancer", 502, "bad gateway", errors.ServerError),
    ("503", 503, {"reason": "ServiceUnavailable"}, errors.ServiceUnavailable),
    ("504", 504, {"reason": "Timeout"}, errors.Timeout),
    ("a timeout told with 500", 500, {"reason": "ServerTimeout"}, errors.Timeout),
    ("415", 415, {"reason": "UnsupportedMediaType"}, errors.BadRequest),
    ("the code of an event in a stream", 0, {"reason": "", "code": 410}, errors.Gone),
    ("bytes that are no text", 500, b"\xff\xfe", errors.ServerError),
    ("an empty body", 500, b"", errors.ServerError),
    ("a number", 500, b"5", errors.ServerError),
]


@pytest.mark.parametrize(
    ("code", "body", "kind"), [a[1:] for a in ANSWERS], ids=[f"answer {a[0]}" for a in ANSWERS]
)
def test_an_answer_has_a_type(code: int, body: Any, kind: type[ApiError]) -> None:
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    error = error_from_status(code, raw, method="GET", path="/x")
    assert type(error) is kind
    assert "\n" not in str(error)


def test_the_text_names_method_path_code_reason_and_message_in_one_line() -> None:
    body = json.dumps({"reason": "NotFound", "message": 'pods "p"\n not found', "details": {"name": "p"}})
    error = error_from_status(404, body.encode(), method="GET", path="/api/v1/pods/p")
    assert str(error) == 'GET /api/v1/pods/p: 404 NotFound: pods "p" not found'
    assert error.details == {"name": "p"}


def test_retry_after_is_the_headers_or_the_status_own() -> None:
    body = json.dumps({"reason": "TooManyRequests", "details": {"retryAfterSeconds": 4}}).encode()
    assert error_from_status(429, body).retry_after == 4.0
    assert error_from_status(429, body, retry_after=9.0).retry_after == 9.0
    assert error_from_status(409, body.replace(b"TooManyRequests", b"Conflict")).retry_after is None


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"5", b'{"items": 3}', b"\xff"])
def test_success_with_a_foreign_body_is_an_error_that_quotes_it(body: bytes) -> None:
    decoder = msgspec.json.Decoder(Page)
    with pytest.raises(errors.BadAnswer, match="GET /api/v1/pods: 200 BadAnswer: ") as caught:
        errors.decode_answer(body, decoder, method="GET", path="/api/v1/pods")
    assert repr(body.decode("utf-8", "replace")) in str(caught.value)
