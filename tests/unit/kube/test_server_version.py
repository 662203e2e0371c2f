"""The version of a server, and what follows from it."""

from __future__ import annotations

import pytest

from scheduler_core.kube.errors import ApiError, Forbidden, NotFound, ServerError, Unreachable
from scheduler_core.kube.server_version import ServerRule, resize_rule, server_version
from scheduler_core.model.pods.requests import ResizeRule


class Server:
    """Answers questions, or fails: by turns, and then as it did last."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        self._answers = list(answers)
        self.asked = 0

    def call(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", "/version")
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ApiError):
            raise answer
        return answer


NEW, OLD = ResizeRule.LARGEST_SUM, ResizeRule.SUM_OF_LARGEST
ANSWERS: dict[str, tuple[bytes | ApiError, tuple[int, int] | None, ResizeRule]] = {
    "an older version": (b'{"major":"1","minor":"36","gitVersion":"v1.36.3"}', (1, 36), OLD),
    "a newer version": (b'{"major":"1","minor":"37","gitVersion":"v1.37.2"}', (1, 37), NEW),
    "a provider's version": (b'{"major":"1","minor":"36+"}', (1, 36), OLD),
    "no numbers": (b'{"major":"","minor":""}', None, NEW),
    "no object": (b"v1.36", None, NEW),
    "a server that hides it": (Forbidden(403, "Forbidden", "no"), None, NEW),
    "a server without one": (NotFound(404, "NotFound", "no"), None, NEW),
}


@pytest.mark.parametrize(("answer", "version", "rule"), ANSWERS.values(), ids=ANSWERS)
def test_a_server_says_of_which_version_it_is(
    answer: bytes | ApiError, version: tuple[int, int] | None, rule: ResizeRule
) -> None:
    assert server_version(Server(answer)) == version
    assert resize_rule(Server(answer)) is rule


def test_a_server_that_fails_has_the_newest_rule() -> None:
    server = Server(ServerError(500, "InternalError", "no"))
    with pytest.raises(ServerError):
        server_version(server)
    assert resize_rule(server) is NEW


V36, V37 = b'{"major":"1","minor":"36"}', b'{"major":"1","minor":"37"}'
BUSY = ServerError(500, "InternalError", "no")
# What a server answers one after another; the rule after each answer, and whether it is another one.
LATER: dict[str, list[tuple[bytes | ApiError, ResizeRule, bool]]] = {
    "a server that stays": [(V36, OLD, True), (V36, OLD, False)],
    "an upgrade": [(V36, OLD, True), (V37, NEW, True), (V37, NEW, False)],
    "a downgrade": [(V37, NEW, False), (V36, OLD, True)],
    "servers of both versions behind one address": [(V36, OLD, True), (V37, NEW, True), (V36, OLD, True)],
    "one that fails at first": [(BUSY, NEW, False), (V36, OLD, True)],
    "one that fails in between": [(V36, OLD, True), (BUSY, OLD, False), (V36, OLD, False)],
}


@pytest.mark.parametrize("turns", LATER.values(), ids=LATER)
def test_the_rule_follows_the_server(turns: list[tuple[bytes | ApiError, ResizeRule, bool]]) -> None:
    server = Server(*(answer for answer, _, _ in turns))
    rule = ServerRule(server)
    differs = rule.followed()
    assert rule() is NEW
    assert [(rule(), changed) for changed in (differs() for _ in turns)] == [turn[1:] for turn in turns]
    assert server.asked == len(turns)


def test_a_server_that_is_away_is_asked_again() -> None:
    rule = ServerRule(Server(Unreachable("away", sent=False), V36))
    differs = rule.followed()
    with pytest.raises(Unreachable):
        differs()
    assert differs()
    assert rule() is OLD


def test_every_reader_is_told_of_a_change_that_another_one_saw() -> None:
    rule = ServerRule(Server(V36))
    one, other = rule.followed(), rule.followed()
    assert [one(), other(), one(), other()] == [True, True, False, False]
