"""Who sends a request: the token of the server, those of ServiceAccounts, and headers of impersonation."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol
from urllib.parse import unquote

from sandbox import errors
from sandbox.access.authorizer import Authorizer
from sandbox.access.identity import ADMIN, Attributes, Identity, account_groups, account_user, groups_of

_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
# Of tokens of ServiceAccounts, as kube-apiserver has it.
LEAST_SECONDS: Final = 600
USUAL_SECONDS: Final = 3600


class Headers(Protocol):
    """The headers of a request; one may occur several times."""

    def get(self, key: str, default: str) -> str:
        """The first value."""
        ...

    def getall(self, key: str, default: Iterable[str]) -> Iterable[str]:
        """All values of a header."""
        ...

    def items(self) -> Iterable[tuple[str, str]]:
        """All headers."""
        ...


class Tokens:
    """Bearer tokens and whose they are. Those of ServiceAccounts are kept in memory, until they expire."""

    def __init__(self, admin: str) -> None:
        self._admin = admin.encode()
        self._accounts: dict[str, tuple[Identity, float]] = {}

    def identity(self, token: str) -> Identity | None:
        """Whose token it is; None for nobody's."""
        if hmac.compare_digest(token.encode(), self._admin):
            return ADMIN
        found, until = self._accounts.get(token, (None, 0.0))
        if found is not None and time.time() >= until:
            del self._accounts[token]
            return None
        return found

    def issue(self, namespace: str, name: str, uid: str, seconds: int) -> tuple[str, float]:
        """A new token of a ServiceAccount, and the time in seconds since 1970 at which it expires."""
        token, until = f"sandbox-{secrets.token_urlsafe(32)}", time.time() + seconds
        who = Identity(account_user(namespace, name), account_groups(namespace), uid)
        self._accounts[token] = (who, until)
        return token, until

    def caller(self, headers: Headers) -> Identity:
        """Who sends a request with these headers. Raises Unauthorized."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        found = self.identity(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise errors.unauthorized()
        return found


def impersonated(caller: Identity, headers: Headers, authorizer: Authorizer) -> Identity:
    """The caller, or whom its headers name. Raises BadRequest, and Forbidden where it may not."""
    user = headers.get("Impersonate-User", "")
    groups = tuple(headers.getall("Impersonate-Group", ()))
    uid = headers.get("Impersonate-Uid", "")
    extra: dict[str, list[str]] = {}
    for key, value in headers.items():
        if key.lower().startswith(_EXTRA):
            extra.setdefault(unquote(key[len(_EXTRA) :].lower()), []).append(value)
    if not user:
        if groups or uid or extra:
            raise errors.bad_request(
                "requested impersonation of groups, a UID or extra values without a user"
            )
        return caller
    for wanted in _rights(user, groups, uid, extra):
        if not authorizer.allows(caller, wanted)[0]:
            where = f"{wanted.whole_resource}.{wanted.group}" if wanted.group else wanted.whole_resource
            why = wanted.refusal(caller.user)
            raise errors.StatusError(403, "Forbidden", f'{where} "{wanted.name}" is forbidden: {why}')
    return Identity(
        user, groups_of(user, groups), uid, tuple((key, tuple(values)) for key, values in extra.items())
    )


def _rights(
    user: str, groups: tuple[str, ...], uid: str, extra: Mapping[str, list[str]]
) -> Iterator[Attributes]:
    parts = user.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        yield Attributes("impersonate", "", "serviceaccounts", "", parts[2], parts[3])
    else:
        yield Attributes("impersonate", "", "users", name=user)
    for group in groups:
        yield Attributes("impersonate", "", "groups", name=group)
    if uid:
        yield Attributes("impersonate", _AUTHENTICATION, "uids", name=uid)
    for key, values in extra.items():
        for value in values:
            yield Attributes("impersonate", _AUTHENTICATION, "userextras", key, name=value)
