"""Whether a pod may run on a node, read slowly: one node, one pod, every filter; whole gangs by search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tests.support.oracles import cluster as oracle_cluster
from tests.support.oracles import nodes as oracle_nodes
from tests.support.worlds.objects import SCHEDULER
from tests.support.worlds.reading import (
    Raw,
    View,
    add,
    amounts,
    cost,
    gated,
    group_key,
    key,
    namespace,
    node_of,
    nominated,
    priority,
)

# Beyond so many nodes tried, the search for a gang gives up.
MAX_STEPS: Final = 3000


def room_lacks(view: View, pod: Raw, node: Raw) -> str:
    """The first resource of which the node has too little left; empty for none."""
    has = amounts(node["status"]["allocatable"])
    used: dict[str, int] = {}
    for other in view.on(node["metadata"]["name"]):
        add(used, cost(other))
    for name, asked in cost(pod).items():
        if asked and used.get(name, 0) + asked > has.get(name, 0):
            return name
    return ""


def ports_clash(view: View, pod: Raw, node: str) -> bool:
    mine = oracle_nodes.ports(pod)
    return bool(mine) and any(
        (theirs[1:] == own[1:]) and (theirs[0] == own[0] or "0.0.0.0" in (theirs[0], own[0]))
        for other in view.on(node)
        for theirs in oracle_nodes.ports(other)
        for own in mine
    )


def selector_refuses(pod: Raw, node: Raw) -> bool:
    return bool(oracle_nodes.affinity_reasons(pod, node))


def taint_refuses(pod: Raw, node: Raw) -> bool:
    return bool(oracle_nodes.taint_reasons(pod, node) or oracle_nodes.unschedulable_reasons(pod, node))


def volume_refuses(view: View, pod: Raw, node: Raw) -> bool:
    """Claims that are not there, or volumes that the node does not reach."""
    for item in pod["spec"].get("volumes") or ():
        named = (item.get("persistentVolumeClaim") or {}).get("claimName")
        if not named:
            continue
        claim = view.claims.get(f"{namespace(pod)}/{named}")
        if claim is None:
            return True
        bound_to = claim["spec"].get("volumeName")
        if not bound_to:
            if claim["spec"].get("storageClassName") not in view.classes:
                return True
            continue
        volume = view.volumes.get(bound_to)
        notes = claim["metadata"].get("annotations") or {}
        if volume is None or not notes.get("pv.kubernetes.io/bind-completed"):
            return True
        required = (volume["spec"].get("nodeAffinity") or {}).get("required")
        if required and not oracle_nodes.any_term(required["nodeSelectorTerms"], node):
            return True
    return False


def _world(view: View) -> oracle_cluster.World:
    world = oracle_cluster.World(nodes=dict(view.nodes))
    for pod in view.holders:
        uid = pod["metadata"].get("uid") or key(pod)
        world.pods[uid] = pod
        world.placed[uid] = node_of(pod)
    return world


def has_terms(pod: Raw) -> bool:
    """Whether the pod says anything of other pods."""
    affinity = pod["spec"].get("affinity") or {}
    return bool(
        affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
        or pod["spec"].get("topologySpreadConstraints")
    )


def neighbours_refuse(view: View, pod: Raw) -> dict[str, str]:
    """Per node `affinity`, `anti-affinity`, `anti-affinity of others`, `spread`, or empty."""
    found = dict.fromkeys(view.nodes, "")
    if not has_terms(pod) and not any(has_terms(other) for other in view.holders):
        return found
    world = _world(view)
    words = {0: "", 1: "affinity", 2: "anti-affinity", 4: "anti-affinity of others"}
    found |= {name: words[bit] for name, bit in oracle_cluster.affinity_filter(world, pod).items()}
    if pod["spec"].get("topologySpreadConstraints"):
        for name, bit in oracle_cluster.spread_filter(world, pod).items():
            found[name] = found[name] or ("spread" if bit else "")
    return found


def why_not(view: View, pod: Raw, name: str) -> str:
    """The first filter that keeps the pod off the node as the cluster is, or empty. Quotas apart."""
    node = view.nodes.get(name)
    if node is None:
        return "no such node"
    lacks = room_lacks(view, pod, node)
    if lacks:
        return f"room: {lacks}"
    if ports_clash(view, pod, name):
        return "ports"
    if selector_refuses(pod, node):
        return "selector"
    if taint_refuses(pod, node):
        return "taint"
    if volume_refuses(view, pod, node):
        return "volume"
    return neighbours_refuse(view, pod)[name]


def _avoids(pod: Raw) -> bool:
    affinity = pod["spec"].get("affinity") or {}
    return bool((affinity.get("podAntiAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution"))


def _stand_before(view: View, pod: Raw, node: str) -> list[Raw]:
    """Nominated pods whose room the pod may have to leave alone on the node, in the widest reading.

    Where one of the two avoids others, their nodes may be different.
    """
    quotas = view.quotas
    return [
        other
        for other in view.nominees(pod)
        if (nominated(other) == node or (nominated(other) in view.nodes and (_avoids(pod) or _avoids(other))))
        and (
            view.right(other) >= priority(pod)
            or quotas.get(namespace(other)) is not quotas.get(namespace(pod))
        )
    ]


def _spread_refuses(view: View, pod: Raw, node: str) -> bool:
    return bool(oracle_cluster.spread_filter(_world(view), pod)[node])


def claimed(view: View, pod: Raw, name: str) -> bool:
    """Whether a nominated pod may wait for the place that the pod would take under its spread constraint.

    In the widest reading: some of the others who wait for nodes of the same domains may be there already, or
    all who wait.
    """
    waiting = [other for other in view.nominees(pod) if nominated(other) in view.nodes]
    for nominee in waiting:
        constraints = nominee["spec"].get("topologySpreadConstraints") or ()
        if not constraints or namespace(nominee) != namespace(pod) or view.right(nominee) < priority(pod):
            continue
        node, seen = nominated(nominee), view
        others = [other for other in waiting if other is not nominee]
        near = [other for other in others if _same_domain(view, node, nominated(other), constraints)]
        for other in (None, *near, *(other for other in others if other not in near)):
            seen = seen if other is None else seen.placed(other, nominated(other))
            if _spread_refuses(seen.placed(pod, name), nominee, node) > _spread_refuses(seen, nominee, node):
                return True
    return False


def _same_domain(view: View, one: str, other: str, constraints: Sequence[Raw]) -> bool:
    keys = [constraint["topologyKey"] for constraint in constraints]
    labels = [oracle_cluster.labels(view.nodes[name]) for name in (one, other)]
    return any(labels[0].get(key) == labels[1].get(key) for key in keys)


def fits(view: View, pod: Raw, name: str) -> bool:
    """Whether the pod fits the node and its quota beside everybody who may stand before it, and without."""
    if why_not(view, pod, name) or claimed(view, pod, name):
        return False
    before = _stand_before(view, pod, name)
    if not before:
        return True
    full = view
    for other in before:
        full = full.placed(other, nominated(other))
    return not why_not(full, pod, name)


def place_for(view: View, pod: Raw, gone: Collection[str] = ()) -> str:
    """A node that takes the pod without `gone` (keys), by all filters and quotas; empty for none."""
    seen = view.without(gone) if gone else view
    if seen.refused(pod):
        return ""
    return next((name for name in seen.nodes if fits(seen, pod, name)), "")


# Gangs


def ready_members(view: View, group: str) -> list[Raw]:
    """Members that wait and could be placed now."""
    ours = [pod for pod in view.waiting if pod["spec"].get("schedulerName") == SCHEDULER]
    return [pod for pod in ours if not gated(pod) and group_key(pod) == group]


def gang_fits(view: View, members: Sequence[Raw], need: int) -> bool | None:
    """Whether `need` of the members find nodes together, quotas included.

    None where the answer is open: nodes are kept for others, the search gets too long, or members that say
    something of other pods do not fit in this order, and might in another.
    """
    mine = {key(pod) for pod in members}
    if any(nominated(pod) and key(pod) not in mine for pod in view.waiting):
        return None
    budget = [MAX_STEPS]
    found = _fill(view, list(members), need, budget)
    open_end = budget[0] < 0 or any(has_terms(pod) for pod in members)
    return None if not found and open_end else found


def _fill(view: View, left: list[Raw], need: int, budget: list[int]) -> bool:
    if need <= 0:
        return True
    if len(left) < need:
        return False
    pod, rest = left[0], left[1:]
    if not view.refused(pod, reserved=False):
        for name in view.nodes:
            budget[0] -= 1
            if budget[0] < 0:
                return False
            if not why_not(view, pod, name) and _fill(view.placed(pod, name), rest, need - 1, budget):
                return True
    return _fill(view, rest, need, budget)
