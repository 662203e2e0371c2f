"""CapacityScheduling: admits pods by elastic quotas, and reclaims what other quotas borrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import msgspec
import numpy as np

from scheduler_core.arrays.types import Bool
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.interface import Plugin, PostFilterResult
from scheduler_core.framework.preemption.candidates import admits_all
from scheduler_core.framework.preemption.demand import Demand, demands_in_order, quota_demands
from scheduler_core.framework.preemption.eligibility import must_wait, not_eligible, refused
from scheduler_core.framework.preemption.fair_demand import (
    comes_of_age,
    fair_demand,
    why_no_fair_move,
)
from scheduler_core.framework.preemption.group_loans import keeps_guarantees
from scheduler_core.framework.preemption.search import VictimSearch
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.quota_obstacles import beside_own_quota, own_quota_hints, refusal_of
from scheduler_core.framework.queueing.widest_victims import no_possible_victims
from scheduler_core.framework.status import SUCCESS, Code, Diagnosis, Status, unresolvable, unschedulable
from scheduler_core.model.names import (
    ALL_RESOURCES,
    CAPACITY_SCHEDULING,
    EVICTION_GRACE_LIMIT_SECONDS,
    Aggregate,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.borrowing import FIRST_COME_FIRST_SERVED, Borrowing
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.flavors import charged_on
from scheduler_core.quota.ledger import charged
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind


class CapacityScheduling:
    """PreFilter by max and by the sum of min; PostFilter reclaims what other quotas borrow.

    The state itself charges and refunds use at Reserve. Without `cross_node` all victims are on one node
    (docs/quota.md#preemption). `aggregate` says how the sum of min is read, `borrowing` what holds among
    quotas that borrow, for the whole cluster: the ledger of the state takes both over. `companion` is the
    filter by flavors of nodes. `grace_limit`: seconds that a victim of another quota has to end at most;
    `hides_pods`: texts about evictions name no pods of other namespaces. Both for the whole cluster, too.
    """

    name = CAPACITY_SCHEDULING

    def __init__(
        self,
        cross_node: bool = True,
        aggregate: Aggregate = ALL_RESOURCES,
        borrowing: Borrowing = FIRST_COME_FIRST_SERVED,
        companion: Plugin | None = None,
        grace_limit: int = EVICTION_GRACE_LIMIT_SECONDS,
        *,
        hides_pods: bool = False,
    ) -> None:
        self.cross_node = cross_node
        self.aggregate: Aggregate = aggregate
        self.borrowing = borrowing
        self.companion = companion
        self.grace_limit = grace_limit
        self.hides_pods = hides_pods

    def pre_filter(self, cycle: Cycle) -> Status:
        """UNSCHEDULABLE with the typed refusal as detail: evictions may help.

        UNRESOLVABLE where the quota is held for a group: what evictions free is for the group first.
        """
        state, pod = cycle.state, cycle.pod
        refusal = refusal_of(state, pod, after_leaving=cycle.after_leaving)
        if refusal is None:
            return SUCCESS
        cycle.refused |= beside_own_quota(state, pod, refusal)
        return unresolvable(str(refusal)) if refusal.holder else unschedulable(str(refusal), refusal)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """SUCCESS with node and victims, or why no eviction helps; for pods under a quota only."""
        state, pod = cycle.state, cycle.pod
        quota = state.ledger.quota_of(pod.namespace)
        if quota is None:
            return PostFilterResult(refused("no quota").status)
        if diagnosis.status is not None and diagnosis.status.code is not Code.UNSCHEDULABLE:
            return refused("Preemption is not helpful for scheduling")
        reason = not_eligible(state, pod)
        if reason or cycle.evaluation is None:
            return must_wait(reason)
        result = refused("No preemption victims found for incoming pod")
        if not no_possible_victims(state, pod):
            waits: PostFilterResult | None = None
            for demand in _demands(state, pod, quota, cycle.now):
                # What each quota may lose is bounded beforehand, but pods that go together may exceed it.
                keeps = partial(keeps_guarantees, state, pod) if demand.borrowers is not None else admits_all
                search = VictimSearch(cycle, cycle.evaluation, demand, keeps)
                result = search.run(across_nodes=self.cross_node)
                if result.status.ok:
                    return result
                if search.any_refused and (state.nodes.flavors or state.ledger.tree):
                    whose = "quota its min of each flavor" if state.nodes.flavors else "QuotaGroup its min"
                    result = refused(f"No set of victims leaves every {whose}")
                elif later := comes_of_age(demand):
                    waits = msgspec.structs.replace(refused(later), due=demand.until)
            result = waits or result
        return self._move_fairly(cycle, cycle.evaluation, quota) or result

    def _move_fairly(
        self, cycle: Cycle, evaluation: Evaluation, quota: ElasticQuota
    ) -> PostFilterResult | None:
        """The fair move for a pod that would borrow; None if it needs none, or is one of a gang."""
        state, pod = cycle.state, cycle.pod
        why: PostFilterResult | None = None
        for asked, nodes in charges_by_nodes(state, pod) if cycle.alone else ():
            found = fair_demand(state, pod, quota, charged(asked), cycle.now)
            if found is None:
                continue
            for demand in found.turns(state.table):
                there = msgspec.structs.replace(demand, nodes=nodes)
                result = VictimSearch(cycle, evaluation, there).run(across_nodes=self.cross_node)
                if result.status.ok:
                    return msgspec.structs.replace(result, fair=True)
            if why is None:
                refusal = refused(why_no_fair_move(state, found))
                why = msgspec.structs.replace(refusal, due=found.demand.until)
        return why

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """The state charges the ledger when it assumes the pod; there is nothing to add."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """The state refunds when it forgets the pod."""

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Events of the pod's own quota."""
        return own_quota_hints()


def _demands(state: ClusterState, pod: Pod, quota: ElasticQuota, now: float) -> Iterator[Demand]:
    """The demands of a pod to try in order: on nodes without a flavor, and then on those of each flavor.

    What the pod may claim of other quotas on some nodes goes before pods of its own quota on others.
    """
    places = charges_by_nodes(state, pod)
    for claims in (True, False) if len(places) > 1 else (None,):
        for asked, nodes in places:
            for found in quota_demands(state, pod, quota, now, charged(asked)):
                if claims not in (None, found.borrowers is not None):
                    continue
                for turn in demands_in_order(state.table, found):
                    yield turn if nodes is None else msgspec.structs.replace(turn, nodes=nodes)


def charges_by_nodes(state: ClusterState, pod: Pod) -> list[tuple[ResourceList, Bool | None]]:
    """What a pod is charged, and on which nodes (bool [N], None for all): by the flavors of the nodes."""
    flavors = state.nodes.flavors
    asked, size = flavors.asked(pod), state.nodes.size
    if asked is not pod.requests or not flavors.asked_by(pod.requests):
        return [(asked, None)]
    plain: Bool = np.ones(size, dtype=np.bool_)  # [N]
    found: list[tuple[ResourceList, Bool | None]] = []
    for flavor in flavors.asked_by(pod.requests):
        mask = flavors.mask(flavor.virtual, size)
        plain &= ~mask
        if mask.any():
            found.append((charged_on(pod.requests, ((flavor.resource, flavor.virtual),)), mask))
    return [(asked, plain), *found] if plain.any() else found
