"""Detection of pods of our profiles that another client bound, and that took their quota above its max.

The last binding of an earlier leader may become visible late. So only pods count that were created while this
process led, and of which no binding by this process may be in flight.
"""

from __future__ import annotations

import logging

from scheduler_core.engine.decisions import Noticed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.logs import fields
from scheduler_core.model.names import EVENT_RULE_BROKEN
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.ledger import charged
from scheduler_core.quota.policy import above_max_text
from scheduler_core.state.cluster import ClusterState

log = logging.getLogger(__name__)


class ExternalBindings:
    """Tracks pods of our profiles from their creation to their binding, by uid."""

    def __init__(self) -> None:
        self._ours: set[str] = set()

    def __len__(self) -> int:
        return len(self._ours)

    def forget(self, uid: str) -> None:
        """The pod is gone, or the outcome of our binding is unknown."""
        self._ours.discard(uid)

    def put(self, scheduler: Scheduler, pod: Pod, now: float, *, leads: bool) -> Noticed | None:
        """Pass a pod to the scheduler; returns a notice if another client bound the pod above the quota's
        max.
        """
        state = scheduler.state
        strange = pod.assigned and pod.uid in self._ours and pod.uid not in state.placed
        if pod.assigned:
            self._ours.discard(pod.uid)
        elif leads and pod.uid not in state.pods and pod.scheduler_name in scheduler.profiles:
            self._ours.add(pod.uid)
        scheduler.put(pod, now)
        notice = _rule_broken(state, pod) if strange else None
        if notice is not None:
            log.warning("rule broken: %s", notice.message, extra=fields(pod=pod.key))
        return notice


def _rule_broken(state: ClusterState, pod: Pod) -> Noticed | None:
    """The notice about a pod that another client bound; None where its quota is within max."""
    quota = state.ledger.quota_of(pod.namespace)
    if quota is None:
        return None
    asked = {name for name, value in charged(pod.requests).items() if value}
    uses = above_max_text(state.ledger, quota, asked)
    if not uses:
        return None
    message = (
        f"bound to node {pod.node_name} by a client other than {pod.scheduler_name}; "
        f"ElasticQuota {quota.key} now {uses}"
    )
    about = (pod.namespace, pod.name, pod.uid)
    return Noticed("v1", "Pod", *about, pod.scheduler_name, EVENT_RULE_BROKEN, message)
