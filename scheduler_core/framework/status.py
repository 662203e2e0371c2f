"""Statuses of extension points, and the diagnosis of why a pod got no node."""

from __future__ import annotations

import math
from enum import IntEnum
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.model.names import CAPACITY_SCHEDULING, COSCHEDULING

Bits = NDArray[np.uint64]

# Plugins whose PreFilter refuses a pod whatever nodes there are: their message names no nodes.
_INDEPENDENT_OF_NODES: Final = frozenset({CAPACITY_SCHEDULING, COSCHEDULING})


class Code(IntEnum):
    """Outcome of an extension point, with kube-scheduler's meaning.

    SUCCESS goes on. UNSCHEDULABLE ends the attempt; PostFilter may help, and the queue waits for an event
    that a hint accepts. UNRESOLVABLE is the same, but evicting pods cannot help. WAIT (Permit) holds the pod
    with its resources reserved. SKIP (PreFilter, PreScore) takes the plugin out of this cycle's Filter or
    Score. PENDING waits for something outside the scheduler. ERROR is broken code or input: backoff, retry.
    """

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6


class Status(msgspec.Struct, frozen=True):
    """A code, the plugin that returned it, and a reason with numbers. `detail` is the typed reason."""

    code: Code
    reason: str = ""
    plugin: str = ""
    detail: object = None

    @property
    def ok(self) -> bool:
        """Whether the cycle goes on."""
        return self.code in (Code.SUCCESS, Code.SKIP)

    def of(self, plugin: str) -> Status:
        """The same status with the name of the plugin."""
        return Status(self.code, self.reason, plugin, self.detail)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(reason: str, detail: object = None) -> Status:
    """The pod cannot be placed now; evicting pods might help."""
    return Status(Code.UNSCHEDULABLE, reason, detail=detail)


def unresolvable(reason: str, detail: object = None) -> Status:
    """The pod cannot be placed, and no eviction changes that."""
    return Status(Code.UNRESOLVABLE, reason, detail=detail)


class Reason(msgspec.Struct, frozen=True):
    """Meaning of one filter bit: the reason, and whether evicting pods from the node could remove it."""

    text: str
    resolvable: bool = True


class Rejection(msgspec.Struct, frozen=True):
    """A reason for which a plugin refused nodes, with the number of nodes."""

    plugin: str
    text: str
    nodes: int


_nodes: Final = attrgetter("nodes")


class Diagnosis(msgspec.Struct, frozen=True):
    """The reasons why a pod got no node: a refusal before the nodes were filtered, or rejections per node.

    `plugins` are those whose hints decide when the pod is tried again, at the latest at `due`. `lasting`: the
    filters that refuse every node for reasons which no eviction removes; empty if one may be made to fit.
    """

    total_nodes: int
    status: Status | None = None
    rejections: tuple[Rejection, ...] = ()
    plugins: frozenset[str] = frozenset()
    post_filter: str = ""
    due: float = math.inf
    lasting: frozenset[str] = frozenset()

    @property
    def refused_by(self) -> str:
        """The plugin that refused the pod before the nodes were filtered, else that which refused most."""
        if self.status is not None:
            return self.status.plugin
        return max(self.rejections, key=_nodes).plugin if self.rejections else ""

    @property
    def message(self) -> str:
        """One sentence with the numbers: kube-scheduler's words where nodes are the reason."""
        head = f"0/{self.total_nodes} nodes are available"
        if self.status is not None and self.status.plugin in _INDEPENDENT_OF_NODES:
            text = f"{self.status.reason}."
        elif self.status is not None:
            text = f"{head}: {self.status.reason}."
        elif self.total_nodes == 0:
            text = "no nodes available to schedule pods"
        else:
            parts = sorted(f"{item.nodes} {item.text}" for item in self.rejections)
            text = f"{head}: {', '.join(parts)}."
        return f"{text} {self.post_filter}" if self.post_filter else text
