"""The version of a server, and what follows from it."""

from __future__ import annotations

import pytest

from scheduler_core.kube.errors import ApiError, Forbidden, NotFound, ServerError
from scheduler_core.kube.server_version import resize_rule, server_version
from scheduler_core.model.pods.requests import ResizeRule


class Server:
    """Answers one question, or fails."""

    def __init__(self, answer: bytes | ApiError) -> None:
        self._answer = answer

    def call(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", "/version")
        if isinstance(self._answer, ApiError):
            raise self._answer
        return self._answer


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
