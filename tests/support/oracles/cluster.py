"""Spread and affinity between pods as Kubernetes states them, pod by pod and node by node, over raw objects.

Slow on purpose, and it shares no code with the scheduler. Filter answers are bit numbers as the plugins'
`reasons` list them: 0 fits, 1 the first reason, 2 the second, 4 the third.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Raw = Mapping[str, Any]
Labels = Mapping[str, str]
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SYSTEM = (
    {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
)


@dataclass
class World:
    """Raw objects by name, and where the placed pods are."""

    nodes: dict[str, Raw] = field(default_factory=dict)
    pods: dict[str, Raw] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)
    namespaces: dict[str, Labels] = field(default_factory=dict)

    def on(self, node: str) -> list[Raw]:
        return [self.pods[uid] for uid, at in self.placed.items() if at == node]


def labels(obj: Raw) -> Labels:
    return obj["metadata"].get("labels") or {}


def namespace(pod: Raw) -> str:
    return pod["metadata"]["namespace"]


def _expression(key: str, operator: str, values: Sequence[str], given: Labels) -> bool:
    if operator == "In":
        return key in given and given[key] in values
    if operator == "NotIn":
        return key not in given or given[key] not in values
    return (key in given) == (operator == "Exists")


def expressions(selector: Raw | None) -> list[tuple[str, str, list[str]]] | None:
    """(key, operator, values) of a label selector; None for an absent one, which selects nothing."""
    if selector is None:
        return None
    found = [(key, "In", [value]) for key, value in (selector.get("matchLabels") or {}).items()]
    return found + [
        (e["key"], e["operator"], e.get("values", [])) for e in selector.get("matchExpressions", ())
    ]


def matches(wanted: list[tuple[str, str, list[str]]] | None, given: Labels) -> bool:
    return wanted is not None and all(_expression(*one, given) for one in wanted)


# Which nodes a pod may use at all, for the policies of spread constraints


def _affinity_allows(pod: Raw, node: Raw) -> bool:
    spec, given = pod["spec"], labels(node)
    if any(given.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(
        term.get("matchExpressions") and matches(expressions(term), given)
        for term in required["nodeSelectorTerms"]
    )


def _tolerated(pod: Raw, node: Raw) -> bool:
    spec = node.get("spec", {})
    taints = list(spec.get("taints", ()))
    if spec.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    keys = {item["key"] for item in pod["spec"].get("tolerations", ())}
    return all(t["key"] in keys for t in taints if t["effect"] in ("NoSchedule", "NoExecute"))


def _included(constraint: Raw, pod: Raw, node: Raw) -> bool:
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not _affinity_allows(pod, node):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or _tolerated(pod, node)


# Topology spread


def constraints(pod: Raw, defaults: Sequence[Raw], action: str) -> list[Raw]:
    """Constraints of one action; defaults with the labels that a ReplicaSet gave the pod."""
    own = pod["spec"].get("topologySpreadConstraints")
    if own:
        return [item for item in own if item["whenUnsatisfiable"] == action]
    owners = pod["metadata"].get("ownerReferences", ())
    if not any(owner["kind"] == "ReplicaSet" for owner in owners) or not labels(pod):
        return []
    selector = {"matchLabels": dict(labels(pod))}
    return [{**item, "labelSelector": selector} for item in defaults if item["whenUnsatisfiable"] == action]


def spread_selector(constraint: Raw, pod: Raw) -> list[tuple[str, str, list[str]]] | None:
    wanted = expressions(constraint.get("labelSelector"))
    if wanted is None:
        return None
    own = labels(pod)
    return wanted + [(key, "In", [own[key]]) for key in constraint.get("matchLabelKeys", ()) if key in own]


def _count(world: World, node: str, constraint: Raw, pod: Raw) -> int:
    wanted = spread_selector(constraint, pod)
    if not wanted:
        return 0
    return sum(
        "deletionTimestamp" not in other["metadata"]
        and namespace(other) == namespace(pod)
        and matches(wanted, labels(other))
        for other in world.on(node)
    )


def spread_filter(world: World, pod: Raw, defaults: Sequence[Raw] = SYSTEM) -> dict[str, int]:
    """Bit per node name."""
    hard = constraints(pod, defaults, "DoNotSchedule")
    pairs: list[dict[str, int]] = []
    for constraint in hard:
        sums: dict[str, int] = {}
        for name, node in world.nodes.items():
            has_all = all(item["topologyKey"] in labels(node) for item in hard)
            if has_all and _included(constraint, pod, node):
                value = labels(node)[constraint["topologyKey"]]
                sums[value] = sums.get(value, 0) + _count(world, name, constraint, pod)
        pairs.append(sums)
    return {name: _spread_verdict(pod, node, hard, pairs) for name, node in world.nodes.items()}


def _spread_verdict(pod: Raw, node: Raw, hard: Sequence[Raw], pairs: Sequence[Mapping[str, int]]) -> int:
    for constraint, sums in zip(hard, pairs, strict=True):
        value = labels(node).get(constraint["topologyKey"])
        if value is None:
            return 2
        least = min(sums.values(), default=0) if len(sums) >= constraint.get("minDomains", 1) else 0
        itself = int(matches(spread_selector(constraint, pod), labels(pod)))
        if sums.get(value, 0) + itself - least > constraint["maxSkew"]:
            return 1
    return 0


def spread_scores(
    world: World, pod: Raw, feasible: Sequence[str], defaults: Sequence[Raw] = SYSTEM, *, system: bool = True
) -> dict[str, int] | None:
    """Normalized score per feasible node, or None where the plugin has nothing to score."""
    soft = constraints(pod, defaults, "ScheduleAnyway")
    if not soft:
        return None
    all_keys = bool(pod["spec"].get("topologySpreadConstraints")) or not system

    def has_all(name: str) -> bool:
        return not all_keys or all(item["topologyKey"] in labels(world.nodes[name]) for item in soft)

    scored = [name for name in feasible if has_all(name)]
    raw = dict.fromkeys(scored, 0.0)
    for constraint in soft:
        key = constraint["topologyKey"]
        values = {labels(world.nodes[name]).get(key, "") for name in scored}
        weight = math.log((len(scored) if key == HOSTNAME else len(values)) + 2)
        sums = dict.fromkeys(values, 0)
        for name, node in world.nodes.items():
            value = labels(node).get(key, "")
            if value in sums and has_all(name) and _included(constraint, pod, node):
                sums[value] += _count(world, name, constraint, pod)
        for name in scored:
            value = labels(world.nodes[name]).get(key)
            if value is not None:
                own = _count(world, name, constraint, pod) if key == HOSTNAME else sums[value]
                raw[name] += own * weight + (constraint["maxSkew"] - 1)
    rounded = {name: _round(value) for name, value in raw.items()}
    low, high = min(rounded.values(), default=0), max(rounded.values(), default=0)
    return {
        name: 0 if name not in rounded else 100 if high == 0 else 100 * (high + low - rounded[name]) // high
        for name in feasible
    }


def _round(value: float) -> int:
    """Go's math.Round for what is not negative: halves away from zero."""
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


