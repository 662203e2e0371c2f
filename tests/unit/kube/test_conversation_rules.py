"""What a server must not say, and how much of what it may."""

from __future__ import annotations

from contextlib import suppress

import pytest

from scheduler_core.kube.answers import SUCCESS, BrokenAnswer
from scheduler_core.kube.conversation import MOST_IDLE_FRAMES, Conversation
from scheduler_core.kube.fields import RequestFields
from tests.support.http2_violations import ACK, LAST, PING, VIOLATIONS, WHOLE, frame, head, settings

BLOCK = RequestFields("api", ()).block("POST", "/api/v1/bindings", "application/json", 2)


def begun(count: int) -> Conversation:
    """So many requests are under way."""
    conversation = Conversation()
    assert conversation.feed(settings()) == []
    for _ in range(count):
        conversation.send(BLOCK, b"{}")
    conversation.take_out()
    return conversation


@pytest.mark.parametrize("sent", VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_server_that_breaks_a_rule_is_given_up(sent: bytes) -> None:
    conversation = begun(2)
    with suppress(BrokenAnswer):
        for start in range(0, len(sent), 7919):
            conversation.feed(sent[start : start + 7919])
    assert conversation.broken is not None


def test_what_a_server_may_say_between_two_answers_may_be_said_again_after_the_next() -> None:
    conversation = begun(3)
    quiet = MOST_IDLE_FRAMES - 3
    for stream in (1, 3, 5):
        assert conversation.feed(frame(PING, 0, 0, bytes(8)) * quiet) == []
        assert conversation.feed(head(stream, 201, WHOLE | LAST)) == [(stream, SUCCESS)]


def test_a_sign_of_life_is_the_answer_to_the_last_ping_alone() -> None:
    conversation = begun(1)
    assert not conversation.ping_due
    pings = []
    for _ in range(2):
        conversation.ping()
        pings.append(conversation.take_out().removeprefix(frame(PING, 0, 0, bytes(8))[:9]))
        assert len(pings[-1]) == 8
    for payload in (pings[0], bytes(8)):
        conversation.feed(frame(PING, ACK, 0, payload) + frame(PING, 0, 0, payload))
        assert conversation.ping_due
    conversation.feed(frame(PING, ACK, 0, pings[1]))
    assert not conversation.ping_due
