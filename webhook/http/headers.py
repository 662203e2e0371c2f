"""Limits on request lines and headers, checked before anything interprets them.

API servers send a handful of short headers. Longer, repeated and ambiguous ones are refused with the reason:
by `read_headers` in the webhook's own server, by `header_violation` on any WSGI server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.errors import MusterError

# Path and query: API servers ask for `/validate?timeout=10s`.
MAX_TARGET: Final = 512
# Of the value of a header: a bearer token of an API server may be some KiB long.
MAX_VALUE: Final = 8 << 10
MAX_LINES: Final = 64
# The request line also holds method and version.
MAX_FIRST_LINE: Final = MAX_TARGET + len("POST  HTTP/1.1\r\n")

TOO_LONG: Final = 414
TOO_LARGE: Final = 431

_END: Final = b"\r\n"
_NAME: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128}")
_MOST_DIGITS: Final = 10
# Headers that must not be repeated: it would be ambiguous which one counts.
_ONCE: Final = frozenset({b"Content-Length", b"Content-Type", b"Host", b"Transfer-Encoding"})


class HeaderRejected(MusterError):
    """Headers that are refused: the HTTP status and the rule that they break."""

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        self.problem = problem
        super().__init__(status, problem)

    def __str__(self) -> str:
        return self.problem


def read_headers(rfile: Any, found: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The headers by name in title case; the values of repeated ones are joined by commas.

    Names with an underscore are left out, because WSGI cannot tell it from a hyphen. Raises HeaderRejected,
    and what `rfile.readline` raises.
    """
    for _ in range(MAX_LINES + 1):
        line = rfile.readline()
        if line == _END:
            _check_length(found)
            return found
        if not line.endswith(_END):
            raise HeaderRejected(400, "every line of a request's head must end in CRLF")
        name, colon, value = line.partition(b":")
        if not colon or _NAME.fullmatch(name) is None:
            raise HeaderRejected(400, "a line of a request's head must be a name, a colon and a value")
        name, value = name.title(), value.strip()
        if len(value) > MAX_VALUE:
            raise HeaderRejected(TOO_LARGE, f"a header is longer than {MAX_VALUE} bytes")
        if name in found:
            if name in _ONCE:
                raise HeaderRejected(400, f"{name.decode()} is given twice")
            value = found[name] + b", " + value
        if b"_" not in name:
            found[name] = value
    raise HeaderRejected(TOO_LARGE, f"there are more than {MAX_LINES} headers")


def header_violation(environ: Mapping[str, Any]) -> tuple[int, str] | None:
    """The HTTP status and the rule that a request line or header breaks, or None."""
    if len(environ.get("PATH_INFO", "")) + len(environ.get("QUERY_STRING", "")) > MAX_TARGET:
        return TOO_LONG, f"path and query are longer than {MAX_TARGET} characters"
    lengths = [len(environ[key]) for key in environ if key.startswith(("HTTP_", "CONTENT_"))]
    if len(lengths) > MAX_LINES:
        return TOO_LARGE, f"there are more than {MAX_LINES} headers"
    if max(lengths, default=0) > MAX_VALUE:
        return TOO_LARGE, f"a header is longer than {MAX_VALUE} characters"
    return None


def _check_length(found: Mapping[bytes, bytes]) -> None:
    """Raises HeaderRejected unless the length of the body is given once and as a plain number."""
    length = found.get(b"Content-Length")
    if length is None:
        return
    if b"Transfer-Encoding" in found:
        raise HeaderRejected(400, "Content-Length and Transfer-Encoding exclude each other")
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        raise HeaderRejected(400, f"Content-Length must be a number of at most {_MOST_DIGITS} digits")
