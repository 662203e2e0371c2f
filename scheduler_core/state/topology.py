"""The cluster's topology tree as it is now, and how the placement of each group went.

A tree comes from the ConfigMap of the profile's namespace, else from node labels, else it is flat. A
ConfigMap whose text is faulty leaves the tree that was read before. Of several the oldest counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.gang import Gang
from scheduler_core.model.names import LABEL_HOSTNAME, TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.state.nodes import NodeTable
from scheduler_core.topology.constraints import Rules, parse_rules, resolve, single_domain
from scheduler_core.topology.question import Solver
from scheduler_core.topology.solvers import EXACT, SOLVERS
from scheduler_core.topology.tree import Tree, build, flat, from_labels


class TopologySettings(msgspec.Struct, frozen=True):
    """Where a profile's tree comes from, how many seconds a search may take, and which solver searches.

    `seed_texts`: placement and ranks are written as the topology seed draws them.
    """

    namespace: str = "default"
    labels: tuple[str, ...] = ()
    budget_seconds: float = 0.25
    solver: str = EXACT.name
    seed_texts: bool = False


class GroupRun(msgspec.Struct):
    """How the placement of one group went. Times are seconds since the epoch.

    `begin`, `end` and `solver_seconds` are of the placement of `starters` (uids); `begin` is None before the
    first trial, and where another process placed the group, of whose times this one says nothing. While
    `replacing`, members are placed beside others that run, which changes none of them. `came` is when the
    first of those who were tried last was seen.
    `trials` counts attempts per waiting member by uid, `ranks` those of placed members. `idle` is the
    tree with how many members fit on each leaf of an idle cluster, int64 [leaves], when the group was placed
    last, until somebody works out `best_hops`, the hop cost of the best placement there.
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
    trials: Counter[str] = msgspec.field(default_factory=Counter)
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    idle: tuple[Tree, Int64] | None = None
    best_hops: int | None = None


class TopologyTable:
    """Topology ConfigMaps, the trees made of them, and the runs of groups by the gang's key.

    `settings` are those of the profiles by scheduler name, `solvers` who may search, by name; `unreported`
    are faulty ConfigMaps of which nobody was told yet.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self.settings: dict[str, TopologySettings] = {}
        self.solvers: Mapping[str, Solver] = SOLVERS
        self.unreported: list[ConfigMap] = []
        self.runs: dict[str, GroupRun] = {}
        self._good: dict[str, ConfigMap] = {}
        self._trees: dict[Hashable, tuple[object, Tree]] = {}

    def put(self, found: ConfigMap) -> bool:
        """A topology ConfigMap came or changed; whether the tree may be another one now."""
        if found.fault is not None:
            self.unreported.append(found)
            return False
        old = self._good.get(found.key)
        self._good[found.key] = found
        return old is None or old.content != found.content

    def remove(self, gone: ConfigMap) -> bool:
        """A topology ConfigMap is gone; whether it had given a tree."""
        return self._good.pop(gone.key, None) is not None

    def source(self, namespace: str) -> ConfigMap | None:
        """The topology ConfigMap that counts in a namespace, in its last good form."""
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

    def _by_labels(self, keys: tuple[str, ...]) -> Tree:
        labels = {
            node.name: node.labels for node in self._nodes.nodes if node is not None and node.allocatable
        }
        version = tuple((name, *map(values.get, keys)) for name, values in labels.items())
        return self._cached(keys, version, lambda: from_labels(labels, keys)[0])

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
    """Whether a group is placed on the topology: every ConfigMap group, a PodGroup that says where."""
    return gang.ref.dialect == "ConfigMap" or bool(gang.constraints.strip() or gang.topology_key)
