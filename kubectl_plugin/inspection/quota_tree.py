"""The tree below an ElasticQuota: its groups, the owners of their pods, and the pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubectl_plugin.cluster.group_status import state_of
from kubectl_plugin.inspection.owners import Parents, chain_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList, to_strings
from scheduler_core.quota.ledger import charged

# Kind, name and uid of the objects above another one, the top one first.
Chain = tuple[tuple[str, str, str], ...]


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the tree. `used` is what the pods at and below it use of the quota, `pending` what those
    without a node ask for: only resources of the quota, in internal units. `node` is set for pods.
    """

    kind: str
    name: str
    state: str = ""
    node: str = ""
    pods: int = 0
    running: int = 0
    used: ResourceList
    pending: ResourceList
    children: tuple[TreeNode, ...] = ()

    def document(self) -> dict[str, Any]:
        """The object and all below it, for JSON and YAML, with exact quantities."""
        return {
            "kind": self.kind,
            "name": self.name,
            "state": self.state,
            **({"node": self.node} if self.node else {}),
            "pods": self.pods,
            "running": self.running,
            "used": to_strings(self.used),
            "pending": to_strings(self.pending),
            "children": [child.document() for child in self.children],
        }


def parent_node(kind: str, name: str, children: Sequence[TreeNode], state: str = "") -> TreeNode:
    """An object above others; without a state of its own it has the count of the pods that run."""
    pods, running = sum(item.pods for item in children), sum(item.running for item in children)
    return TreeNode(
        kind=kind,
        name=name,
        state=state or f"{running}/{pods} running",
        pods=pods,
        running=running,
        used=_sum(item.used for item in children),
        pending=_sum(item.pending for item in children),
        children=tuple(children),
    )


def owner_nodes(pods: Iterable[Pod], parents: Parents, resources: Collection[str]) -> tuple[TreeNode, ...]:
    """The owners of the pods with the pods below them; pods without an owner stand for themselves."""
    return nested(
        (
            tuple((owner.kind, owner.name, owner.uid) for owner in chain_of(pod, parents)),
            _pod_node(pod, resources),
        )
        for pod in pods
    )


def nested(placed: Iterable[tuple[Chain, TreeNode]], depth: int = 0) -> tuple[TreeNode, ...]:
    """Each object below those of its chain, from the place `depth` of the chains on; parents come first."""
    here: list[TreeNode] = []
    below: dict[tuple[str, str, str], list[tuple[Chain, TreeNode]]] = {}
    for chain, node in placed:
        if depth == len(chain):
            here.append(node)
        else:
            below.setdefault(chain[depth], []).append((chain, node))
    above = [
        parent_node(kind, name, nested(found, depth + 1)) for (kind, name, _), found in sorted(below.items())
    ]
    return (*above, *sorted(here, key=lambda node: (node.kind, node.name)))


def _pod_node(pod: Pod, resources: Collection[str]) -> TreeNode:
    amounts = {name: value for name, value in charged(pod.requests).items() if name in resources and value}
    state = state_of(pod)
    return TreeNode(
        kind="Pod",
        name=pod.name,
        state=state,
        node=pod.node_name,
        pods=1,
        running=int(state == "Running"),
        used=amounts if pod.counts else {},
        pending={} if pod.assigned else amounts,
    )


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
