"""What becomes of a unit of work that was tried: it starts, prepares its nodes, waits, or is at fault.

The queue, kept nodes, conditions and messages read one of these four values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.gang.fair_preemption import FairAttempt
from scheduler_core.engine.gang.members import AssumedMembers, Members, UnpreparedMember
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.framework.profile import Profile
from scheduler_core.model import names
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState

_GANG_PLUGIN: Final = frozenset({names.COSCHEDULING})


class Lack(Enum):
    """What a waiting unit lacks."""

    ROOM = "room"
    # More than its quota can ever give.
    QUOTA = "quota"
    # Members, or the group itself.
    PODS = "pods"


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """`refused`: the message of every member that does not start, by uid. `plugins`: their hints wake it."""

    refused: Mapping[str, str]
    plugins: frozenset[str] = _GANG_PLUGIN


class Starts(_Told, frozen=True, kw_only=True):
    """Members hold their nodes. `singly`: the others are tried one by one."""

    reserved: Sequence[tuple[Profile, ReservedPod]]
    singly: bool = False


class MemberToPrepare(msgspec.Struct, frozen=True):
    """A member, the node for it, its requests (int64 [R]), and the writes that prepare the node."""

    pod: Pod
    node: str
    vector: Int64
    writes: tuple[Write, ...] = ()


class Prepares(_Told, frozen=True, kw_only=True):
    """There is a node for every member, and some nodes must be prepared first."""

    members: tuple[MemberToPrepare, ...]


class MustWait(_Told, frozen=True, kw_only=True):
    """Nothing starts yet.

    - `everywhere`: a plugin refuses a member on every node, so it is not for the constraints.
    - `need`: how many must start together if time may bring the room for them, else 0.
    - `preemption`: the evictions that make room for the whole unit, if any.
    - `due`: when time alone may bring victims.
    """

    lack: Lack = Lack.ROOM
    everywhere: bool = False
    need: int = 0
    preemption: GangPreemption | None = None
    due: float = math.inf

    def with_fair_move(self, attempt: FairAttempt) -> MustWait:
        """The same with a fair move, or with the reason why there is none."""
        told = {uid: f"{text}; {attempt.reason}" for uid, text in self.refused.items()}
        return msgspec.structs.replace(
            self,
            preemption=attempt.preemption,
            due=attempt.due,
            refused=told if attempt.reason else self.refused,
        )


class AtFault(_Told, frozen=True, kw_only=True):
    """No room would help: the group, a member, labels or profiles must be corrected.

    `error`: it counts as an error of the scheduler, as in kube-scheduler. `lacks_object`: a group that it
    names does not exist.
    """

    error: bool = False
    lacks_object: bool = False


Outcome = Starts | Prepares | MustWait | AtFault
_Kind = TypeVar("_Kind", bound=_Told)


def waits(members: Members, text: str, **more: Any) -> MustWait:
    """The outcome if all members wait for the same reason; `more` are fields of the outcome."""
    return MustWait(refused=one_text(members, text), **more)


def at_fault(members: Members, text: str, **more: Any) -> AtFault:
    """The outcome if no room would help; `more` are fields of the outcome."""
    return AtFault(refused=one_text(members, text), **more)


def one_text(members: Members, text: str) -> dict[str, str]:
    """One message for all members, by uid."""
    return {pod.uid: text for _, pod in members}


def also_woken_by(outcome: _Kind, plugins: frozenset[str]) -> _Kind:
    """The same outcome, where hints of these plugins may wake the unit, too."""
    return msgspec.structs.replace(outcome, plugins=outcome.plugins | plugins)


def to_prepare(state: ClusterState, assumed: AssumedMembers) -> tuple[MemberToPrepare, ...]:
    """Members that found nodes, some of which must be prepared before the members can be assumed there."""
    return tuple(
        MemberToPrepare(
            member.cycle.pod,
            state.nodes.names[member.slot],
            member.cycle.vector,
            member.writes if isinstance(member, UnpreparedMember) else (),
        )
        for _, member in assumed
    )
