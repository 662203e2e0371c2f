"""A slow scheduler's view of one pod and one node, written from Kubernetes' rules over raw objects.

Shares no code with Muster: plain dicts, one node at a time. Amounts are written plainly (`500m` of cpu, whole
bytes, whole storage), so that reading them is not a matter of dispute.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

Raw = dict[str, Any]

ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
MB = 1024 * 1024


class World:
    """Raw objects by kind and key."""

    def __init__(self) -> None:
        self.nodes: dict[str, Raw] = {}
        self.pods: list[Raw] = []  # placed: spec.nodeName is set
        self.volumes: dict[str, Raw] = {}
        self.claims: dict[str, Raw] = {}
        self.classes: dict[str, Raw] = {}
        self.csi: dict[str, Raw] = {}

    def on(self, node: str) -> list[Raw]:
        return [pod for pod in self.pods if pod["spec"]["nodeName"] == node]


# Labels and taints


def matches(labels: Raw, expression: Raw) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or not value.isdigit():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def term_matches(term: Raw, name: str, labels: Raw) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    by_name = {"metadata.name": name}
    return all(matches(labels, e) for e in expressions) and all(matches(by_name, f) for f in fields)


def any_term(terms: list[Raw], node: Raw) -> bool:
    meta = node["metadata"]
    return any(term_matches(term, meta["name"], meta.get("labels") or {}) for term in terms)


def tolerates(toleration: Raw, taint: Raw) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def taints_of(node: Raw) -> list[Raw]:
    taints = list(node.get("spec", {}).get("taints") or [])
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node.get("spec", {}).get("unschedulable") and cordon not in taints:
        taints.append(cordon)
    return taints


def taint_reasons(pod: Raw, node: Raw) -> set[str]:
    tolerations = pod["spec"].get("tolerations") or []
    for taint in taints_of(node):
        hard = taint["effect"] in ("NoSchedule", "NoExecute")
        if hard and not any(tolerates(t, taint) for t in tolerations):
            return {f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"}
    return set()


def unschedulable_reasons(pod: Raw, node: Raw) -> set[str]:
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    forgiven = any(tolerates(t, cordon) for t in pod["spec"].get("tolerations") or [])
    cordoned = node.get("spec", {}).get("unschedulable", False)
    return {"node(s) were unschedulable"} if cordoned and not forgiven else set()


def affinity_of(pod: Raw) -> Raw:
    found: Raw = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return found


def affinity_reasons(pod: Raw, node: Raw, added: Raw | None = None) -> set[str]:
    reasons = set()
    labels = node["metadata"].get("labels") or {}
    required = affinity_of(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    selector = pod["spec"].get("nodeSelector") or {}
    fits = all(labels.get(key) == value for key, value in selector.items())
    if not fits or (required is not None and not any_term(required["nodeSelectorTerms"], node)):
        reasons.add("node(s) didn't match Pod's node affinity/selector")
    extra = (added or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if extra is not None and not any_term(extra["nodeSelectorTerms"], node):
        reasons.add("node(s) didn't match scheduler-enforced node affinity")
    return reasons


# Resources


def amount(name: str, text: str) -> int:
    return int(text.removesuffix("m")) if name == "cpu" else int(text)


def requests(pod: Raw, defaults: Raw | None = None) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod["spec"]["containers"]:
        asked = {
            name: amount(name, text)
            for name, text in ((container.get("resources") or {}).get("requests") or {}).items()
        }
        for name, value in {**(defaults or {}), **asked}.items():
            total[name] = total.get(name, 0) + value
    return total


def allocatable(node: Raw) -> dict[str, int]:
    return {name: amount(name, text) for name, text in node["status"]["allocatable"].items()}


def fit_reasons(world: World, pod: Raw, node: Raw, ignored: frozenset[str] = frozenset()) -> set[str]:
    there, has = world.on(node["metadata"]["name"]), allocatable(node)
    reasons = set()
    if len(there) + 1 > has.get("pods", 0):
        reasons.add("Too many pods")
    for name, asked in requests(pod).items():
        used = sum(requests(other).get(name, 0) for other in there)
        if asked and name not in ignored and used + asked > has.get(name, 0):
            reasons.add(f"Insufficient {name}")
    return reasons


NONZERO = {"cpu": 100, "memory": 200 * MB}


def used_with(world: World, pod: Raw, node: Raw, name: str, *, nonzero: bool) -> tuple[int, int] | None:
    """(allocatable, use with the pod) or None where a resource is not to be scored."""
    if name not in ("cpu", "memory", "ephemeral-storage") and not requests(pod).get(name):
        return None
    defaults = NONZERO if nonzero and name in NONZERO else None
    there = [*world.on(node["metadata"]["name"]), pod]
    return allocatable(node).get(name, 0), sum(requests(p, defaults).get(name, 0) for p in there)


def fit_score(
    world: World,
    pod: Raw,
    node: Raw,
    weights: dict[str, int],
    strategy: str,
    shape: list[tuple[int, int]],
) -> int:
    total = weight_sum = 0
    for name, weight in weights.items():
        pair = used_with(world, pod, node, name, nonzero=True)
        if pair is None or pair[0] == 0:
            continue
        has, used = pair
        if strategy == "LeastAllocated":
            points = 0 if used > has else (has - used) * 100 // has
        elif strategy == "MostAllocated":
            points = min(used, has) * 100 // has
        else:
            points = on_line(shape, 100 if used > has else used * 100 // has)
            if points <= 0:
                continue
        total += points * weight
        weight_sum += weight
    if not weight_sum:
        return 0
    if strategy == "RequestedToCapacityRatio":
        return math.floor(Fraction(total, weight_sum) + Fraction(1, 2))
    return total // weight_sum


def on_line(shape: list[tuple[int, int]], use: int) -> int:
    for i, (x, y) in enumerate(shape):
        if use <= x:
            if i == 0:
                return y * 10
            before_x, before_y = shape[i - 1]
            return before_y * 10 + math.trunc(Fraction((y - before_y) * 10 * (use - before_x), x - before_x))
    return shape[-1][1] * 10


def balanced_score(world: World, pod: Raw, node: Raw, names: list[str]) -> int:
    """By how much the pod improves the balance of the resources that it asks for, or that all nodes have."""
    pairs = [(name, used_with(world, pod, node, name, nonzero=False)) for name in names]
    there = [(name, pair) for name, pair in pairs if pair is not None and pair[0]]
    asked = requests(pod)
    after = balance([min(pair[1] / pair[0], 1.0) for _, pair in there])
    before = balance([min((pair[1] - asked.get(name, 0)) / pair[0], 1.0) for name, pair in there])
    return 50 + (50 + after - before) // 2


def balance(fractions: list[float]) -> int:
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((f - mean) ** 2 for f in fractions) / len(fractions))
    return int((1 - deviation) * 100)


# Scores over labels, taints and images


def preference_score(pod: Raw, node: Raw, added: Raw | None = None) -> int:
    total = 0
    for source in (added or {}, affinity_of(pod)):
        for item in source.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            if any_term([item["preference"]], node):
                total += item["weight"]
    return total


def taint_score(pod: Raw, node: Raw) -> int:
    soft = [
        t for t in pod["spec"].get("tolerations") or [] if t.get("effect", "") in ("", "PreferNoSchedule")
    ]
    return sum(
        1
        for taint in taints_of(node)
        if taint["effect"] == "PreferNoSchedule" and not any(tolerates(t, taint) for t in soft)
    )


def normalized(raw: list[int], *, reverse: bool = False) -> list[int]:
    top = max(raw, default=0)
    if top == 0:
        return [100 if reverse else 0] * len(raw)
    scaled = [value * 100 // top for value in raw]
    return [100 - value for value in scaled] if reverse else scaled


def image_score(world: World, pod: Raw, node: Raw) -> int:
    def sizes(of: Raw) -> dict[str, int]:
        images = of["status"].get("images") or []
        return {name: image["sizeBytes"] for image in images for name in image["names"]}

    total = 0
    for container in pod["spec"]["containers"]:
        name = container["image"]
        if ":" not in name.rsplit("/", 1)[-1]:
            name += ":latest"
        if name in sizes(node):
            having = sum(1 for other in world.nodes.values() if name in sizes(other))
            total += int(sizes(node)[name] * (having / len(world.nodes)))
    most = 1000 * MB * len(pod["spec"]["containers"])
    total = min(max(total, 23 * MB), most)
    return 100 * (total - 23 * MB) // (most - 23 * MB)


# Ports


def ports(pod: Raw) -> set[tuple[str, str, int]]:
    return {
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or []
        if port.get("hostPort")
    }


def port_reasons(world: World, pod: Raw, node: Raw) -> set[str]:
    for other in world.on(node["metadata"]["name"]):
        for ip, protocol, port in ports(pod):
            for other_ip, other_protocol, other_port in ports(other):
                same = (protocol, port) == (other_protocol, other_port)
                if same and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):
                    return {"node(s) didn't have free ports for the requested pod ports"}
    return set()
