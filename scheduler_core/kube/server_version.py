"""Which version of Kubernetes a server is of, and what follows from it while it may be upgraded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from scheduler_core.model.pods.requests import ResizeRule

PATH: Final = "/version"
_DIGITS: Final = re.compile(r"\d+")


class _Info(msgspec.Struct, frozen=True):
    """`major` and `minor` as servers write them; some providers add a sign: `37+`."""

    major: str = ""
    minor: str = ""


_info: Final = decoder(_Info)


class VersionClient(Protocol):
    """The method of `kube.client.Client` that is needed here."""

    def call(self, method: str, path: str) -> bytes:
        """The body of the answer. Raises ApiError."""


def server_version(client: VersionClient) -> tuple[int, int] | None:
    """The major and minor version; None where the server hides it or says nothing of the kind.

    Raises ApiError where it does not answer.
    """
    try:
        info = _info.decode(client.call("GET", PATH))
    except (Forbidden, NotFound, msgspec.MsgspecError, UnicodeError):
        return None
    major, minor = _DIGITS.match(info.major), _DIGITS.match(info.minor)
    return (int(major[0]), int(minor[0])) if major and minor else None


def resize_rule(client: VersionClient) -> ResizeRule:
    """What resized pods count for on this server; by the newest rule where it does not tell its version."""
    try:
        return ResizeRule.of(server_version(client))
    except ApiError:
        return ResizeRule.LARGEST_SUM


class ServerRule:
    """What resized pods count for on a server, for any number of threads: a CurrentRule.

    It is the newest rule until the server has told its version. The version is asked for again whenever a
    watch of pods begins (`followed`): after an upgrade there is no watch from before it.
    """

    def __init__(self, client: VersionClient) -> None:
        self._client = client
        self._rule = ResizeRule.newest()

    def __call__(self) -> ResizeRule:
        return self._rule

    def ask(self) -> None:
        """Ask the server. Raises ApiError."""
        self._rule = ResizeRule.of(server_version(self._client))

    def followed(self) -> Callable[[], bool]:
        """For one reader of pods (`ObjectReader.differs`): ask, and tell whether it read by another rule.

        A server that answers something else than its version keeps the rule that it had: pods are read all
        the same. Raises Unreachable.
        """
        read_by = self._rule

        def differs() -> bool:
            nonlocal read_by
            try:
                self.ask()
            except Unreachable:
                raise
            except ApiError:
                pass
            before, read_by = read_by, self._rule
            return read_by is not before

        return differs
