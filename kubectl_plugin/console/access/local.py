"""The gate of `kubectl elasticquota ui`: a link that is used once, then a cookie."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kubectl_plugin.console.access.viewer import Refused, Viewer

# An unused link ends after this time, in seconds.
LINK_SECONDS: Final = 600.0
# A day's work; then the command is to be started again.
SESSION_SECONDS: Final = 86_400.0


class LocalGate:
    """Lets in who comes with the link, once, and afterwards the same browser. Thread-safe.

    The viewer is the user of the kubeconfig, who sees all that the console could read.
    """

    takes_tokens = False

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._token = secrets.token_urlsafe(32)
        self._until = monotonic() + LINK_SECONDS
        self._session = ""
        self._session_until = 0.0
        # Cookies do not know ports: the name keeps several consoles on one machine apart.
        self.cookie = f"muster-console-{secrets.token_hex(4)}"

    @property
    def token(self) -> str:
        """The token of the link."""
        return self._token

    def open(self, token: str) -> str:
        """The value of the cookie for the first who comes with the token. Raises Refused."""
        with self._lock:
            good = hmac.compare_digest(_digest(token), _digest(self._token)) if self._token else False
            late = self._monotonic() > self._until
            if not good or late:
                raise Refused(
                    403, "this link is wrong, was used already or is too old; start the command again"
                )
            self._token = ""
            self._session = secrets.token_urlsafe(32)
            self._session_until = self._monotonic() + SESSION_SECONDS
            return self._session

    def viewer(self, cookies: Mapping[str, str], environ: Mapping[str, Any]) -> Viewer:
        """The viewer of a request. Raises Refused."""
        given = cookies.get(self.cookie, "")
        known = bool(self._session) and hmac.compare_digest(_digest(given), _digest(self._session))
        if not known or self._monotonic() > self._session_until:
            raise Refused(403, "open the link that `kubectl elasticquota ui` printed; it can be used once")
        return Viewer("")

    def close(self, session: str) -> None:
        """A session ends with the command."""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