# Affinity between pods


def _terms(pod: Raw, kind: str, preferred: bool = False) -> list[tuple[Raw, int]]:
    found = pod["spec"].get("affinity", {}).get(kind, {})
    if preferred:
        listed = found.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        return [(item["podAffinityTerm"], item["weight"]) for item in listed]
    return [(term, 0) for term in found.get("requiredDuringSchedulingIgnoredDuringExecution", ())]


def term_selects(world: World, carrier: Raw, term: Raw, other: Raw, *, placed_carrier: bool) -> bool:
    """Whether a term concerns a pod. A namespace that is not known has no labels for terms of placed pods,
    and is not found by those of the pod to place.
    """
    names, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    where = namespace(other)
    if not names and selector is None:
        reached = where == namespace(carrier)
    else:
        known = where in world.namespaces or placed_carrier or not expressions(selector)
        fits = matches(expressions(selector), world.namespaces.get(where, {}))
        reached = where in names or (known and fits)
    wanted = expressions(term.get("labelSelector"))
    if not reached or wanted is None:
        return False
    own = labels(carrier)
    wanted += [(key, "In", [own[key]]) for key in term.get("matchLabelKeys", ()) if key in own]
    wanted += [(key, "NotIn", [own[key]]) for key in term.get("mismatchLabelKeys", ()) if key in own]
    return matches(wanted, labels(other))


