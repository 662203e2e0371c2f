"""Limits on request lines and headers of reviews.

API servers send a handful of short headers. Longer ones are refused with the reason: by the webhook's own
server before anything interprets them, by `header_violation` on any WSGI server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.serving.heads import TOO_LARGE, HeadLimits

# Path and query: API servers ask for `/validate?timeout=10s`.
MAX_TARGET: Final = 512
# Of the value of a header: a bearer token of an API server may be some KiB long.
MAX_VALUE: Final = 8 << 10
MAX_LINES: Final = 64
# The request line also holds method and version.
HEAD_LIMITS: Final = HeadLimits(MAX_TARGET + len("POST  HTTP/1.1\r\n"), MAX_VALUE, MAX_LINES)

TOO_LONG: Final = 414


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
