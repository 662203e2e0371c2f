"""What the person who looks may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from scheduler_core.model.groups.gang import Gang

# The namespaces of a right; None: all.
Namespaces = frozenset[str] | None


class Viewer(msgspec.Struct, frozen=True):
    """A person, and what the API server lets them list.

    `namespaces`: where they may list ElasticQuotas and pods. `groups`: where they may list each kind of
    group, too, by dialect; a dialect that is not named may be listed wherever pods may. `nodes`: whether they
    may list nodes. `limits` and `reservations`: where they may list ResourceQuotas and ReservationLedgers.
    `load`: whether they may list NodeMetrics. `trees`: whether they may list QuotaGroups.
    """

    name: str
    namespaces: Namespaces = None
    groups: tuple[tuple[str, Namespaces], ...] = ()
    nodes: bool = True
    limits: Namespaces = None
    reservations: Namespaces = None
    load: bool = True
    trees: bool = True

    @property
    def whole(self) -> bool:
        """Whether they may see the quotas, pods and nodes of the whole cluster."""
        return self.namespaces is None and self.nodes

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for viewers who see the same."""
        amounts = self.limits, self.reservations, self.load, self.trees
        return self.namespaces, self.groups, self.nodes, *amounts

    def sees(self, namespace: str) -> bool:
        """Whether they may see the quotas and pods of a namespace."""
        return self.namespaces is None or namespace in self.namespaces

    def sees_group(self, gang: Gang) -> bool:
        """Whether they may see a group, and its pods."""
        ref = gang.ref
        where = dict(self.groups).get(ref.dialect)
        return self.sees(ref.namespace) and (where is None or ref.namespace in where)

    def sees_limits(self, namespace: str) -> bool:
        """Whether they may see the ResourceQuotas of a namespace."""
        return self.sees(namespace) and (self.limits is None or namespace in self.limits)

    def sees_reservations(self, namespace: str) -> bool:
        """Whether they may see what is reserved in a namespace."""
        return self.sees(namespace) and (self.reservations is None or namespace in self.reservations)


class Refused(Exception):
    """A request that is not answered: the HTTP status, and why, for the person."""

    def __init__(self, status: int, problem: str) -> None:
        self.status = status
        self.problem = problem
        super().__init__(status, problem)


class Gate(Protocol):
    """Knows who looks."""

    # The name of the cookie of a session.
    cookie: str
    # Whether people may come with a token of theirs.
    takes_tokens: bool

    def open(self, token: str) -> str:
        """The value of the cookie for a token. Raises Refused."""
        ...

    def viewer(self, cookies: Mapping[str, str], environ: Mapping[str, Any]) -> Viewer:
        """The viewer of a request with this WSGI environ. Raises Refused."""
        ...

    def close(self, session: str) -> None:
        """End a session."""
        ...
