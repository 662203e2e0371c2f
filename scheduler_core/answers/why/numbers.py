"""The numbers behind a waiting subject: what it asks of its quota, and how many of its pods fit the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from scheduler_core.engine.gang.capacity import capacity_limit
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.quota_obstacles import reading_of_charge
from scheduler_core.model.names import CAPACITY_SCHEDULING, PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.group_limits import Compared, RuleLine
from scheduler_core.quota.group_need import least
from scheduler_core.quota.ledger import charged
from scheduler_core.quota.policy import Refusal
from scheduler_core.simulate.world import Simulation


class QuotaNumbers(msgspec.Struct, frozen=True):
    """One resource that the subject asks of its quota, in the units of `model.quantity`.

    `asked` is what must start together asks for in all, `used` what its quota uses; `max` is None where the
    quota has none. The others are what the rules of admission compare: `own` with the max of the quota,
    `groups` with that of QuotaGroups above it, `total` with the sum of min; None where a rule does not limit
    the resource, or is not known.
    """

    resource: str
    asked: int
    used: int
    min: int
    max: int | None
    own: Compared | None = None
    groups: tuple[RuleLine, ...] = ()
    total: Compared | None = None

    @property
    def above_max(self) -> int:
        """By how much the subject exceeds the max of its quota; 0 where it does not."""
        return max(0, self.own.beyond) if self.own is not None else 0

    @property
    def above_sum(self) -> int:
        """By how much all quotas together exceed the sum of min with the subject; 0 where they do not."""
        return max(0, self.total.beyond) if self.total is not None else 0

    @property
    def refused(self) -> bool:
        """Whether a rule refuses the subject for this resource."""
        return bool(self.above_max or self.above_sum or any(line.numbers.beyond > 0 for line in self.groups))

    @property
    def above_min(self) -> bool:
        """Whether the subject borrows."""
        return self.used + self.asked > self.min


class QuotaAnswer(msgspec.Struct, frozen=True):
    """What quotas say to a subject: the numbers by resource, and their refusal, or None if they admit it.

    Where `numbers` is empty, no quota limits what is asked for. The refusal is unknown, and None, where only
    the own namespace is known.
    """

    numbers: tuple[QuotaNumbers, ...] = ()
    refusal: Refusal | None = None


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


def quota_answer(
    simulation: Simulation, pods: Sequence[Pod], need: int, *, all_known: bool = True
) -> QuotaAnswer:
    """What quotas say to the pods, as the scheduler reads it: per resource that they ask for and quotas name.

    Without `all_known` only the own quota is known, and there are no sums over all quotas.
    """
    profile, state = profile_of(simulation, pods), simulation.state
    quota = state.ledger.quota_of(pods[0].namespace) if pods else None
    if quota is None or profile is None or CAPACITY_SCHEDULING not in profile.enabled:
        return QuotaAnswer()
    charge = least(need, (charged(state.nodes.flavors.asked(pod)) for pod in pods))
    used = state.ledger.used(quota.namespace)
    reading = reading_of_charge(state, pods[0], charge)
    numbers = tuple(
        QuotaNumbers(
            name,
            asked,
            used.get(name, 0),
            quota.min.get(name, 0),
            quota.max.get(name),
            reading.own(name),
            reading.groups(name) if all_known else (),
            reading.total(name) if all_known else None,
        )
        for name, asked in sorted(charge.items())
        if asked > 0 and (name in quota.max or name in state.ledger.total_min or reading.groups(name))
    )
    return QuotaAnswer(numbers, reading.refusal if all_known else None)


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
