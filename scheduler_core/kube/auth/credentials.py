"""Credentials for the API server. Each class implements `headers`, `certificate` and `refresh`."""

from __future__ import annotations

import base64
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from scheduler_core.kube.auth.users import Impersonation
from scheduler_core.kube.errors import KubeconfigError
from scheduler_core.kube.http.endpoint import ClientCertificate, load_certificate
from scheduler_core.kube.http.session import Credentials

TOKEN_FILE_SECONDS: Final = 60.0
# Interval of background refreshes; tokens are renewed minutes before they expire.
REFRESH_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StaticCredentials:
    """A token, a user name with its password, a client certificate, or no credentials. Immutable."""

    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    pair: ClientCertificate | None = None
    source: str = "command line"

    def headers(self) -> list[tuple[str, str]]:
        return self._headers

    @cached_property
    def _headers(self) -> list[tuple[str, str]]:
        if self.token:
            return [bearer(self.token, self.source)]
        if self.username:
            encoded = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            return [("Authorization", f"Basic {encoded}")]
        return []

    def certificate(self) -> ClientCertificate | None:
        return self.pair

    def refresh(self) -> bool:
        return False


class TokenFile:
    """A token in a file that another program renews; read again every minute and after a 401."""

    def __init__(
        self,
        path: Path,
        source: str = "command line",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._source = source
        self._monotonic = monotonic
        self._read_at = 0.0
        self._header: tuple[str, str] | None = None

    def headers(self) -> list[tuple[str, str]]:
        known = self._header
        if known is None or self._monotonic() - self._read_at > TOKEN_FILE_SECONDS:
            known = self._read(known)
        return [known]

    def certificate(self) -> ClientCertificate | None:
        return None

    def refresh(self) -> bool:
        known = self._header
        return self._read(known) != known

    def _read(self, known: tuple[str, str] | None) -> tuple[str, str]:
        """The token in the file, or the last one where the file cannot be read: it may just be replaced."""
        try:
            found = bearer(self._path.read_text(encoding="utf-8").strip(), self._source)
        except (OSError, UnicodeDecodeError, KubeconfigError) as error:
            if known is None:
                problem = error.problem if isinstance(error, KubeconfigError) else error
                raise KubeconfigError(self._source, f"tokenFile {self._path}: {problem}") from None
            found = known
        self._header, self._read_at = found, self._monotonic()
        return found


class OfficialCredentials:
    """Exec plugins, auth providers and service accounts, through the official client's configuration.

    `load` returns a loaded `kubernetes.client.Configuration`; it is called again after a 401. A plugin may be
    slow, and the configuration runs it minutes before a token expires. So only the first request, and
    requests after a 401, wait for it; other requests use the current token. `hint` says how to get a plugin
    that does not work.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        source: str,
        hint: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._source = source
        self._hint = hint
        self._monotonic = monotonic
        # Held while the configuration is loaded or read, which may run a plugin.
        self._lock = threading.Lock()
        self._loads = 0
        self._configuration = self._loaded()
        self._cached: list[tuple[str, str]] | None = None
        self._loaded_at = 0.0

    @property
    def configuration(self) -> Any:
        """The official Configuration (host, ssl_ca_cert and more)."""
        return self._configuration

    def headers(self) -> list[tuple[str, str]]:
        headers = self._cached
        if headers is None:
            with self._lock:
                return self._load_headers() if self._cached is None else self._cached
        if self._monotonic() - self._loaded_at > REFRESH_SECONDS and not self._lock.locked():
            self._loaded_at = self._monotonic()
            threading.Thread(target=self._load_in_background, name="credentials", daemon=True).start()
        return headers

    def _load_in_background(self) -> None:
        """Read the configuration, which renews a token that is about to expire."""
        with self._lock:
            try:
                self._load_headers()
            except MemoryError:
                raise
            except Exception as error:
                log.warning("credentials: %s", error)

    def _load_headers(self) -> list[tuple[str, str]]:
        try:
            setting = self._configuration.auth_settings().get("BearerToken")
        finally:
            self._loaded_at = self._monotonic()
        value = setting["value"] if setting else None
        headers = []
        if value:
            scheme, _, secret = str(value).strip().partition(" ")
            headers = [("Authorization", f"{scheme.capitalize()} {_one_line(secret, self._source)}")]
        self._cached = headers
        return headers

    def certificate(self) -> ClientCertificate | None:
        certificate, key = self._configuration.cert_file, self._configuration.key_file
        if not certificate or not key:
            return None
        return ClientCertificate(Path(certificate).read_bytes(), Path(key).read_bytes())

    def refresh(self) -> bool:
        known = self._loads
        with self._lock:
            # Of all requests that got a 401 at the same time, one runs the plugin.
            if self._loads == known:
                self._configuration = self._loaded()
                self._cached = None
                self._loads += 1
        return True

    def _loaded(self) -> Any:
        with _reported(self._source) as problems:
            configuration = self._load()
        # The official loader logs the failure of a plugin and continues without credentials.
        if problems and not configuration.api_key and not configuration.cert_file:
            raise KubeconfigError(self._source, "; ".join([*problems, *filter(None, [self._hint])]))
        return configuration


class Impersonating:
    """Other credentials that act as another user (`--as`, or `as` of a kubeconfig)."""

    def __init__(self, inner: Credentials, acting: Impersonation) -> None:
        self._inner = inner
        self._extra = [(name, _one_line(value, "impersonation")) for name, value in acting.headers()]

    def headers(self) -> list[tuple[str, str]]:
        return self._inner.headers() + self._extra

    def certificate(self) -> ClientCertificate | None:
        return self._inner.certificate()

    def refresh(self) -> bool:
        return self._inner.refresh()


def bearer(token: str, source: str) -> tuple[str, str]:
    """The Authorization header of a token. Raises KubeconfigError for a token that no header can carry."""
    return "Authorization", f"Bearer {_one_line(token, source)}"


def _one_line(value: str, source: str) -> str:
    if not value or not value.isprintable() or not value.isascii():
        raise KubeconfigError(
            source, "a credential is empty or holds characters that no HTTP header can carry"
        )
    return value


class _Problems(logging.Handler):
    """Collects log messages, one line each."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(" ".join(record.getMessage().split()))


@contextmanager
def _reported(source: str) -> Iterator[list[str]]:
    """Collect what the official loader writes to the root logger, and convert its exceptions."""
    handler = _Problems()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler.lines
    except (KubeconfigError, MemoryError):
        raise
    except Exception as error:
        raise KubeconfigError(source, " ".join(str(error).split()) or type(error).__name__) from error
    finally:
        root.removeHandler(handler)


Part = Path | bytes
"""The file of a certificate or key, or what a kubeconfig holds of it itself."""
_Stamp = tuple[tuple[int, int, int], ...]


class CertificateFiles:
    """A client certificate and its key, read again when one of their files changes. Thread-safe.

    Other programs renew these files (kubelet, cert-manager, kubeadm). A pair that cannot be read, or does not
    match, is ignored and the last good pair stays: one of the files may just be written. Raises
    KubeconfigError where the first pair cannot be read.
    """

    def __init__(self, certificate: Part, key: Part, source: str) -> None:
        self._parts = (certificate, key)
        self._source = source
        self._lock = threading.Lock()
        self._stamp = self._stamped()
        self._pair = self._read()

    def current(self) -> ClientCertificate:
        """The current pair; costs one `stat` per file while they do not change."""
        with self._lock:
            self._reload()
            return self._pair

    def _reload(self) -> None:
        try:
            stamp = self._stamped()
            if stamp == self._stamp:
                return
            pair = self._read()
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair, self._source)
        except KubeconfigError:
            return
        self._pair, self._stamp = pair, stamp

    def _stamped(self) -> _Stamp:
        stamps = []
        for path in self._parts:
            if isinstance(path, Path):
                try:
                    found = path.stat()
                except OSError as error:
                    raise KubeconfigError(self._source, _problem(path, error)) from None
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return tuple(stamps)

    def _read(self) -> ClientCertificate:
        certificate, key = (self._content(part) for part in self._parts)
        return ClientCertificate(certificate, key)

    def _content(self, part: Part) -> bytes:
        if isinstance(part, bytes):
            return part
        try:
            return part.read_bytes()
        except OSError as error:
            raise KubeconfigError(self._source, _problem(part, error)) from None


class WithCertificateFiles:
    """Other credentials, with a client certificate from files."""

    def __init__(self, inner: Credentials, files: CertificateFiles) -> None:
        self._inner = inner
        self._files = files

    def headers(self) -> list[tuple[str, str]]:
        return self._inner.headers()

    def certificate(self) -> ClientCertificate | None:
        return self._files.current()

    def refresh(self) -> bool:
        return self._inner.refresh()


def _problem(path: Path, error: OSError) -> str:
    return f"client certificate {path}: {(error.strerror or str(error)).lower()}"
