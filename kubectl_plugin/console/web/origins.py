"""Requests that come from elsewhere: other sites in the same browser, and names that point here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

# Sec-Fetch-Site of requests that the user or a page of ours makes.
_OURS: Final = frozenset({"", "none", "same-origin"})


def origin_problem(method: str, headers: Mapping[str, str], hosts: frozenset[str]) -> str:
    """Why a request is refused; empty if it may be answered. Names of headers are in lower case.

    A name of another site may resolve to this address (DNS rebinding): then Host is none of `hosts`. A page
    of another site may send requests here: then Sec-Fetch-Site or Origin says so. Only following a link is
    harmless, as the other site cannot read the answer.
    """
    host = headers.get("host", "")
    if hosts and host not in hosts:
        return f"this console does not answer as {host!r}"
    navigates = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if headers.get("sec-fetch-site", "") not in _OURS and not navigates:
        return "requests of other sites are refused"
    origin = headers.get("origin", "")
    if origin and (not host or _host_of(origin) != host):
        return "requests of other sites are refused"
    return ""


def _host_of(origin: str) -> str:
    """Host and port of an origin; empty for what is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
