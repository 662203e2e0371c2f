"""The extension points of a scheduling plugin, as Protocols.

A plugin is any object with a `name` and the methods of one or more of these Protocols. Rules for all of them:

- No I/O, no clock, no randomness, no logging. `cycle.now` is the time; reasons and writes are values.
- No state of its own beyond its args. Data of one attempt lives in `cycle.slots[self.name]`.
- Arrays seen through a NodeView are read-only. An answer for M nodes has M entries, in the view's order.
- An exception is broken code: the engine reports the plugin and the extension point, retries the pod with
  backoff, and goes on.

A filter or score declares its `scope`, which decides what the engine recomputes after a placement: STATIC
answers depend on the pod and on one node's labels, taints, allocatable and the like; USAGE answers also on
that node's requested columns (as the view gives them, which may be hypothetical); CLUSTER answers depend on
several nodes or on the pods that run there, and are computed for every attempt.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.queueing.hints import Hint, Room
from scheduler_core.framework.status import Bits, Diagnosis, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind

MAX_NODE_SCORE = 100
T = TypeVar("T")


class Scope(Enum):
    """The inputs that an answer depends on; see the module docstring."""

    STATIC = "static"
    USAGE = "usage"
    CLUSTER = "cluster"


class Unit(Protocol):
    """An item of the queue: a single pod, or a whole gang."""

    @property
    def priority(self) -> int:
        """Highest priority of its pods."""

    @property
    def created(self) -> float:
        """Creation time of the pod, or of the group."""

    @property
    def key(self) -> str:
        """Unique and stable name."""


@runtime_checkable
class Plugin(Protocol):
    """A plugin that a profile can enable."""

    @property
    def name(self) -> str:
        """The name in configurations, events and metrics; a class attribute is enough."""


@runtime_checkable
class ConcernPlugin(Plugin, Protocol):
    """Optional, for a plugin that has nothing to do for most pods."""

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Whether the plugin has anything to do for a pod; must be cheap.

        False states the answers of the plugin until the attempt ends: SKIP at PreFilter and PreScore, no
        bits, SUCCESS at Reserve and Permit, no writes. The plugin is then not called, except at PreEnqueue,
        PostFilter and Bind, and for answers that are kept per class of equal pods.
        """


@runtime_checkable
class RoomPlugin(Plugin, Protocol):
    """Optional, for the plugin that counts the resources of nodes; hints of other plugins call it."""

    def has_room_on(self, state: ClusterState, pod: Pod, slot: int) -> bool:
        """Whether a pod fits a node, now or after evictions there."""

    def room_on(self, state: ClusterState, slot: int) -> Room:
        """The free resources of a node, and those that evictions there may add."""


@runtime_checkable
class MeetsOthersPlugin(Plugin, Protocol):
    """Optional, for a plugin that calls another plugin of its profile."""

    def meet(self, others: Mapping[str, Plugin]) -> None:
        """The plugins of the profile by name, itself among them; called once, before anything else."""


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Called before a pod enters the active queue; any status but SUCCESS keeps the pod out."""

    def pre_enqueue(self, state: ClusterState, pod: Pod) -> Status:
        """SUCCESS, or UNRESOLVABLE/UNSCHEDULABLE with the reason."""


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Order of the active queue. All profiles of a process share one."""

    def sort_key(self, unit: Unit) -> tuple[Any, ...]:
        """Smaller goes first. Must be total: end with the unit's key."""


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Called once per attempt, before any node is looked at.

    Where the plugin's Filter is STATIC or USAGE, equal pods share its PreFilter: it must then depend on the
    pod alone.
    """

    def pre_filter(self, cycle: Cycle) -> Status:
        """SUCCESS, SKIP (this plugin's Filter has nothing to say), UNSCHEDULABLE or UNRESOLVABLE."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Which nodes cannot take the pod, and why: all nodes at once.

    A class attribute `reads_labels = False` says of a CLUSTER filter that the pod's labels do not count.
    """

    @property
    def scope(self) -> Scope:
        """The scope of the answer; a class attribute is enough."""

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]: 0 where the pod fits, else bit i set for `reasons(cycle)[i]`."""

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The meaning of the bits. May be longer than the bits in use."""


class PostFilterResult(msgspec.Struct, frozen=True):
    """Result of a PostFilter: the node to nominate (empty for none), the victims, a text for the message.

    `fair`: the victims go in a fair move. `due`: without a node, when time alone may bring victims.
    """

    status: Status
    nominated: str = ""
    victims: tuple[Pod, ...] = ()
    message: str = ""
    fair: bool = False
    due: float = math.inf


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Called in order when no node fits, until one succeeds: usually preemption."""

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """SUCCESS with a nomination, or UNSCHEDULABLE with the reason why nothing helps."""


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Called once per attempt with the nodes that fit, before Score."""

    def pre_score(self, cycle: Cycle, feasible: NDArray[np.bool_]) -> Status:
        """SUCCESS, or SKIP if this plugin would score all nodes alike. `feasible` is bool [N], all slots."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Scores of nodes: raw int64 values, 0..100 after `normalize`."""

    @property
    def scope(self) -> Scope:
        """The scope of the answer; a class attribute is enough."""

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M]. Nodes that do not fit may get any value; it is not used."""


@runtime_checkable
class NormalizePlugin(Plugin, Protocol):
    """A score whose raw values need the other nodes' values to become 0..100.

    A class attribute `looks_at_feasible = False` says that the answer does not depend on which nodes are
    feasible; it is then kept while nodes only fill up.
    """

    def normalize(self, cycle: Cycle, raw: Int64, feasible: NDArray[np.bool_]) -> Int64:
        """int64 [N] of 0..100 from raw [N]; only feasible nodes count."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Called when a pod is placed on a node in the state, and when that is undone."""

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """Any other status than SUCCESS calls `unreserve` of every plugin, in reverse order."""

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """Must be idempotent, and tolerate that `reserve` was never called."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Called after Reserve; may delay or prevent the binding."""

    def permit(self, cycle: Cycle, slot: int) -> tuple[Status, float]:
        """SUCCESS, WAIT with the seconds to wait at most, or UNSCHEDULABLE."""


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Writes that must succeed before the binding (volumes, labels)."""

    def pre_bind(self, cycle: Cycle, slot: int) -> Sequence[Write]:
        """The writes, done in order; one that fails ends the attempt."""


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Binds a pod to its node. The first plugin that returns a write binds."""

    def bind(self, cycle: Cycle, slot: int) -> Write | None:
        """The binding, or None to leave it to the next plugin."""


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    """Writes after a binding was accepted; failures are logged only."""

    def post_bind(self, cycle: Cycle, slot: int) -> Sequence[Write]:
        """The writes."""


@runtime_checkable
class EventsPlugin(Plugin, Protocol):
    """Registers the cluster events that may make a pod schedulable which this plugin rejected."""

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Hints by event, or union of events; None accepts every event. A hint must be cheap and pure."""


POINTS: Mapping[str, type[Any]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
}


def implements(plugin: object, contract: Callable[..., T]) -> TypeGuard[T]:
    """Whether a plugin has all that one of the Protocols above asks for.

    As `isinstance`, which in Python 3.11 looks for the members of a Protocol anew at each call: that was most
    of the time in which profiles are built.
    """
    return all(getattr(plugin, member, None) is not None for member in _members(contract))


@functools.cache
def _members(contract: Any) -> frozenset[str]:
    return frozenset(
        member
        for protocol in contract.__mro__
        if protocol is not Protocol
        for member in vars(protocol)
        if not member.startswith("_")
    )
