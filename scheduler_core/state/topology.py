"""The cluster's current topology tree, and the outcome of the placement of each group.

A tree comes from the ConfigMap of the profile's namespace, else from node labels, else it is flat. A
ConfigMap with invalid text leaves the tree that was read before. Of several ConfigMaps the oldest is in
effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import LABEL_HOSTNAME, TOPOLOGY_CONSTRAINTS_ANNOTATION, TOPOLOGY_NAMESPACE
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.topology.constraints import Rules, parse_rules, resolve, single_domain
from scheduler_core.topology.question import Solver
from scheduler_core.topology.solvers import EXACT, SOLVERS
from scheduler_core.topology.tree import Tree, build, flat, from_labels

# Of so many trees the slots of the leaves are kept.
_MOST_SLOTS: Final = 16


class TopologySettings(msgspec.Struct, frozen=True):
    """Topology settings of a profile: the source of its tree, the time limit of a search, the solver.

    `seed_texts`: placement and ranks are written in the format of docs/topology.md#ranks-and-results.
    """

    namespace: str = TOPOLOGY_NAMESPACE
    labels: tuple[str, ...] = ()
    budget_seconds: float = 0.25
    solver: str = EXACT.name
    seed_texts: bool = False


class RepairReason(StrEnum):
    """What became of a running group that lost members (condition Repair)."""

    REPLACED = "ReplacedInDomain"
    WAITS = "WaitsForDomain"
    LACKS_QUOTA = "WaitsForQuota"
    RESTARTED = "Restarted"


class Repair(msgspec.Struct, frozen=True):
    """The last decision about a damaged group; `uids` are the members to evict for a restart."""

    reason: RepairReason
    message: str
    uids: frozenset[str] = frozenset()


class GroupRun(msgspec.Struct):
    """The outcome of the placement of one group. Times are seconds since the epoch.

    `begin`, `end` and `solver_seconds` belong to the placement of `starters` (uids). `begin` is None before
    the first trial, and if another process placed the group. While `replacing`, members are placed beside
    running ones, which changes none of these. `came` is when the first member of the last trial was seen.
    `trials` counts attempts per waiting member by uid, `ranks` are those of placed members. `idle` is the
    tree with the number of members that fit on each leaf of an idle cluster, int64 [leaves], at the last
    placement; it is kept until `best_hops`, the hop cost of the best placement there, is computed. `repair`
    is what was decided about members that went missing. `everywhere`: what `reason` tells would hold without
    the constraints too, as it is with the quota.
    """

    begin: float | None = None
    end: float | None = None
    solver_seconds: float = 0.0
    starters: frozenset[str] = frozenset()
    came: float | None = None
    replacing: bool = False
    optimal: bool = True
    mixed: bool = False
    reason: str = ""
    everywhere: bool = False
    trials: Counter[str] = msgspec.field(default_factory=Counter)
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    idle: tuple[Tree, Int64] | None = None
    best_hops: int | None = None
    repair: Repair | None = None


class Domain(msgspec.Struct, frozen=True):
    """The nodes with one value of a node label; `number` is the value's id in the column of the label."""

    key: str
    value: str
    number: int


