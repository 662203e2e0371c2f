"""The data of one scheduling cycle: the pod, the state, the time, and what plugins store for each other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState


class Cycle(msgspec.Struct, eq=False):
    """Data of one attempt. `slots` belongs to the plugins, keyed by plugin name.

    `vector` is the pod's requests, int64 [R], one of `pods` included. `calling` is the plugin and the point
    that run now, so that broken code can be named. `enabled` are the profile's plugins, `signature` is what
    the pod shares with equal pods. `idle` are the plugins that have nothing to do for the pod; None before
    PreFilter. `refused` are the plugins whose PreFilter refused the pod. `evaluation` is set for PostFilter;
    while it runs the filters again, `after_leaving` says that leaving pods do not count. Preemption must not
    choose victims on the slots in `excluded_slots`. Without `alone` the pod is one of a gang that is decided
    as a whole: then no fair move is made for it.
    """

    state: ClusterState
    pod: Pod
    vector: Int64
    now: float
    profile: str
    enabled: frozenset[str] = frozenset()
    signature: Hashable = None
    slots: dict[str, Any] = msgspec.field(default_factory=dict)
    skipped: set[str] = msgspec.field(default_factory=set)
    refused: set[str] = msgspec.field(default_factory=set)
    calling: tuple[str, str] = ("", "")
    evaluation: Evaluation | None = None
    after_leaving: bool = False
    excluded_slots: frozenset[int] = frozenset()
    idle: frozenset[str] | None = None
    alone: bool = True
