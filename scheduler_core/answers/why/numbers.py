"""The numbers behind a waiting subject: what it asks of its quota, and how many of its pods fit the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from scheduler_core.engine.gang.capacity import capacity_limit
from scheduler_core.framework.profile import Profile
from scheduler_core.model.names import CAPACITY_SCHEDULING, PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.aggregate import counts_guarantees, sum_limits
from scheduler_core.quota.group_need import least
from scheduler_core.quota.ledger import charged
from scheduler_core.simulate.world import Simulation


class QuotaNumbers(msgspec.Struct, frozen=True):
    """One resource that the subject asks of its quota, in the units of `model.quantity`.

    `asked` is what must start together asks for in all. `max` is None where the quota has none, `sum_min`
    where no quota names the resource in min; `in_use` is what all quotas use of it.
    """

    resource: str
    asked: int
    used: int
    min: int
    max: int | None
    in_use: int
    sum_min: int | None

    @property
    def above_max(self) -> bool:
        """Whether the subject exceeds the max of its quota."""
        return self.max is not None and self.used + self.asked > self.max

    @property
    def above_sum(self) -> bool:
        """Whether all quotas together exceed the sum of min with the subject."""
        return self.sum_min is not None and self.in_use + self.asked > self.sum_min

    @property
    def above_min(self) -> bool:
        """Whether the subject borrows."""
        return self.used + self.asked > self.min


class RoomNumbers(msgspec.Struct, frozen=True):
    """The room that nodes have for the pods of a subject.

    `now`: how many fit by their resources on the `open` nodes, which refuse them for no lasting reason;
    `fits`: how many do once terminating pods are gone; `emptied`: how many would if everybody whom they may
    evict was gone. `scarce` is the resource that limits them most: `free` is the largest amount of it on one
    node, `having` are the nodes with so much.
    """

    nodes: int
    open: int
    now: int
    fits: int
    emptied: int
    scarce: str
    free: int
    having: int


def profile_of(simulation: Simulation, pods: Sequence[Pod]) -> Profile | None:
    """The profile of the first pod; None if another scheduler schedules it."""
    return simulation.scheduler.profiles.get(pods[0].scheduler_name) if pods else None


def charge_of(pods: Iterable[Pod], need: int) -> dict[str, int]:
    """What `need` of the pods charge to their quota at least, resource by resource."""
    return least(need, (charged(pod.requests) for pod in pods))


def quota_numbers(
    simulation: Simulation, pods: Sequence[Pod], need: int, *, all_known: bool = True
) -> tuple[QuotaNumbers, ...]:
    """The numbers per resource that the pods ask for and quotas name, sorted; nothing without a quota.

    Without `all_known` only the own quota is known, and there are no sums over all quotas.
    """
    profile = profile_of(simulation, pods)
    ledger = simulation.state.ledger
    quota = ledger.quota_of(pods[0].namespace) if pods else None
    if quota is None or profile is None or CAPACITY_SCHEDULING not in profile.enabled:
        return ()
    charge = charge_of(pods, need)
    used = ledger.used(quota.namespace)
    sums = sum_limits(ledger, quota, charge)
    total = ledger.in_use(guaranteeing=counts_guarantees(ledger, quota, charge))
    return tuple(
        QuotaNumbers(
            name,
            asked,
            used.get(name, 0),
            quota.min.get(name, 0),
            quota.max.get(name),
            total.get(name, 0),
            sums.get(name) if all_known else None,
        )
        for name, asked in sorted(charge.items())
        if asked > 0 and (name in quota.max or name in ledger.total_min)
    )


def room_for(simulation: Simulation, pods: Sequence[Pod]) -> RoomNumbers | None:
    """The room for pods like the first one; None without a node or with another scheduler."""
    profile = profile_of(simulation, pods)
    nodes = simulation.state.nodes
    total = int(nodes.alive[: nodes.size].sum())
    if profile is None or not total:
        return None
    cycle, pod = simulation.scheduler.cycle, pods[0]
    at = simulation.now
    limit = capacity_limit(cycle, profile, pod, at)
    emptied = capacity_limit(cycle, profile, pod, at, evicting=True)
    ok = cycle.scores_for(profile, cycle.new_cycle(profile, pod, at)).static.ok  # [N]
    row = simulation.state.index.row(limit.scarce)
    if row is None:
        return None
    vector = simulation.state.vector(pod)
    asked = np.flatnonzero(vector)
    free = (nodes.allocatable[asked][:, : nodes.size] - nodes.requested[asked][:, : nodes.size])[:, ok]
    now = int((np.maximum(free, 0) // vector[asked][:, None]).min(axis=0).sum())
    scarce = (nodes.allocatable[row, : nodes.size] - nodes.requested[row, : nodes.size])[ok]
    most = max(int(scarce.max()), 0) if len(scarce) else 0
    having = int(np.count_nonzero(scarce == most)) if most else 0
    return RoomNumbers(total, int(ok.sum()), now, limit.fits, emptied.fits, limit.scarce, most, having)


def shown(resource: str, *, blocked: bool) -> bool:
    """Whether people want to see a resource: the count of pods only where it is in the way."""
    return blocked or resource != PODS
