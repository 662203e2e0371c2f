"""The caller of a request, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sandbox.objects import Obj

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
ANONYMOUS: Final = "system:anonymous"
_ACCOUNT: Final = "system:serviceaccount"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with its groups; `extra` are further facts, by key."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ADMIN: Final = Identity("kubernetes-admin", (MASTERS, AUTHENTICATED))
# The server itself, such as its controllers.
SANDBOX: Final = Identity("system:sandbox", (MASTERS, AUTHENTICATED))


def user_info(who: Identity) -> Obj:
    """The caller as reviews of access, tokens and admission show it."""
    extra = {key: list(values) for key, values in who.extra}
    return {
        "username": who.user,
        "groups": list(who.groups),
        **({"uid": who.uid} if who.uid else {}),
        **({"extra": extra} if extra else {}),
    }


def account_user(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount."""
    return f"{_ACCOUNT}:{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups of the ServiceAccounts of a namespace."""
    return (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}", AUTHENTICATED)


def groups_of(user: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups of an impersonated user: those that are named, or those that a name brings with it."""
    parts = user.split(":")
    if not groups and len(parts) == 4 and user.startswith(f"{_ACCOUNT}:"):
        groups = account_groups(parts[2])
    ends = UNAUTHENTICATED if user == ANONYMOUS else AUTHENTICATED
    return groups if ends in groups or UNAUTHENTICATED in groups else (*groups, ends)


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a request does: a verb on a resource or on a `path`.

    `subresource`, `namespace` and `name` may be empty.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def whole_resource(self) -> str:
        """`pods`, or `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def refusal(self, user: str) -> str:
        """Why a user may not, in kube-apiserver's words, without the object in front."""
        if self.path:
            return f'User "{user}" cannot {self.verb} path "{self.path}"'
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        what = f'resource "{self.whole_resource}" in API group "{self.group}"'
        return f'User "{user}" cannot {self.verb} {what} {where}'