def _neighbours(world: World) -> Iterable[tuple[Raw, Labels]]:
    for uid, node in world.placed.items():
        if node in world.nodes:
            yield world.pods[uid], labels(world.nodes[node])


def affinity_filter(world: World, pod: Raw) -> dict[str, int]:
    """Bit per node name."""
    wants = [term for term, _ in _terms(pod, "podAffinity")]
    avoids = [term for term, _ in _terms(pod, "podAntiAffinity")]
    near, avoided, guarded = set(), set(), set()
    for other, where in _neighbours(world):
        if wants and all(term_selects(world, pod, term, other, placed_carrier=False) for term in wants):
            near |= {(t["topologyKey"], where[t["topologyKey"]]) for t in wants if t["topologyKey"] in where}
        for term in avoids:
            if term_selects(world, pod, term, other, placed_carrier=False) and term["topologyKey"] in where:
                avoided.add((term["topologyKey"], where[term["topologyKey"]]))
        for term, _ in _terms(other, "podAntiAffinity"):
            if term_selects(world, other, term, pod, placed_carrier=True) and term["topologyKey"] in where:
                guarded.add((term["topologyKey"], where[term["topologyKey"]]))
    first = not near and all(term_selects(world, pod, term, pod, placed_carrier=False) for term in wants)
    out = {}
    for name, node in world.nodes.items():
        pairs = set(labels(node).items())
        keys = [term["topologyKey"] for term in wants]
        lacking = any(key not in labels(node) for key in keys)
        alone = any((key, labels(node).get(key)) not in near for key in keys)
        if lacking or (alone and not first):
            out[name] = 1
        else:
            out[name] = 2 if pairs & avoided else 4 if pairs & guarded else 0
    return out


def affinity_scores(
    world: World, pod: Raw, feasible: Sequence[str], hard_weight: int = 1, *, ignore_existing: bool = False
) -> dict[str, int] | None:
    """Normalized score per feasible node, or None where preferences do not count."""
    own = [(term, weight) for term, weight in _terms(pod, "podAffinity", True)]
    own += [(term, -weight) for term, weight in _terms(pod, "podAntiAffinity", True)]
    if ignore_existing and not own:
        return None
    sums: dict[tuple[str, str], int] = {}
    for other, where in _neighbours(world):
        theirs = [(term, hard_weight) for term, _ in _terms(other, "podAffinity")]
        theirs += _terms(other, "podAffinity", True)
        theirs += [(term, -weight) for term, weight in _terms(other, "podAntiAffinity", True)]
        hits = [item for item in own if term_selects(world, pod, item[0], other, placed_carrier=False)]
        hits += [item for item in theirs if term_selects(world, other, item[0], pod, placed_carrier=True)]
        for term, weight in hits:
            key = term["topologyKey"]
            if key in where:
                sums[key, where[key]] = sums.get((key, where[key]), 0) + weight
    raw = {name: sum(sums.get(pair, 0) for pair in labels(world.nodes[name]).items()) for name in feasible}
    low, high = min(raw.values()), max(raw.values())
    if high == low:
        return dict.fromkeys(feasible, 0)
    return {name: int(100.0 * ((value - low) / (high - low))) for name, value in raw.items()}
