"""Fixes of nodes: uncordon, a toleration or a label, and new nodes like one of the cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.fix import Amount, Fix, TriedFix, proven
from scheduler_core.answers.fixes.trial import Prover, least
from scheduler_core.answers.suppositions import more_nodes
from scheduler_core.framework.taints import untolerated
from scheduler_core.model.names import LABEL_HOSTNAME
from scheduler_core.model.node import Node
from scheduler_core.model.pods.affinity import Taint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.printing.counts import names_text
from scheduler_core.simulate.world import Simulation

# Kinds of nodes, taints and labels that are tried.
_MOST_KINDS: Final = 4
# More new nodes are not proposed.
_MOST_NODES: Final = 64


def node_fixes(prover: Prover, pods: Sequence[Pod], need: int) -> Iterator[TriedFix]:
    """The fixes of nodes that help."""
    nodes = _nodes(prover.base)
    for found in (
        _uncordoned(prover, nodes),
        *_tolerations(prover, nodes, pods),
        *_labels(prover, nodes, pods),
    ):
        if found is not None:
            yield found
    added = _added(prover, nodes, pods, need)
    if added is not None:
        yield added


def _nodes(base: Simulation) -> list[Node]:
    """Nodes, those with most to give first."""
    found = [obj for (kind, _, _), obj in base.known.items() if kind == "Node" and isinstance(obj, Node)]
    return sorted(found, key=lambda node: node.name)


def _changed(base: Simulation, nodes: Sequence[Node], change: Any) -> Changes:
    """Copies of the nodes, each changed in place by `change`."""
    objects = []
    for node in nodes:
        obj = base.get("Node", "", node.name)
        if obj is not None:
            twin = copy.deepcopy(obj)
            change(twin)
            objects.append(twin)
    return Changes(update=tuple(objects))


def _fewest(prover: Prover, nodes: Sequence[Node], change: Any) -> list[Node] | None:
    """The fewest nodes of which the change helps: a single one if any does, else the first so many."""
    if not nodes or not prover.starts(_changed(prover.base, nodes, change)):
        return None
    for node in nodes[:_MOST_KINDS]:
        if prover.starts(_changed(prover.base, [node], change)):
            return [node]
    count = least(
        0, len(nodes), len(nodes), lambda some: prover.starts(_changed(prover.base, nodes[:some], change))
    )
    if count is None:
        return None
    chosen = list(nodes[:count])
    for node in reversed(nodes[:count]):
        rest = [other for other in chosen if other is not node]
        if rest and prover.starts(_changed(prover.base, rest, change)):
            chosen = rest
    return chosen


def _uncordoned(prover: Prover, nodes: Sequence[Node]) -> TriedFix | None:
    def uncordon(obj: dict[str, Any]) -> None:
        obj["spec"].pop("unschedulable", None)

    cordoned = [node for node in nodes if node.unschedulable]
    found = _fewest(prover, cordoned, uncordon)
    if found is None:
        return None
    texts = [node.name for node in found]
    fix = Fix("uncordon", f"uncordon {names_text(texts)}", tuple(f"Node {name}" for name in texts))
    return proven(prover, fix, _changed(prover.base, found, uncordon))


def _tolerations(prover: Prover, nodes: Sequence[Node], pods: Sequence[Pod]) -> Iterator[TriedFix | None]:
    """For each taint that the pods do not tolerate: they tolerate it."""
    taints: dict[Taint, None] = {}
    for node in nodes:
        taint = untolerated(pods[0].tolerations, node.taints)
        if taint is not None:
            taints[taint] = None
    for taint in list(taints)[:_MOST_KINDS]:
        value = f"={taint.value}" if taint.value else ""
        text = f"tolerate the taint {taint.key}{value}:{taint.effect} in {_which(pods)}"
        fix = Fix("toleration", text, tuple(f"Pod {pod.key}" for pod in pods))
        yield proven(prover, fix, tolerating(prover.base, pods, taint))


def tolerating(base: Simulation, pods: Sequence[Pod], taint: Taint) -> Changes:
    """The pods with a toleration for a taint."""
    given = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
    changed = []
    for pod in pods:
        obj = copy.deepcopy(base.get("Pod", pod.namespace, pod.name))
        if obj is not None:
            obj["spec"]["tolerations"] = [*(obj["spec"].get("tolerations") or ()), given]
            changed.append(obj)
    return Changes(update=tuple(changed))


def _labels(prover: Prover, nodes: Sequence[Node], pods: Sequence[Pod]) -> Iterator[TriedFix | None]:
    """The labels of the pods' node selector, on the fewest nodes that lack them."""
    wanted = {key: value for key, value in pods[0].node_selector if key != LABEL_HOSTNAME}
    if not wanted:
        return

    def label(obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        meta["labels"] = {**(meta.get("labels") or {}), **wanted}

    lacking = [node for node in nodes if any(node.labels.get(key) != value for key, value in wanted.items())]
    found = _fewest(prover, lacking, label)
    if found is None:
        return
    texts = [node.name for node in found]
    pairs = " ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    fix = Fix("label", f"label {names_text(texts)} with {pairs}", tuple(f"Node {name}" for name in texts))
    yield proven(prover, fix, _changed(prover.base, found, label))


def _added(prover: Prover, nodes: Sequence[Node], pods: Sequence[Pod], need: int) -> TriedFix | None:
    """The fewest new nodes, of the smallest kind of which few enough help."""
    kinds: dict[tuple[Any, ...], Node] = {}
    for node in nodes:
        labels = tuple(sorted((k, v) for k, v in node.labels.items() if k != LABEL_HOSTNAME))
        kinds.setdefault((tuple(sorted(node.allocatable.items())), labels, node.taints), node)
    asked = pods[0].requests
    able = [
        node for node in kinds.values() if all(node.allocatable.get(k, 0) >= v for k, v in asked.items() if v)
    ]
    able.sort(key=lambda node: (sum(_share(node, pods[0])), node.name))
    for node in able[:_MOST_KINDS]:
        per_node = min((node.allocatable.get(k, 0) // v for k, v in asked.items() if v), default=1)
        guess = -(-need // max(per_node, 1))
        count = least(0, min(_MOST_NODES, max(need, 1)), guess, _with_more(prover, node.name))
        if count is None:
            continue
        noun = "node" if count == 1 else "nodes"
        fix = Fix(
            "add-nodes",
            f"add {count} {noun} like {node.name}",
            (f"Node {node.name}",),
            (Amount("nodes", 0, count),),
            f"--add-nodes {count} --like {node.name}",
        )
        return proven(prover, fix, more_nodes(prover.base, count, node.name))
    return None


def _share(node: Node, pod: Pod) -> list[float]:
    return [node.allocatable.get(name, 0) / value for name, value in pod.requests.items() if value]


def _with_more(prover: Prover, like: str) -> Callable[[int], bool]:
    """Whether so many nodes like one start the work."""
    return lambda count: prover.starts(more_nodes(prover.base, count, like))


def _which(pods: Sequence[Pod]) -> str:
    return f"the {len(pods)} waiting pods" if len(pods) > 1 else "the pod"
