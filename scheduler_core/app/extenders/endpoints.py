"""Endpoints of HTTP extenders: URL, certificates and timeouts of a configuration."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.schema import Extender, ExtenderTLS
from scheduler_core.errors import ConfigError
from scheduler_core.kube.errors import KubeconfigError
from scheduler_core.kube.http.caller import Caller
from scheduler_core.kube.http.endpoint import ClientCertificate, Endpoint

DEFAULT_SECONDS: Final = 5.0


def caller_of(extender: Extender, path: str) -> Caller:
    """The client of an extender whose settings are at `path`. Raises ConfigError; reads certificates."""
    _check_url(extender, path)
    tls = extender.tls_config or ExtenderTLS()
    place = f"{path}.tlsConfig"
    certificate = _material(tls.cert_file, tls.cert_data, f"{place}.cert")
    key = _material(tls.key_file, tls.key_data, f"{place}.key")
    if bool(certificate) != bool(key):
        raise ConfigError(place, "a client certificate needs its key, and a key its certificate")
    pair = ClientCertificate(certificate, key) if certificate else None
    try:
        authority = _material(tls.ca_file, tls.ca_data, f"{place}.ca").decode()
        endpoint = Endpoint(extender.url_prefix, authority, tls.insecure, tls.server_name, source=place)
        return Caller(endpoint, extender.http_timeout or DEFAULT_SECONDS, pair)
    except UnicodeDecodeError:
        raise ConfigError(f"{place}.ca", "is not PEM text") from None
    except KubeconfigError as error:
        raise ConfigError(path, str(error)) from None


def problems_of(config: SchedulerConfiguration) -> Iterator[ConfigError]:
    """The errors of the extenders in a configuration."""
    for i, extender in enumerate(config.extenders):
        try:
            caller_of(extender, f"extenders[{i}]")
        except ConfigError as error:
            yield error


def _check_url(extender: Extender, path: str) -> None:
    place, given = f"{path}.urlPrefix", extender.url_prefix
    try:
        url = urlsplit(given)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable or not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError(place, f"{given!r} is not an http or https URL")
    if url.username is not None or url.query or url.fragment:
        raise ConfigError(place, "is a URL without user, query and fragment")
    if extender.enable_https and url.scheme != "https":
        raise ConfigError(place, f"{given!r} is not an https URL, which enableHTTPS asks for")
    if extender.http_timeout < 0:
        raise ConfigError(f"{path}.httpTimeout", "must not be negative")
    for name in ("filter_verb", "prioritize_verb", "preempt_verb", "bind_verb"):
        verb = getattr(extender, name)
        if not verb.isascii() or not verb.isprintable() or " " in verb:
            raise ConfigError(path, f"{verb!r} cannot be the end of a URL")


def _material(file: str, data: str, path: str) -> bytes:
    """PEM from base64 text, which takes precedence, or from a file."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{path}Data", f"is not base64: {error}") from None
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}File", f"cannot read {file}: {error.strerror}") from None