class TopologyTable:
    """Topology ConfigMaps, the trees made of them, and the runs of groups by the gang's key.

    `settings` are those of the profiles by scheduler name, `solvers` are the solvers by name, `unreported`
    are invalid ConfigMaps that were not reported yet. `chosen` is the domain, by the gang's key, outside of
    which members of a native group with a topology key fit no node; every attempt of a group sets it anew.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.settings: dict[str, TopologySettings] = {}
        self.solvers: Mapping[str, Solver] = SOLVERS
        self.unreported: list[ConfigMap] = []
        self.runs: dict[str, GroupRun] = {}
        self.chosen: dict[str, Domain] = {}
        self._good: dict[str, ConfigMap] = {}
        self._trees: dict[Hashable, tuple[object, Tree]] = {}
        # Trees of node labels, as of a position of the static changes.
        self._labelled: dict[tuple[str, ...], tuple[int, Tree]] = {}
        # The slots of the leaves of trees, by the layout of the slots.
        self._slots: dict[int, tuple[Tree, Int64]] = {}
        self._layout = -1

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces whose topology ConfigMaps are read, of the profiles that are set up."""
        return frozenset(item.namespace for item in self.settings.values()) | {TopologySettings().namespace}

    def put(self, found: ConfigMap) -> bool:
        """A topology ConfigMap was added or changed; returns True if the tree may have changed."""
        if found.fault is not None:
            self.unreported.append(found)
            return False
        old = self._good.get(found.key)
        self._good[found.key] = found
        return old is None or old.content != found.content

    def remove(self, gone: ConfigMap) -> bool:
        """A topology ConfigMap is gone; returns True if a tree came from it."""
        return self._good.pop(gone.key, None) is not None

    def source(self, namespace: str) -> ConfigMap | None:
        """The topology ConfigMap in effect in a namespace, in its last valid form."""
        there = [found for found in self._good.values() if found.namespace == namespace]
        return min(there, key=lambda found: (found.created, found.name), default=None)

    def tree(self, scheduler: str) -> Tree:
        """The tree of a profile."""
        settings = self.settings.get(scheduler, TopologySettings())
        source = self.source(settings.namespace)
        if source is not None:
            spec = source.content
            return self._cached(source.key, spec, lambda: build(spec.levels, spec.paths))
        if settings.labels:
            return self._by_labels(settings.labels)
        names = tuple(node.name for node in self._nodes.nodes if node is not None and node.allocatable)
        return self._cached("", names, lambda: flat(names))

    def tree_of(self, gang: Gang, scheduler: str) -> Tree:
        """The tree that a group is placed on: the profile's, or one of the native group's topology key."""
        if gang.topology_key and not gang.constraints and gang.group is None:
            return self._by_labels(tuple(dict.fromkeys((gang.topology_key, LABEL_HOSTNAME))))
        return self.tree(scheduler)

    def counts_slots(self, gang: Gang, schedulers: Iterable[str]) -> bool:
        """Whether members of these schedulers are placed by slots: each takes as much as the largest of them.

        Within a domain of a native group without further constraints, each takes what it requests.
        """
        return bool(gang.group or gang.constraints.strip()) and all(
            name in self.settings for name in schedulers
        )

    def slots_of(self, tree: Tree) -> Int64:
        """int64 [leaves]: the slot of every leaf's node, -1 for leaves without a node. Read only."""
        if self._layout != self._nodes.layout:
            self._layout = self._nodes.layout
            self._slots.clear()
        known = self._slots.get(id(tree))
        if known is None or known[0] is not tree:
            found = (self._nodes.slot(name) for name in tree.leaves)
            slots = np.array([-1 if slot is None else slot for slot in found], dtype=np.int64)
            slots.flags.writeable = False
            if len(self._slots) >= _MOST_SLOTS:
                self._slots.clear()
            known = self._slots[id(tree)] = (tree, slots)
        return known[1]

    def _by_labels(self, keys: tuple[str, ...]) -> Tree:
        known, position = self._labelled.get(keys), self._nodes.static_changes.position
        if known is None or known[0] != position:
            labels = {
                node.name: node.labels for node in self._nodes.nodes if node is not None and node.allocatable
            }
            version = tuple((name, *map(values.get, keys)) for name, values in labels.items())
            tree = self._cached(keys, version, lambda: from_labels(labels, keys)[0])
            known = self._labelled[keys] = (position, tree)
        return known[1]

    def _cached(self, key: Hashable, version: object, make: Callable[[], Tree]) -> Tree:
        known = self._trees.get(key)
        if known is None or known[0] != version:
            known = self._trees[key] = (version, make())
        return known[1]


def rules_of(gang: Gang, tree: Tree) -> Rules:
    """The placement rules of a group on a tree. Raises ModelError with what is wrong with them."""
    kind = "ConfigMap" if gang.ref.dialect == "ConfigMap" else "PodGroup"
    try:
        if gang.group is not None:
            return resolve(tree.levels, gang.group.constraints, "data.constraints")
        if gang.constraints:
            path = f"metadata.annotations[{TOPOLOGY_CONSTRAINTS_ANNOTATION}]"
            return parse_rules(tree.levels, gang.constraints, path)
    except ModelError as error:
        raise error.within(kind, gang.ref.namespace, gang.ref.name, gang.uid) from None
    return single_domain(tree.levels, gang.topology_key) if gang.topology_key else resolve(tree.levels, ())


def is_constrained(gang: Gang) -> bool:
    """Whether a group is placed on the topology: ConfigMap groups, and PodGroups with constraints."""
    return gang.ref.dialect == "ConfigMap" or bool(gang.constraints.strip() or gang.topology_key)
