"""Who we are to the API server. Each class answers `headers`, `certificate` and `refresh` for a Session."""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from scheduler_core.kube.endpoint import ClientCertificate
from scheduler_core.kube.errors import KubeconfigError
from scheduler_core.kube.session import Credentials

TOKEN_FILE_SECONDS: Final = 60.0
# Tokens are renewed minutes before they expire.
ASK_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StaticCredentials:
    """A token, a user name with its password, a client certificate, or nothing at all; none of it changes."""

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
    """A token that somebody else keeps fresh in a file; read again every minute and after a 401."""

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
        """The token as the file has it, else the last one: the file may be replaced at this very moment."""
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

    `load` returns a loaded `kubernetes.client.Configuration`; it is called again when the server says 401.
    A plugin may take its time, and the configuration runs it minutes before a token expires. So only the
    first request and those that got a 401 wait for it; others go on with the token there is.
    """

    def __init__(
        self, load: Callable[[], Any], source: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._source = source
        self._monotonic = monotonic
        # Held while the configuration is loaded or asked, which may run a plugin.
        self._lock = threading.Lock()
        self._loads = 0
        self._configuration = self._loaded()
        self._said: list[tuple[str, str]] | None = None
        self._asked_at = 0.0

    @property
    def configuration(self) -> Any:
        """The official Configuration (host, ssl_ca_cert and more)."""
        return self._configuration

    def headers(self) -> list[tuple[str, str]]:
        said = self._said
        if said is None:
            with self._lock:
                return self._ask() if self._said is None else self._said
        if self._monotonic() - self._asked_at > ASK_SECONDS and not self._lock.locked():
            self._asked_at = self._monotonic()
            threading.Thread(target=self._ask_aside, name="credentials", daemon=True).start()
        return said

    def _ask_aside(self) -> None:
        """Ask the configuration, which renews a token that is about to expire."""
        with self._lock:
            try:
                self._ask()
            except MemoryError:
                raise
            except Exception as error:
                log.warning("credentials: %s", error)

    def _ask(self) -> list[tuple[str, str]]:
        try:
            setting = self._configuration.auth_settings().get("BearerToken")
        finally:
            self._asked_at = self._monotonic()
        value = setting["value"] if setting else None
        said = []
        if value:
            scheme, _, secret = str(value).strip().partition(" ")
            said = [("Authorization", f"{scheme.capitalize()} {_one_line(secret, self._source)}")]
        self._said = said
        return said

    def certificate(self) -> ClientCertificate | None:
        certificate, key = self._configuration.cert_file, self._configuration.key_file
        if not certificate or not key:
            return None
        return ClientCertificate(Path(certificate).read_bytes(), Path(key).read_bytes())

    def refresh(self) -> bool:
        known = self._loads
        with self._lock:
            # Of all that got a 401 at the same time, one runs the plugin.
            if self._loads == known:
                self._configuration = self._loaded()
                self._said = None
                self._loads += 1
        return True

    def _loaded(self) -> Any:
        with _reported(self._source) as problems:
            configuration = self._load()
        # The official loader logs a failed plugin and goes on without credentials.
        if problems and not configuration.api_key and not configuration.cert_file:
            raise KubeconfigError(self._source, "; ".join(problems))
        return configuration


class Impersonating:
    """Other credentials, acting as somebody else (`--as`, `--as-group`)."""

    def __init__(self, inner: Credentials, user: str, groups: Sequence[str] = ()) -> None:
        self._inner = inner
        pairs = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        self._extra = [(name, _one_line(value, "impersonation")) for name, value in pairs]

    def headers(self) -> list[tuple[str, str]]:
        return self._inner.headers() + self._extra

    def certificate(self) -> ClientCertificate | None:
        return self._inner.certificate()

    def refresh(self) -> bool:
        return self._inner.refresh()


def bearer(token: str, source: str) -> tuple[str, str]:
    """The Authorization header of a token. Raises KubeconfigError for one that cannot be in a header."""
    return "Authorization", f"Bearer {_one_line(token, source)}"


def _one_line(value: str, source: str) -> str:
    if not value or not value.isprintable() or not value.isascii():
        raise KubeconfigError(
            source, "a credential is empty or holds characters that no HTTP header can carry"
        )
    return value


class _Problems(logging.Handler):
    """Keeps what is logged, one line each."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(" ".join(record.getMessage().split()))


@contextmanager
def _reported(source: str) -> Iterator[list[str]]:
    """Collect what the official loader logs to the root logger, and make its exceptions ours."""
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
