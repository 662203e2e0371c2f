"""Validates the constraints of a group against the topologies of the cluster, for the webhook and `lint`.

A cluster without a topology ConfigMap has a flat tree, or one of node labels (`topologyLabels` of the
scheduler's configuration, which is not known here). Nodes come and go, so there only the size counts: units
are as many as could be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.topology import LARGEST_SIZE, LevelConstraint, TopologySpec
from scheduler_core.topology.constraints import LevelRule, Rules, resolve
from scheduler_core.topology.feasibility import check
from scheduler_core.topology.tree import FLAT_LEVEL, HOSTNAME_LABEL, Tree, build

FLAT = "the flat topology of a cluster without a topology ConfigMap"


class TopologyRequest(msgspec.Struct, frozen=True):
    """The topology constraints of a group of `size` pods, and the field that has them, for messages."""

    constraints: Sequence[LevelConstraint]
    size: int
    field: str


def refusals(
    request: TopologyRequest,
    topologies: Sequence[tuple[str, TopologySpec]],
    labels: Callable[[], Collection[str]] = frozenset,
) -> tuple[str, ...]:
    """The reasons why no topology (name and content) can satisfy a request; empty if one can.

    One text for each topology. `labels` returns the keys of the nodes' labels: without a topology, each of
    them may be a level.
    """
    if not request.constraints:
        return ()
    if request.size > LARGEST_SIZE:  # PodGroups may be of any size; what follows grows with it
        return (
            f"the size {request.size} exceeds {LARGEST_SIZE}, the most that a topology places as one group",
        )
    if not topologies:
        text = _without_topology(request, labels)
        return (f"{text}, on {FLAT}",) if text else ()
    found: list[str] = []
    for name, spec in topologies:
        text = _conflict(spec, request)
        if not text:
            return ()
        found.append(f"{text}, on the topology of ConfigMap {name}")
    return tuple(found)


def _conflict(spec: TopologySpec, request: TopologyRequest) -> str:
    """The reason why a tree can never satisfy a request, or empty."""
    rules = _rules(spec.levels, request)
    return rules if isinstance(rules, str) else _checked(_tree(spec.levels, spec.paths), rules, request.size)


def _without_topology(request: TopologyRequest, labels: Callable[[], Collection[str]]) -> str:
    """The reason why neither a flat tree nor a tree of node labels can satisfy a request, or empty."""
    asked = [constraint.level for constraint in request.constraints]
    levels: tuple[str, ...] = (FLAT_LEVEL,)
    if set(asked) != {FLAT_LEVEL}:
        known = {FLAT_LEVEL, HOSTNAME_LABEL, *labels()}
        levels = tuple(dict.fromkeys([*(level for level in asked if level in known), FLAT_LEVEL]))
    rules = _rules(levels, request)
    if isinstance(rules, str):
        return rules
    # On a level below the highest, partitions count per parent, so the total may be any number.
    whole = rules if len(rules) == 1 else map(_of_every_parent, rules)
    texts = (_checked(_wide(rule, request.size), (rule,), request.size) for rule in whole)
    return next(filter(None, texts), "")


def _rules(levels: Sequence[str], request: TopologyRequest) -> Rules | str:
    """The rules, or what is wrong with a level."""
    try:
        return resolve(levels, request.constraints, request.field)
    except ModelError as error:
        return f"{error.path.removeprefix(f'{request.field}.')} {error.problem}"


def _checked(tree: Tree, rules: Rules, size: int) -> str:
    return "; ".join(conflict.text for conflict in check(tree, rules, size))


def _of_every_parent(rule: LevelRule) -> LevelRule:
    return rule.keeping([term for term in rule.terms if term.field not in ("partitions", "hard")])


def _wide(rule: LevelRule, size: int) -> Tree:
    """One level with as many units as a group could need on it."""
    most = rule.highest(size) or max(1, min(rule.max or size, size))
    return flat_tree(min(size, max(rule.partitions or 1, -(-size // most))))


@lru_cache(maxsize=4)
def flat_tree(units: int) -> Tree:
    """One tree for levels of every name: a group may name many, and building takes longest."""
    return build((FLAT_LEVEL,), ((str(unit),) for unit in range(units)))


@lru_cache(maxsize=4)
def _tree(levels: tuple[str, ...], paths: tuple[tuple[str, ...], ...]) -> Tree:
    """A tree is the same for every group that is held against it, and takes longer to build than to ask."""
    return build(levels, paths)
