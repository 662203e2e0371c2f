"""Nominated pods that wait for leaving pods: what they will need afterwards does not block others now.

A nominated pod *waits* while leaving pods hold its room: pods that it evicted, else any pod on its node; or
pods without which its quota would admit it. What is free today is of no use to it alone. So another pod may
start in this room if two questions have the answer yes: does it fit now, beside nominated pods that do not
wait; and will all of them fit once the leaving pods are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.model.names import PODS
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import admit_charge
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination, NominationRights


class WaitingNominations(NamedTuple):
    """Nominated pods (uids) that wait for leaving pods, and what they will be charged, by their rights."""

    uids: frozenset[str]
    sums: Mapping[NominationRights, ResourceList]


# No pod leaves, so that nobody waits for any.
NOBODY_LEAVES: Final = WaitingNominations(frozenset(), {})


def on_their_way_out(state: ClusterState, nomination: Nomination) -> set[str]:
    """Leaving pods (uids) that a nominated pod waits for, on any node.

    A nominated pod without victims waits for all leaving pods of its node.
    """
    slot = state.nodes.slot(nomination.node)
    expected = nomination.victims or (state.nodes.pods[slot] if slot is not None else ())
    return {uid for uid in expected if uid in state.placed and state.table.leaving[state.placed[uid].row]}


def waiting_nominations(state: ClusterState) -> WaitingNominations:
    """The nominated pods that wait now. A gang that was nominated as a whole waits as a whole.

    Kept in `Nominations.cache` while no nomination and no use changes.
    """
    nominations = state.nominations
    if not len(nominations):
        return NOBODY_LEAVES
    known = nominations.cache(state.ledger.version)
    found: WaitingNominations | None = known.get(WaitingNominations)
    if found is None:
        found = known[WaitingNominations] = _waiting(state)
    return found


def _waiting(state: ClusterState) -> WaitingNominations:
    size = state.table.size
    if not np.count_nonzero(state.table.leaving[:size] & state.table.alive[:size]):
        return NOBODY_LEAVES
    uids: set[str] = set()
    sums: dict[NominationRights, dict[str, int]] = {}
    for rights in state.nominations.sums:
        items = state.nominations.with_rights(rights)
        for unit in [items] if rights.group else [[item] for item in items]:
            if any(_waits_on_node(state, item) for item in unit) or _refused_now(state, unit):
                uids.update(item.pod.uid for item in unit)
                for item in unit:
                    shift(sums.setdefault(rights, {}), {**item.charge, PODS: 1})
    return WaitingNominations(frozenset(uids), sums)


def _waits_on_node(state: ClusterState, item: Nomination) -> bool:
    """Whether pods leave that a nominated pod evicted, or others on its node, which has no room for it."""
    if on_their_way_out(state, item):
        return True
    slot = state.nodes.slot(item.node)
    if slot is None or has_room(state, item):
        return False
    return any(state.table.leaving[state.placed[uid].row] for uid in state.nodes.pods[slot])


def _refused_now(state: ClusterState, unit: Iterable[Nomination]) -> bool:
    """Whether quotas refuse nominated pods that start together because of pods that leave."""
    namespace, charge = charge_of(unit)
    return (
        admit_charge(state.ledger, namespace, charge) is not None
        and admit_charge(state.ledger, namespace, charge, after_leaving=True) is None
    )


def has_room(state: ClusterState, nomination: Nomination, gone: Iterable[str] = ()) -> bool:
    """Whether the node of a nominated pod has room for it once some pods (uids) are gone; now, by default."""
    nodes, slot, vector = state.nodes, state.nodes.slot(nomination.node), nomination.vector
    if slot is None:
        return False
    free = nodes.allocatable[: len(vector), slot] - nodes.requested[: len(vector), slot]
    free = free + requests_on(state, slot, gone, len(vector))
    return not ((vector > free) & (vector > 0)).any()


def have_room(state: ClusterState, nominations: Iterable[Nomination]) -> bool:
    """Whether their nodes have room for all of these nominated pods together, now."""
    nodes, width = state.nodes, len(state.index)
    asked: dict[str, Int64] = {}
    for item in nominations:
        total = asked.setdefault(item.node, np.zeros(width, dtype=np.int64))  # [R]
        total[: len(item.vector)] += item.vector
    for node, total in asked.items():
        slot = nodes.slot(node)
        if slot is None:
            return False
        free = nodes.allocatable[:width, slot] - nodes.requested[:width, slot]
        if ((total > free) & (total > 0)).any():
            return False
    return True


def charge_of(unit: Iterable[Nomination]) -> tuple[str, dict[str, int]]:
    """(namespace, charge) of nominated pods that start together."""
    namespace, charge = "", dict[str, int]()
    for item in unit:
        namespace = item.pod.namespace
        shift(charge, charged(item.charge))
    return namespace, charge


def requests_on(state: ClusterState, slot: int, uids: Iterable[str], resources: int) -> Int64:
    """int64 [R]: what some placed pods request on one node; pods on other nodes do not count."""
    total: Int64 = np.zeros(resources, dtype=np.int64)  # [R]
    for uid in uids:
        item = state.placed[uid]
        if item.slot == slot:
            total[: len(item.vector)] += item.vector[:resources]
    return total
