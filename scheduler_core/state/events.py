"""What happened in the cluster, in the terms in which plugins say what may help a waiting pod."""

from __future__ import annotations

from enum import Flag, auto
from typing import Any

import msgspec

from scheduler_core.model.gang import group_of
from scheduler_core.model.node import Node
from scheduler_core.model.pod import Pod


class Happened(Flag):
    """Kinds of cluster events; a plugin registers for a union of them.

    POD_ADD: a pod holds a node now, by our own decision or somebody else's. POD_LEAVING: a pod that holds one
    is on its way out. NOMINATION: room that was kept for a waiting pod is free. LOAN: a quota uses more of
    something than its min, and more than before.
    """

    NODE_ADD = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_DELETE = auto()
    POD_ADD = auto()
    POD_UPDATE = auto()
    POD_DELETE = auto()
    POD_LEAVING = auto()
    NOMINATION = auto()
    QUOTA = auto()
    LOAN = auto()
    GROUP = auto()
    VOLUME = auto()
    NODE_METRIC = auto()
    TOPOLOGY = auto()
    OTHER = auto()

    def meets(self, others: Happened) -> bool:
        """Whether it is one of some kinds. As `&`, in a tenth of the time: hints ask for every event."""
        return bool(self._value_ & others._value_)

    @classmethod
    def anything(cls) -> Happened:
        """Every kind."""
        return ~cls(0)

    @classmethod
    def node_update(cls) -> Happened:
        """Any change of an existing node."""
        return cls.NODE_ALLOCATABLE | cls.NODE_LABELS | cls.NODE_TAINTS


class ClusterEvent(msgspec.Struct, frozen=True):
    """One event. `pod` is an assigned pod that came, changed or went; `node` the new form of a node.

    `namespace` is that of the quota or group concerned, empty where it could be any; `group` is the key of
    the group, where it is one. `obj` is the new form of an object of another kind (claims, volumes), None
    where it is gone.
    """

    what: Happened
    node: Node | None = None
    old_node: Node | None = None
    pod: Pod | None = None
    namespace: str = ""
    group: str = ""
    obj: Any = None

    @property
    def cause(self) -> str:
        """Its first kind in the manner of kube-scheduler: `NodeAdd`, `PodDelete`."""
        first = (self.what.name or "").partition("|")[0]
        return "".join(word.capitalize() for word in first.split("_"))


def ended_without_node(pod: Pod, old: Pod | None) -> list[ClusterEvent]:
    """A pod that holds no node finished, which its group counts, or is on its way out."""
    if pod.finished:
        new = old is None or not old.finished
        return [ClusterEvent(Happened.GROUP, pod=pod)] if new and group_of(pod) is not None else []
    return [ClusterEvent(Happened.OTHER, pod=pod)] if old is not None and not old.terminating else []


def node_changed(node: Node, old: Node | None) -> list[ClusterEvent]:
    """What a node that came, or is not as it was, may be to those who wait."""
    if old is None:
        return [ClusterEvent(Happened.NODE_ADD, node=node)]
    what = Happened(0)
    if old.allocatable != node.allocatable:
        what |= Happened.NODE_ALLOCATABLE
    if old.labels != node.labels or old.annotations != node.annotations:
        what |= Happened.NODE_LABELS
    if old.taints != node.taints or old.unschedulable != node.unschedulable:
        what |= Happened.NODE_TAINTS
    return [ClusterEvent(what, node=node, old_node=old)] if what else []
