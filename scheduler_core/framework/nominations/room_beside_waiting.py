"""Whether a pod may take room that is free now, beside nominated pods that wait for leaving pods.

It may if it fits now beside nominated pods that do not wait, if all fit once all leaving pods are gone, and
if no waiting pod has to wait longer for it than for its own victims: pods end at different times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.nominations.nominated import Precedence, ahead_on
from scheduler_core.framework.nominations.waiting_nominations import (
    charge_of,
    has_room,
    on_their_way_out,
    requests_on,
    waiting_nominations,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import admit_charge
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination

# Most leaving pods whose ends are compared with those of a nominated pod's victims.
MOST_LEAVING: Final = 256


def leaves_room(state: ClusterState, pod: Pod, slot: int, vector: Int64) -> bool:
    """Whether a pod that fits a node now leaves nominated pods that go first what they need on it, and when.

    `vector` int64 [R] are its requests. Only resources that it requests are compared.
    """
    nodes, waiting, width = state.nodes, waiting_nominations(state).uids, len(vector)
    ahead = list(ahead_on(state, pod, nodes.names[slot]))
    asked = vector > 0
    free: Int64 = nodes.allocatable[:width, slot] - nodes.requested[:width, slot] - vector
    leaving = [uid for uid in nodes.pods[slot] if state.table.leaving[state.placed[uid].row]]
    now = free - _sum(ahead, width, without=waiting)
    afterwards = free + requests_on(state, slot, leaving, width) - _sum(ahead, width)
    if (now[asked] < 0).any() or (afterwards[asked] < 0).any():
        return False
    awaiting = [item for item in ahead if item.pod.uid in waiting and item.victims]
    return not any(_delays_on_node(state, item, free, vector, slot) for item in awaiting)


def _delays_on_node(state: ClusterState, item: Nomination, free: Int64, vector: Int64, slot: int) -> bool:
    """Whether a nominated pod would start once its victims are gone, but not beside the requests `vector`.

    `free` int64 [R] is what the node has beside these.
    """
    needs: Int64 = np.zeros_like(vector)  # [R]
    needs[: len(item.vector)] = item.vector[: len(vector)]
    gone = gone_with_victims(state, [item])
    left = free - needs + requests_on(state, slot, gone, len(vector))
    if (left[vector > 0] >= 0).all() or (left + vector < 0)[needs > 0].any():
        return False
    return _admitted_without(state, [item], gone, {})


def _sum(nominations: list[Nomination], width: int, without: frozenset[str] = frozenset()) -> Int64:
    """int64 [R]: what nominated pods request together, without some of them (uids)."""
    total: Int64 = np.zeros(width, dtype=np.int64)  # [R]
    for item in nominations:
        if item.pod.uid not in without:
            total[: len(item.vector)] += item.vector[:width]
    return total


def delays_by_quota(state: ClusterState, pod: Pod, charge: ResourceList) -> bool:
    """Whether a charge would keep waiting nominated pods that go first waiting for more than their victims.

    They would be admitted once their victims are gone, and with the charge they would not be.
    """
    if state.ledger.quota_of(pod.namespace) is None:
        return False
    for unit in _waiting_units(state, pod):
        gone = gone_with_victims(state, unit)
        if (
            _admitted_without(state, unit, gone, {})
            and not _admitted_without(state, unit, gone, {pod.namespace: charge})
            and all(has_room(state, item, gone) for item in unit)
        ):
            return True
    return False


def gone_with_victims(state: ClusterState, unit: Iterable[Nomination]) -> set[str]:
    """Leaving pods (uids) that are gone when the victims of nominated pods are: these, and who ends before.

    Of many leaving pods only the victims are known to be gone.
    """
    victims = {uid for item in unit for uid in on_their_way_out(state, item)}
    ends = [state.placed[uid].pod.deleted for uid in victims]
    leaving = state.table.leaving_pods()
    if None in ends or len(leaving) > MOST_LEAVING:
        return victims
    last = max((end for end in ends if end is not None), default=0.0)
    return victims | {pod.uid for pod in leaving if pod.deleted is not None and pod.deleted <= last}


def _waiting_units(state: ClusterState, pod: Pod) -> Iterator[list[Nomination]]:
    """Waiting nominated pods with victims that go before a pod; those that start together as one."""
    waiting, precedence = waiting_nominations(state), Precedence(state, pod)
    for rights in waiting.sums:
        items = state.nominations.with_rights(rights)
        for unit in [items] if rights.group else [[item] for item in items]:
            first = unit[0]
            if (
                first.pod.uid in waiting.uids
                and first.pod.uid != pod.uid
                and any(item.victims for item in unit)
                and precedence.nominee_goes_first_in_domain(first)
            ):
                yield unit


def _admitted_without(
    state: ClusterState, unit: list[Nomination], gone: set[str], beside: Mapping[str, ResourceList]
) -> bool:
    """Whether quotas admit nominated pods once some pods (uids) are gone, beside further use by namespace."""
    ledger = state.ledger
    namespace, asked = charge_of(unit)
    more = {name: dict(amounts) for name, amounts in beside.items()}
    total = dict[str, int]()
    for amounts in more.values():
        shift(total, amounts)
    ending: dict[str, dict[str, int]] = {}
    for victim in (state.placed[uid].pod for uid in gone):
        shift(ending.setdefault(victim.namespace, {}), charged(state.charge_of(victim)))
    for name, amounts in ending.items():
        shift(more.setdefault(name, {}), amounts, -1)
    shift(total, ledger.frees(ending), -1)
    return (
        admit_charge(
            ledger,
            namespace,
            asked,
            nominated=more.get(namespace, {}),
            nominated_total=total,
            nominated_by=more,
        )
        is None
    )
