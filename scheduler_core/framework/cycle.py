"""One scheduling cycle: the pod, the state it is decided on, the time, and what plugins leave each other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState

if TYPE_CHECKING:
    from scheduler_core.framework.agenda import Agenda


class Cycle:
    """Data of one attempt. `slots` belongs to the plugins, keyed by plugin name.

    `vector` is the pod's requests, int64 [R], one of `pods` included. `calling` is the plugin and the point
    that run now, so that broken code can be named. `enabled` are the profile's plugins; `evaluation` is there
    for PostFilter, and while it looks again `after_leaving` says that pods on their way out do not count any
    more; `signature` is what the pod shares with equal pods. `agenda` says which plugins have anything to do
    for the pod, from PreFilter on.
    """

    __slots__ = (
        "after_leaving",
        "agenda",
        "calling",
        "enabled",
        "evaluation",
        "now",
        "pod",
        "profile",
        "signature",
        "skipped",
        "slots",
        "state",
        "vector",
    )

    def __init__(self, state: ClusterState, pod: Pod, vector: Int64, now: float, profile: str) -> None:
        self.state = state
        self.pod = pod
        self.vector = vector
        self.now = now
        self.profile = profile
        self.slots: dict[str, Any] = {}
        self.skipped: set[str] = set()
        self.calling = ("", "")
        self.enabled: frozenset[str] = frozenset()
        self.evaluation: Evaluation | None = None
        self.signature: Hashable = None
        self.after_leaving = False
        self.agenda: Agenda | None = None
