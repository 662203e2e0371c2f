"""The gang that an owner asks for, as a value."""

from __future__ import annotations

import msgspec

from scheduler_core.errors import MusterError
from scheduler_core.model.meta import OwnerReference


class OwnerGang(msgspec.Struct, frozen=True):
    """The PodGroup that pods of an owner need: its minimum, the PriorityClass of its pods (or empty), and the
    owner with which it goes away; None where only the pods know of it.

    `source` is the kind that said so; `field` says where, for messages. `stored`: words of the pod itself
    name the group, so that a review proves nothing; it is made when the pod is stored.
    """

    name: str
    minimum: int
    priority: str
    source: str
    owner: OwnerReference | None
    field: str
    stored: bool = False


class GangUndecided(MusterError):
    """A gang that cannot be known or made: one line; `temporary` says whether to try again helps, `field`
    where in the pod the cause is.
    """

    def __init__(self, problem: str, *, temporary: bool, field: str = "metadata.ownerReferences") -> None:
        self.problem = problem
        self.temporary = temporary
        self.field = field
        super().__init__(problem)

    def __str__(self) -> str:
        return self.problem
