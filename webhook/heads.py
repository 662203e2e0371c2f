"""The heads of requests: what of them is read at all, before anything is made of it.

API servers send a handful of short lines. Whatever is longer, repeated or ambiguous is refused with its
reason, here for our own server, and by `excess` for any WSGI server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.errors import MusterError

# Path and query: API servers ask for `/validate?timeout=10s`.
MAX_TARGET: Final = 512
# Of a line of the head, without its name: a bearer token of an API server may be some KiB long.
MAX_VALUE: Final = 8 << 10
MAX_LINES: Final = 64
# The first line holds method and version too.
MAX_FIRST_LINE: Final = MAX_TARGET + len("POST  HTTP/1.1\r\n")

TOO_LONG: Final = 414
TOO_LARGE: Final = 431

_END: Final = b"\r\n"
_NAME: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128}")
_MOST_DIGITS: Final = 10
# Two of them would leave open which one counts.
_ONCE: Final = frozenset({b"Content-Length", b"Content-Type", b"Host", b"Transfer-Encoding"})


class HeadRefused(MusterError):
    """A head that is not read: the HTTP status and the rule that it breaks."""

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        self.problem = problem
        super().__init__(status, problem)

    def __str__(self) -> str:
        return self.problem


def read_head(rfile: Any, found: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The lines after the first, by name in title case; lists of several lines are joined by commas.

    Lines whose name has an underscore are left out: WSGI could not tell it from a hyphen. Raises HeadRefused,
    and what `rfile.readline` raises.
    """
    for _ in range(MAX_LINES + 1):
        line = rfile.readline()
        if line == _END:
            _check_length(found)
            return found
        if not line.endswith(_END):
            raise HeadRefused(400, "every line of a request's head must end in CRLF")
        name, colon, value = line.partition(b":")
        if not colon or _NAME.fullmatch(name) is None:
            raise HeadRefused(400, "a line of a request's head must be a name, a colon and a value")
        name, value = name.title(), value.strip()
        if len(value) > MAX_VALUE:
            raise HeadRefused(TOO_LARGE, f"a header is longer than {MAX_VALUE} bytes")
        if name in found:
            if name in _ONCE:
                raise HeadRefused(400, f"{name.decode()} is given twice")
            value = found[name] + b", " + value
        if b"_" not in name:
            found[name] = value
    raise HeadRefused(TOO_LARGE, f"there are more than {MAX_LINES} headers")


def excess(environ: Mapping[str, Any]) -> tuple[int, str] | None:
    """The HTTP status and the rule that a request's head breaks, None if it is in order."""
    if len(environ.get("PATH_INFO", "")) + len(environ.get("QUERY_STRING", "")) > MAX_TARGET:
        return TOO_LONG, f"path and query are longer than {MAX_TARGET} characters"
    lengths = [len(environ[key]) for key in environ if key.startswith(("HTTP_", "CONTENT_"))]
    if len(lengths) > MAX_LINES:
        return TOO_LARGE, f"there are more than {MAX_LINES} headers"
    if max(lengths, default=0) > MAX_VALUE:
        return TOO_LARGE, f"a header is longer than {MAX_VALUE} characters"
    return None


def _check_length(found: Mapping[bytes, bytes]) -> None:
    """How long the body is must be said once, and plainly."""
    length = found.get(b"Content-Length")
    if length is None:
        return
    if b"Transfer-Encoding" in found:
        raise HeadRefused(400, "Content-Length and Transfer-Encoding exclude each other")
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        raise HeadRefused(400, f"Content-Length must be a number of at most {_MOST_DIGITS} digits")
