"""The user of a kubeconfig: as whom requests act, and what kubectl refuses in its entry."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from scheduler_core.kube.auth.kubeconfig import Entry
from scheduler_core.kube.errors import KubeconfigError

# Characters of an extra's key that a header name may have; all others are sent as %xx (RFC 7230, token).
_HEADER_NAME: Final = "!#$&'*+-.^_`|~"
_MODES: Final = ("Never", "IfAvailable", "Always")
# The versions of plugins that kubectl speaks; those of the second need not say whether they ask the user.
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True)
class Impersonation:
    """The user that requests act as; nobody else where `user` is empty."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def over(self, other: Impersonation) -> Impersonation:
        """These flags, with what they do not say from a kubeconfig. Raises KubeconfigError."""
        found = Impersonation(
            self.user or other.user,
            self.uid or other.uid,
            self.groups or other.groups,
            self.extra or other.extra,
        )
        if found.lacks_user and self.lacks_user:
            raise KubeconfigError("command line", "--as-group and --as-uid: each needs --as")
        return found

    def headers(self) -> Iterator[tuple[str, str]]:
        """The headers that an API server reads."""
        if self.user:
            yield "Impersonate-User", self.user
        if self.uid:
            yield "Impersonate-Uid", self.uid
        for group in self.groups:
            yield "Impersonate-Group", group
        for key, values in self.extra.items():
            for value in values:
                yield f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME)}", value

    @property
    def lacks_user(self) -> bool:
        """Whether a uid, groups or extra are given, which need a user."""
        return not self.user and bool(self.uid or self.groups or self.extra)


NOBODY: Final = Impersonation()


def impersonation_of(user: Entry) -> Impersonation:
    """`as`, `as-uid`, `as-groups` and `as-user-extra` of a user's entry. Raises KubeconfigError."""
    body = user.body
    extra = body.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(isinstance(key, str) for key in extra):
        raise KubeconfigError(user.file, f"as-user-extra of {user.name!r} is not a map of lists")
    return Impersonation(
        _text(user, "as", body.get("as")),
        _text(user, "as-uid", body.get("as-uid")),
        _texts(user, "as-groups", body.get("as-groups")),
        {key: _texts(user, f"as-user-extra {key}", values) for key, values in extra.items()},
    )


def check_acting(acting: Impersonation, user: Entry) -> None:
    """Raises KubeconfigError where a kubeconfig names no user for its uid, groups or extra."""
    if acting.lacks_user:
        problem = f"user {user.name!r} has as-uid, as-groups or as-user-extra without as"
        raise KubeconfigError(user.file, problem)


def _text(user: Entry, key: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise KubeconfigError(user.file, f"{key} of {user.name!r} is not a string")
    return value or ""


def _texts(user: Entry, key: str, values: Any) -> tuple[str, ...]:
    if values is not None and not (isinstance(values, list) and all(isinstance(one, str) for one in values)):
        raise KubeconfigError(user.file, f"{key} of {user.name!r} is not a list of strings")
    return tuple(values or ())


def check_user(user: Entry) -> None:
    """Raises KubeconfigError for what kubectl refuses: contradictions, and plugins that say too little."""
    body = user.body
    if body.get("token") and (body.get("username") or body.get("password")):
        raise KubeconfigError(
            user.file, f"user {user.name!r} has a token and basic authentication; only one is allowed"
        )
    for key in ("client-certificate", "client-key"):
        check_once(user, "user", key)
    plugin = body.get("exec")
    if plugin is not None:
        if not isinstance(plugin, dict):
            raise KubeconfigError(user.file, f"exec of {user.name!r} is not a mapping")
        if body.get("auth-provider"):
            raise _plugin_error(user, "stands beside an auth-provider; only one is allowed")
        _check_plugin(user, plugin)


def check_once(entry: Entry, kind: str, key: str) -> None:
    """Raises KubeconfigError where a file and its content are both given."""
    if entry.body.get(key) and entry.body.get(f"{key}-data"):
        raise KubeconfigError(
            entry.file, f"{kind} {entry.name!r} has both {key} and {key}-data; only one is allowed"
        )


def _check_plugin(user: Entry, plugin: Mapping[str, Any]) -> None:
    for key in ("command", "apiVersion"):
        if not plugin.get(key):
            raise _plugin_error(user, f"has no {key}")
    if plugin["apiVersion"] not in _EXEC_VERSIONS:
        problem = f"has the apiVersion {plugin['apiVersion']!r}, not one of {', '.join(_EXEC_VERSIONS)}"
        raise _plugin_error(user, problem)
    if any(not isinstance(one, dict) or not one.get("name") for one in plugin.get("env") or ()):
        raise _plugin_error(user, "has an environment variable without a name")
    mode = plugin.get("interactiveMode") or (
        "IfAvailable" if plugin["apiVersion"] == _EXEC_VERSIONS[1] else ""
    )
    if mode not in _MODES:
        problem = f"has the interactiveMode {mode!r}" if mode else "has no interactiveMode"
        raise _plugin_error(user, f"{problem}, not one of {', '.join(_MODES)}")
    # A process that was started without an input has none.
    if mode == "Always" and not (sys.stdin and sys.stdin.isatty()):
        raise _plugin_error(user, "asks the user (interactiveMode Always), and the input is no terminal")


def _plugin_error(user: Entry, problem: str) -> KubeconfigError:
    return KubeconfigError(user.file, f"the exec plugin of user {user.name!r} {problem}")


def install_hint(user: Entry) -> str:
    """What the kubeconfig says about getting the plugin, on one line and without control characters."""
    plugin = user.body.get("exec")
    hint = plugin.get("installHint") if isinstance(plugin, dict) else None
    return (
        " ".join("".join(c if c.isprintable() else " " for c in hint).split())
        if isinstance(hint, str)
        else ""
    )
