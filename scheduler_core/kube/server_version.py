"""Which version of Kubernetes a server is of."""

from __future__ import annotations

import re
from typing import Final, Protocol

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.kube.errors import ApiError, Forbidden, NotFound
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
