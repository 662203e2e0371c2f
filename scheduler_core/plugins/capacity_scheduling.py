"""CapacityScheduling: elastic quotas decide whether a pod may be scheduled at all (reference, items 1-6)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Hint
from scheduler_core.framework.status import SUCCESS, Status, unschedulable
from scheduler_core.model.pod import Pod
from scheduler_core.quota.policy import admit
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened


class CapacityScheduling:
    """PreFilter by max and by the sum of min. Use is charged and refunded by the state itself at Reserve."""

    name = "CapacityScheduling"

    def pre_filter(self, cycle: Cycle) -> Status:
        """UNSCHEDULABLE with the typed refusal as detail: evictions may help."""
        refusal = admit(cycle.state.ledger, cycle.pod.namespace, cycle.pod.requests)
        return SUCCESS if refusal is None else unschedulable(str(refusal), refusal)

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """The state charges the ledger when it assumes the pod; there is nothing to add."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """The state refunds when it forgets the pod."""

    def hints(self) -> Mapping[Happened, Hint | None]:
        """Quota came free or changed."""
        return {Happened.QUOTA: None, Happened.POD_DELETE: _frees_quota}


def _frees_quota(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """A pod that ended counts for its own quota, and through the aggregate rule for every other."""
    return event.pod is None or state.ledger.quota_of(event.pod.namespace) is not None
