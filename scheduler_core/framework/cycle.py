"""One scheduling cycle: the pod, the state it is decided on, the time, and what plugins leave each other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState

if TYPE_CHECKING:
    from scheduler_core.framework.agenda import Agenda


class Cycle(msgspec.Struct, eq=False):
    """Data of one attempt. `slots` belongs to the plugins, keyed by plugin name.

    `vector` is the pod's requests, int64 [R], one of `pods` included. `calling` is the plugin and the point
    that run now, so that broken code can be named. `enabled` are the profile's plugins, `signature` is what
    the pod shares with equal pods; `agenda` says, from PreFilter on, who has anything to do for the pod.
    `refused` are the plugins whose PreFilter refused the pod.
    `evaluation` is there for PostFilter, and while it looks again `after_leaving` says that pods on their
    way out do not count any more. For room on the `spared` slots nobody is to be evicted.
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
    spared: frozenset[int] = frozenset()
    agenda: Agenda | None = None
