"""The proxy that the environment names for a server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """The value of `https_proxy` or `http_proxy` as a URL, empty where `no_proxy` exempts the host."""
    url = urlsplit(server)
    host = url.hostname or ""
    proxy = environ.get(f"{url.scheme}_proxy") or environ.get(f"{url.scheme.upper()}_PROXY") or ""
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if not proxy or _is_loopback(host) or any(_covers(entry.strip(), host) for entry in exempt.split(",")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _covers(entry: str, host: str) -> bool:
    """`*`, a network, a domain (with or without a leading dot), or the host itself."""
    if entry == "*":
        return True
    if not entry:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.lstrip("*").lstrip(".").lower()
        return host == domain or host.endswith(f".{domain}")
