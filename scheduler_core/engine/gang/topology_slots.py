"""Counts how many members of a gang fit on every leaf of the tree, by all filters and requested resources."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.engine.gang.capacity import charges_of, held_by
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.scores.signature import signature
from scheduler_core.framework.nominations.nominated import Precedence, closed_by_anti_affinity
from scheduler_core.framework.nominations.spread_claims import closed_by_claims
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.obstacles import NOMINATED_PODS
from scheduler_core.framework.status import Code, Status
from scheduler_core.model.names import NODE_RESOURCES_FIT
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.tree import Tree

_RESOURCES: Final = NODE_RESOURCES_FIT
_NO_LIMIT: Final = np.iinfo(np.int64).max


class Slots(msgspec.Struct, frozen=True):
    """The nodes and requests from which `leaf_capacity` counts.

    nodes: int64 [leaves], slot of every leaf's node or -1. passes: bool [N], nodes that pass all filters
    except NodeResourcesFit. request: int64 [R], the largest request of the members per resource. mixed:
    whether the members' requests differ. ports: whether members use host ports, so that a node has room for
    one. room: int64 [R, N], requests of nominated pods that go first. refusing: plugins that refuse some
    node. refusal: a refusal of PreFilter that evictions might resolve.
    """

    nodes: Int64
    passes: Bool
    request: Int64
    mixed: bool
    ports: bool
    room: Int64
    refusing: frozenset[str]
    refusal: Status | None = None


def slots_for(
    cycle: PodCycle, tree: Tree | None, members: Sequence[tuple[Profile, Pod]], now: float
) -> Slots | Status:
    """The slots for the waiting members, or a refusal of PreFilter that no eviction can resolve.

    Without a tree there are no leaves: only `node_capacity` has an answer.
    """
    state = cycle.state
    size = state.nodes.size
    passes: Bool = state.nodes.alive[:size].copy()  # [N]
    vectors: list[Int64] = []
    refusing: set[str] = set()
    seen: set[object] = set()
    refusal: Status | None = None
    for profile, pod in members:
        like = signature(pod, labels_matter=False)
        if like in seen:
            continue
        seen.add(like)
        own = cycle.new_cycle(profile, pod, now)
        vectors.append(own.vector)
        status = cycle.pre_filter(profile, own)
        scores = cycle.scores_for(profile, own)
        status = status or scores.status
        if status is not None:
            if status.code is not Code.UNSCHEDULABLE:
                return status
            refusal = refusal or status
            refusing |= own.refused
        for closed in (closed_by_anti_affinity(state, pod), closed_by_claims(state, pod)):
            if closed is not None:
                passes &= ~closed
                refusing.add(NOMINATED_PODS)
        for name, bits in cycle.filter_bits(profile, own, scores).items():
            if bits.any():
                refusing.add(name)
            if name != _RESOURCES:
                passes &= bits == 0
    request: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    for vector in vectors:
        request[: len(vector)] = np.maximum(request[: len(vector)], vector)
    mixed = any(not np.array_equal(vectors[0], vector) for vector in vectors[1:])
    ports = any(pod.host_ports for _, pod in members)
    room = _room(state, members)
    leaves = state.topology.slots_of(tree) if tree is not None else np.zeros(0, dtype=np.int64)
    return Slots(leaves, passes, request, mixed, ports, room, frozenset(refusing), refusal)


def leaf_capacity(
    state: ClusterState, slots: Slots, without: Collection[str] = (), *, idle: bool = False
) -> Int64:
    """int64 [leaves]: members that fit without the pods `without` (uids), or without all pods (`idle`)."""
    gone: Bool | None = None
    if without and not idle:
        gone = np.zeros(state.table.size, dtype=np.bool_)  # [rows]
        gone[[state.placed[uid].row for uid in without]] = True
    return on_leaves(slots, node_capacity(state, slots, gone, idle=idle))


def on_leaves(slots: Slots, fits: Int64) -> Int64:
    """int64 [leaves] of int64 [N]; 0 for leaves without a node."""
    return np.where(slots.nodes >= 0, fits[slots.nodes], 0) if len(fits) else np.zeros_like(slots.nodes)


def node_capacity(
    state: ClusterState, slots: Slots, gone: Bool | None = None, *, idle: bool = False
) -> Int64:
    """int64 [N]: members that fit without the rows `gone` of the pod table, or without all pods (`idle`)."""
    nodes, size = state.nodes, state.nodes.size
    rows = np.flatnonzero(slots.request)
    free: Int64 = nodes.allocatable[rows][:, :size].copy()  # [k, N]
    if not idle:
        free -= nodes.requested[rows][:, :size] + slots.room[rows]
        if gone is not None:
            free += held_by(state, gone, rows)
    asked = slots.request[rows][:, None]
    fits = (np.maximum(free, 0) // asked).min(axis=0, initial=_NO_LIMIT)  # [N]
    if slots.ports:
        fits = np.minimum(fits, 1)
    return np.where(slots.passes, fits, 0)


def _room(state: ClusterState, members: Sequence[tuple[Profile, Pod]]) -> Int64:
    """int64 [R, N]: requests of nominated pods that go first, without the members themselves."""
    room: Int64 = np.zeros((len(state.index), state.nodes.size), dtype=np.int64)  # [R, N]
    # Nominated pods may go before a member without a node, and not before those that are nominated.
    nomination = state.nominations.get
    first = next((pod for _, pod in members if nomination(pod.uid) is None), members[0][1])
    together = charges_of(state, (pod for _, pod in members))
    precedence = Precedence(state, first, together)
    own = {pod.uid for _, pod in members}
    for item in state.nominations.others(first):
        slot = state.nodes.slot(item.node)
        if slot is not None and item.pod.uid not in own and precedence.nominee_goes_first(item):
            room[: len(item.vector), slot] += item.vector
    return room
