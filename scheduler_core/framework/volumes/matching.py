"""Matches unbound claims of a pod with existing volumes, on all nodes at once.

Kubernetes looks at every volume for every node. Here the volumes of a claim are sorted by size once. Volumes
tied to one label value (local disks, zones) are looked up through the label's column, the others by their
distinct node affinities, of which there are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.framework.matching import match_any
from scheduler_core.framework.view import NodeView
from scheduler_core.model.selectors import NodeTerm
from scheduler_core.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler_core.state.volumes.storage import Storage
from scheduler_core.state.volumes.volume_table import VolumeTable

NONE: Final = -1
_BEYOND: Final = np.iinfo(np.int64).max


def allowed_by(nodes: NodeView, terms: Sequence[NodeTerm] | None) -> Bool:
    """bool [M]: nodes that one of the terms allows; None allows all."""
    return np.ones(len(nodes), dtype=np.bool_) if terms is None else match_any(nodes, terms)


def match_claims(storage: Storage, nodes: NodeView, claims: Sequence[PersistentVolumeClaim]) -> Int64:
    """int64 [claims, M]: row of the volume for each claim on each node, NONE where there is none.

    As in kube-scheduler: smaller claims choose first; a volume reserved for a claim is the only choice; else
    the smallest that fits and no other claim of the pod has taken on that node.
    """
    chosen: Int64 = np.full((len(claims), len(nodes)), NONE, dtype=np.int64)  # [claims, M]
    done: list[int] = []
    for number in sorted(range(len(claims)), key=lambda n: (claims[n].request, n)):
        claim = claims[number]
        reserved = _reserved(storage, claim)
        if reserved is not None:
            row = storage.table.row(reserved.name)
            chosen[number] = np.where(allowed_by(nodes, reserved.terms), NONE if row is None else row, NONE)
        else:
            rows = storage.table.candidates(claim)
            if len(rows):
                chosen[number] = _smallest(storage.table, nodes, rows, chosen[done])
        done.append(number)
    return chosen


def _reserved(storage: Storage, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume set aside for a claim, if it is large enough and of the right mode."""
    for volume in storage.reserved_for(claim):
        fits = volume.capacity >= claim.request and volume.volume_mode == claim.volume_mode
        if fits and not volume.deleting:
            return volume
    return None


def _smallest(table: VolumeTable, nodes: NodeView, rows: NDArray[np.int64], taken: Int64) -> Int64:
    """int64 [M]: first of `rows` that reaches each node and is not in `taken` [k, M]; NONE for none."""
    layers = np.stack(_ranks(table, nodes, rows, len(taken) + 1))  # [layers, M]
    layers.sort(axis=0)
    out: Int64 = np.full(len(nodes), NONE, dtype=np.int64)  # [M]
    for layer in layers:
        there = layer != _BEYOND
        candidate = np.where(there, rows[np.where(there, layer, 0)], NONE)
        free = there & (out == NONE) & ~(taken == candidate).any(axis=0)
        out[free] = candidate[free]
    return out


def _ranks(table: VolumeTable, nodes: NodeView, rows: NDArray[np.int64], count: int) -> list[Int64]:
    """The lowest `count` positions in `rows` per node and sort of affinity: int64 [M] each."""
    layers: list[Int64] = []
    keys = table.key[rows]
    for key in np.flatnonzero(np.bincount(keys[keys >= 0])):
        layers += _by_label(table, nodes, rows, np.flatnonzero(keys == key), count)
    anywhere = np.flatnonzero(keys < 0)
    groups = table.group[rows[anywhere]]
    for group in np.unique(groups):
        mask = allowed_by(nodes, table.groups.values[int(group)])
        for position in anywhere[groups == group][:count]:
            layers.append(np.where(mask, position, _BEYOND))
    return layers


def _by_label(
    table: VolumeTable, nodes: NodeView, rows: NDArray[np.int64], positions: NDArray[np.int64], count: int
) -> list[Int64]:
    """Ranks of volumes that one label ties to one value each; `positions` (ascending) are into `rows`."""
    key = table.keys.values[int(table.key[rows[positions[0]]])]
    ids = nodes.label(key)
    values = table.value[rows[positions]]
    size = len(nodes.table.column(key).values)
    if count == 1:
        # Written backwards, so that of several volumes with one value the first stays.
        return [_looked_up(size, values[::-1], positions[::-1], ids)]
    order = np.lexsort((positions, values))
    values, positions = values[order], positions[order]
    starts = np.searchsorted(values, values)
    place = np.arange(len(values)) - starts  # how many of the same value come before
    return [_looked_up(size, values[place == k], positions[place == k], ids) for k in range(count)]


def _looked_up(size: int, values: Int32, positions: NDArray[np.int64], ids: Int32) -> Int64:
    """int64 [M]: the position written for each node's value; nodes without the label read the extra last."""
    best: Int64 = np.full(size + 1, _BEYOND, dtype=np.int64)  # [values + 1]
    best[values] = positions
    found: Int64 = best[ids]
    return found
