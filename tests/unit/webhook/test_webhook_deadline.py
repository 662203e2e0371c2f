"""A review is answered before the API server gives up: questions that could outlast it are not begun."""

from __future__ import annotations

import threading
from math import inf

import pytest

from scheduler_core.kube.credentials import StaticCredentials
from scheduler_core.kube.endpoint import Endpoint
from scheduler_core.kube.errors import Unreachable
from scheduler_core.kube.session import Limits
from webhook.deadline import MOST_SECONDS, BoundedSession, remaining, seconds_for, within

TIMEOUTS = [
    ("as API servers write it", "5s", MOST_SECONDS),
    ("of the mutating webhook", "2s", 1.6),
    ("two units", "1m30s", MOST_SECONDS),
    ("fractions", "1.5s", 1.2),
    ("milliseconds", "500ms", 0.4),
    ("too short for anything", "1ms", 0.1),
    ("not given", None, MOST_SECONDS),
    ("empty", "", MOST_SECONDS),
    ("no unit", "5", MOST_SECONDS),
    ("negative", "-5s", MOST_SECONDS),
    ("nonsense behind", "1s;", MOST_SECONDS),
    ("far too long", "9" * 400 + "h", MOST_SECONDS),
]


@pytest.mark.parametrize(("timeout", "seconds"), [t[1:] for t in TIMEOUTS], ids=[t[0] for t in TIMEOUTS])
def test_time_to_answer(timeout: str | None, seconds: float) -> None:
    assert seconds_for(timeout) == pytest.approx(seconds)


def test_time_is_of_one_thread_and_one_request() -> None:
    seen: list[float] = []
    with within(5.0):
        assert 0 < remaining() <= 5.0
        thread = threading.Thread(target=lambda: seen.append(remaining()))
        thread.start()
        thread.join(5)
    assert seen == [inf]
    assert remaining() == inf


def test_question_that_could_outlast_the_request_is_not_begun() -> None:
    session = BoundedSession(Endpoint("http://127.0.0.1:9"), StaticCredentials(), limits=Limits(0.4, 0.8))
    with within(0.5), pytest.raises(Unreachable, match="no answer in time") as refused:
        session.request("POST", "/api")
    assert not refused.value.maybe_accepted
    with pytest.raises(Unreachable, match="connection refused"):
        session.request("POST", "/api")
