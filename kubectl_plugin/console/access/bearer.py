"""The gate of the console in the cluster: bearer tokens, or an authenticating proxy with a certificate.

The API server says who a token belongs to (TokenReview) and what they may list (SubjectAccessReview). Answers
hold for a short time; a token that ended, or a right that was taken away, ends with them.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.access.viewer import Refused, Viewer
from scheduler_core.errors import MusterError
from scheduler_core.kube.access_reviews import AccessReviews, ReviewedUser
from scheduler_core.model.printable import visible
from scheduler_core.serving.tls import CLIENT

log = logging.getLogger("muster.console")

# Seconds for which what the API server said holds.
HOLDS_SECONDS: Final = 30.0
SESSION_SECONDS: Final = 12 * 3600.0
_MOST_TOKEN: Final = 16 << 10
_MOST_ANSWERS: Final = 1024
_MOST_SESSIONS: Final = 1024
# Of one user, who could otherwise end the sessions of others by logging in again and again.
_MOST_OF_USER: Final = 16
# Tokens are reviewed one at a time, so that strangers cannot flood the API server through the console.
_MOST_WAITING: Final = 4
_WAIT_SECONDS: Final = 5.0

# The headers of an authenticating proxy.
_USER: Final = "HTTP_X_REMOTE_USER"
_GROUPS: Final = "HTTP_X_REMOTE_GROUP"


class ProxyTrust(msgspec.Struct, frozen=True):
    """The proxies whose headers are believed: those with a verified client certificate of one of these names.

    Without names none is believed.
    """

    names: frozenset[str] = frozenset()

    def user(self, environ: Mapping[str, Any]) -> ReviewedUser | None:
        """The user whom a proxy names; None for a request that comes from no proxy. Raises Refused."""
        given = environ.get(_USER, "")
        if environ.get(CLIENT) not in self.names:
            if given:
                raise Refused(403, "headers that name a user are believed from the authenticating proxy only")
            return None
        if not given:
            return None
        groups = (name.strip() for name in environ.get(_GROUPS, "").split(","))
        return ReviewedUser(given, groups=("system:authenticated", *(name for name in groups if name)))


class BearerGate:
    """Lets in users of the cluster, each with their own rights. Thread-safe.

    `settled` says whether the namespaces are known that rights are asked for.
    """

    takes_tokens = True
    cookie = "muster-console"

    def __init__(
        self,
        reviews: AccessReviews,
        rights: RightsReader,
        trust: ProxyTrust | None = None,
        settled: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reviews = reviews
        self._rights = rights
        self._trust = trust or ProxyTrust()
        self._settled = settled
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._waiting = threading.Semaphore(_MOST_WAITING)
        self._asking = threading.Lock()
        # By the hash of a token: until when, and whose it is; None for a token that is not known.
        self._users: OrderedDict[bytes, tuple[float, ReviewedUser | None]] = OrderedDict()
        # By the hash of a cookie: until when, the token, and whose it was at first.
        self._sessions: OrderedDict[bytes, tuple[float, str, ReviewedUserKey]] = OrderedDict()
        self._reading = threading.Lock()
        self._viewers: OrderedDict[ReviewedUserKey, tuple[float, Viewer]] = OrderedDict()

    def open(self, token: str) -> str:
        """The value of a cookie for a token, which is kept in memory only. Raises Refused."""
        token = token.strip()
        user = self._user(token)
        if user is None:
            raise Refused(401, "the API server does not know this token")
        session, owner = secrets.token_urlsafe(32), user_key(user)
        with self._lock:
            own = [name for name, (_, _, of) in self._sessions.items() if of[:2] == owner[:2]]
            for name in own[: max(0, len(own) + 1 - _MOST_OF_USER)]:
                del self._sessions[name]
            self._sessions[_hash(session)] = self._monotonic() + SESSION_SECONDS, token, owner
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def close(self, session: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_hash(session), None)

    def viewer(self, cookies: Mapping[str, str], environ: Mapping[str, Any]) -> Viewer:
        """The viewer: by the proxy's headers, else the bearer token, else the cookie. Raises Refused."""
        user = self._trust.user(environ)
        if user is not None:
            return self._viewer_of(user)
        scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            token = self._token_of(cookies.get(self.cookie, ""))
        user = self._user(token.strip()) if token.strip() else None
        if user is None:
            raise Refused(401, "log in with a token of the cluster" if not token else "this token has ended")
        return self._viewer_of(user)

    def _token_of(self, session: str) -> str:
        with self._lock:
            until, token, _ = self._sessions.get(_hash(session), (0.0, "", None))
        return token if self._monotonic() < until else ""

    def _user(self, token: str) -> ReviewedUser | None:
        """Whose token it is, as the API server said not long ago. Raises Refused where it does not answer."""
        if not token or len(token) > _MOST_TOKEN:
            return None
        key = _hash(token)
        with self._lock:
            until, known = self._users.get(key, (0.0, None))
        if self._monotonic() < until:
            return known
        if not self._waiting.acquire(blocking=False):
            raise Refused(503, "too many tokens are being reviewed; try again")
        try:
            if not self._asking.acquire(timeout=_WAIT_SECONDS):
                raise Refused(503, "too many tokens are being reviewed; try again")
            try:
                user = self._reviews.user_of(token)
            except MusterError as error:
                raise _unanswered(error) from None
            finally:
                self._asking.release()
        finally:
            self._waiting.release()
        with self._lock:
            _keep(self._users, key, (self._monotonic() + HOLDS_SECONDS, user))
        return user

    def _viewer_of(self, user: ReviewedUser) -> Viewer:
        """What a user may see, as the API server said not long ago. Raises Refused."""
        key = user_key(user)
        known = self._known_viewer(key)
        if known is not None:
            return known
        # Once for all requests of a page that come together: rights are many questions.
        with self._reading:
            return self._known_viewer(key) or self._read_viewer(user, key)

    def _known_viewer(self, key: ReviewedUserKey) -> Viewer | None:
        with self._lock:
            until, known = self._viewers.get(key, (0.0, None))
        return known if self._monotonic() < until else None

    def _read_viewer(self, user: ReviewedUser, key: ReviewedUserKey) -> Viewer:
        # Before the cluster was read, its namespaces are not known, and nobody may see anything.
        settled = self._settled()
        try:
            viewer = self._rights.read(user)
        except MusterError as error:
            raise _unanswered(error) from None
        if not settled:
            return viewer
        with self._lock:
            _keep(self._viewers, key, (self._monotonic() + HOLDS_SECONDS, viewer))
        return viewer


ReviewedUserKey = tuple[str, str, tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]


def user_key(user: ReviewedUser) -> ReviewedUserKey:
    """All that the rights of a user depend on."""
    return user.username, user.uid, user.groups, tuple(sorted(user.extra.items()))


def _unanswered(error: MusterError) -> Refused:
    """The reason is for the log: strangers may ask, and it names the account of the console."""
    log.warning("the API server could not be asked: %s", visible(str(error)))
    return Refused(503, "the API server could not be asked; the log of the console says why")


def _keep(table: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > _MOST_ANSWERS:
        table.popitem(last=False)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
