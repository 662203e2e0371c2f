"""Serving certificates of one API server on loopback, written as PEM files."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler_core.certificates import (
    KeyPair,
    Lifetimes,
    is_signed_by,
    is_valid,
    is_whole,
    issue_serving,
    make_authority,
)

VALID_FOR: Final = dt.timedelta(days=365)
_SPARE: Final = dt.timedelta(days=1)
_HOSTS: Final = (
    *("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    *("127.0.0.1", "::1"),
)


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """Paths of PEM files: certificate of the authority, certificate and key of the server."""

    ca: Path
    certificate: Path
    key: Path


def existing_certificates(directory: Path, now: dt.datetime) -> ServerCertificate | None:
    """The files of an earlier start; None unless they are all there, whole and valid for another day."""
    files = ServerCertificate(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    try:
        pair = KeyPair(files.certificate.read_bytes(), files.key.read_bytes())
        authority = files.ca.read_bytes()
    except FileNotFoundError:
        return None
    tomorrow = (now + _SPARE).timestamp()
    valid = all(is_valid(pem, tomorrow) for pem in (authority, pair.certificate))
    return files if valid and is_whole(pair) and is_signed_by(pair.certificate, authority) else None


def write_certificates(directory: Path, now: dt.datetime) -> ServerCertificate:
    """Write a new certificate authority and a serving certificate to `directory`; keys get mode 0600."""
    lifetimes = Lifetimes(authority=VALID_FOR, serving=VALID_FOR)
    authority = make_authority(now.timestamp(), lifetimes, common_name="muster-sandbox-ca")
    serving = issue_serving(authority, _HOSTS, now.timestamp(), lifetimes)
    files = ServerCertificate(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    directory.mkdir(parents=True, exist_ok=True)
    files.ca.write_bytes(authority.certificate)
    files.certificate.write_bytes(serving.certificate)
    files.key.touch(mode=0o600)
    files.key.write_bytes(serving.key)
    return files
