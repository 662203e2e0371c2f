"""Log lines: one each whatever a name contains, readable by machines, and without what was reviewed."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.logs import JsonFormatter, TextFormatter
from scheduler_core.model.printable import visible
from scheduler_core.quota.violations import Violation
from tests.unit.webhook.http.reviews import Obj, envelope, quota
from webhook.http.admission_review import review
from webhook.http.review_log import MAX_FIELD, log, log_review
from webhook.policy.verdict import ALLOW, Finding, Verdict, deny, refuse_for_now

HOSTILE = "a\x1b[31mred\x9b0m\r\nforged: line\u202ertl\x7f\x00\u2028"


class Captured:
    """The lines of one formatter."""

    def __init__(self, form: str) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture(params=["json", "text"])
def captured(request: pytest.FixtureRequest) -> Iterator[Captured]:
    made = Captured(request.param)
    level = log.level
    log.addHandler(made.handler)
    log.setLevel(logging.DEBUG)
    yield made
    log.removeHandler(made.handler)
    log.setLevel(level)


def asked(name: str = "eq", **spec: object) -> bytes:
    body: Obj = envelope(quota(**(spec or {"max": {"cpu": 1}})))
    body["request"] |= {"name": name, "userInfo": {"username": f"user {name}"}}
    return json.dumps(body).encode()


def refusing(message: str) -> Verdict:
    return deny([Finding("bounds", Violation("ElasticQuota a/eq", "spec.max[cpu]", "1", message))])


def test_hostile_names_forge_no_line_and_reach_no_terminal(captured: Captured) -> None:
    log_review(review(asked(HOSTILE), lambda request: refusing(HOSTILE)), 0.001)
    log.warning("ignored: %s", HOSTILE)
    text = captured.stream.getvalue()
    assert text.count("\n") == len(captured.lines()) == 2
    assert all(char.isprintable() for line in captured.lines() for char in line)


def test_traceback_of_a_hostile_error_is_escaped_too(captured: Captured) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("the request could not be answered")
    assert all(char.isprintable() for line in captured.lines() for char in line)
    assert not any(line.startswith("forged") for line in captured.lines())


@given(st.text())
def test_json_lines_parse_and_say_what_was_meant(text: str) -> None:
    record = logging.LogRecord("muster.webhook", logging.INFO, "", 0, "%s", (text,), None)
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == text


@given(st.text())
def test_log_lines_are_printable(text: str) -> None:
    assert all(char.isprintable() for char in visible(text))


def test_refusal_says_who_what_and_why_in_bounded_length() -> None:
    captured = Captured("json")
    log.addHandler(captured.handler)
    log.setLevel(logging.INFO)
    try:
        log_review(review(asked("n" * 500), lambda request: refusing("too large")), 0.0015)
    finally:
        log.removeHandler(captured.handler)
        log.setLevel(logging.NOTSET)
    (line,) = captured.lines()
    found = json.loads(line)
    assert found["message"] == "review: deny"
    assert (found["kind"], found["operation"], found["rules"]) == ("ElasticQuota", "CREATE", "bounds")
    assert len(found["name"]) == MAX_FIELD
    assert (found["status"], found["milliseconds"]) == (200, 1.5)
    assert "too large" in found["reason"]


@pytest.mark.parametrize(
    ("request_fields", "told"),
    [
        pytest.param({}, {"namespace": "a", "name": "eq"}, id="a change"),
        pytest.param({"dryRun": True}, {"dryRun": True}, id="a dry run"),
        pytest.param({"dryRun": False}, {}, id="no dry run"),
        pytest.param({"subResource": "status"}, {"subresource": "status"}, id="a change of a part"),
    ],
)
def test_a_line_says_what_was_asked(request_fields: Obj, told: Obj, captured: Captured) -> None:
    body = json.loads(asked())
    body["request"] |= request_fields
    log_review(review(json.dumps(body).encode(), lambda request: ALLOW), 0.0)
    (line,) = captured.lines()
    for name, value in told.items():
        text = f'"{name}": {json.dumps(value)}' if line.startswith("{") else f'{name}="{value}"'
        assert text in line
    for name in {"dryRun", "subresource", "reason", "rules"} - told.keys():
        assert name not in line


LEVELS = [
    ("allowed", lambda request: ALLOW, logging.DEBUG),
    ("refused", lambda request: refusing("x"), logging.INFO),
    ("for now", lambda request: refuse_for_now("x"), logging.INFO),
]


@pytest.mark.parametrize(("decide", "level"), [row[1:] for row in LEVELS], ids=[row[0] for row in LEVELS])
def test_levels(decide: object, level: int, caplog: pytest.LogCaptureFixture) -> None:
    assert callable(decide)
    with caplog.at_level(logging.DEBUG, "muster.webhook"):
        log_review(review(asked(), decide), 0.0)
        log_review(review(b"{", decide), 0.0)
    assert [record.levelno for record in caplog.records] == [level, logging.DEBUG]


def test_nothing_of_the_object_is_logged(captured: Captured) -> None:
    secret = "hunter2-and-more"
    body = json.loads(asked())
    body["request"]["object"]["metadata"]["annotations"] = {"password": secret}
    body["request"]["options"] = {"token": secret}
    log_review(review(json.dumps(body).encode(), lambda request: refusing("x")), 0.0)
    log_review(review(json.dumps(body).encode()[:-5], lambda request: ALLOW), 0.0)
    assert captured.lines()
    assert secret not in captured.stream.getvalue()
