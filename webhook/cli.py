"""What is made of the webhook's arguments before anything is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

ALL_ADDRESSES: Final = ("0.0.0.0", "::")


def to_address(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, int]:
    """HOST:PORT."""
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def to_slashed(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, str]:
    """NAMESPACE/NAME, or nothing."""
    namespace, slash, name = value.partition("/")
    if value and not (namespace and slash and name):
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME")
    return namespace, name


def to_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """An https URL, or nothing."""
    parts = urlsplit(value)
    if value and (parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment):
        raise click.BadParameter(f"{value!r} is not an https URL")
    return value


def state_directory() -> Path:
    """Where certificates of our own are kept outside of a cluster."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "muster" / "webhook"


def serving_hosts(listen: str, url: str, service: tuple[str, str]) -> tuple[str, ...]:
    """The names the certificate is for: where we listen, what the URL or the Service is called."""
    hosts = ["localhost", "127.0.0.1", "::1"]
    if listen and listen not in ALL_ADDRESSES:
        hosts.append(listen)
    hosts.append(urlsplit(url).hostname or "")
    namespace, name = service
    if name:
        hosts += [f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"]
    return tuple(dict.fromkeys(host for host in hosts if host))
