"""Heads of requests, bounded, and refused if another program may read them differently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler_core.errors import MusterError

TOO_LARGE: Final = 431

_END: Final = b"\r\n"
_NAME: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128}")
_MOST_DIGITS: Final = 10
# Headers that must not be repeated: it would be ambiguous which one counts. X-Remote-User is that of an
# authenticating proxy.
_ONCE: Final = frozenset(
    {b"Authorization", b"Content-Length", b"Content-Type", b"Host", b"Transfer-Encoding", b"X-Remote-User"}
)
# What joins repeated headers, where it is no comma.
_JOINED_BY: Final = {b"Cookie": b"; "}


@dataclass(frozen=True)
class HeadLimits:
    """Limits of a request's head: bytes of its first line and of a header's value, and number of headers."""

    first_line: int
    value: int
    headers: int


class HeaderRejected(MusterError):
    """Headers that are refused: the HTTP status and the rule that they break."""

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        self.problem = problem
        super().__init__(status, problem)

    def __str__(self) -> str:
        return self.problem


def read_headers(rfile: Any, found: dict[bytes, bytes], limits: HeadLimits) -> dict[bytes, bytes]:
    """The headers by name in title case; the values of repeated ones are joined.

    Names with an underscore are left out, because WSGI cannot tell it from a hyphen. Raises HeaderRejected,
    and what `rfile.readline` raises.
    """
    for _ in range(limits.headers + 1):
        line = rfile.readline()
        if line == _END:
            _check_length(found)
            return found
        name, value = _header(line)
        if len(value) > limits.value:
            raise HeaderRejected(TOO_LARGE, f"a header is longer than {limits.value} bytes")
        if name in found:
            if name in _ONCE:
                raise HeaderRejected(400, f"{name.decode()} is given twice")
            value = found[name] + _JOINED_BY.get(name, b", ") + value
        if b"_" not in name:
            found[name] = value
    raise HeaderRejected(TOO_LARGE, f"there are more than {limits.headers} headers")


def _header(line: bytes) -> tuple[bytes, bytes]:
    """Name in title case, and value. Raises HeaderRejected."""
    if not line.endswith(_END):
        raise HeaderRejected(400, "every line of a request's head must end in CRLF")
    name, colon, value = line.partition(b":")
    if not colon or _NAME.fullmatch(name) is None:
        raise HeaderRejected(400, "a line of a request's head must be a name, a colon and a value")
    return name.title(), value.strip()


def _check_length(found: Mapping[bytes, bytes]) -> None:
    """Raises HeaderRejected unless the length of the body is given once and as a plain number."""
    length = found.get(b"Content-Length")
    if length is None:
        return
    if b"Transfer-Encoding" in found:
        raise HeaderRejected(400, "Content-Length and Transfer-Encoding exclude each other")
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        raise HeaderRejected(400, f"Content-Length must be a number of at most {_MOST_DIGITS} digits")
