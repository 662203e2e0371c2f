"""What people suppose of a cluster: another quota, more nodes, a drained node, fewer objects."""

from __future__ import annotations

import copy
from typing import Any, Final

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.draft import Draft, Object
from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.model.names import LABEL_HOSTNAME
from scheduler_core.model.node import parse_node
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.quota_flavor import parse_quota_flavor
from scheduler_core.model.quotas.quota_group import parse_quota_group
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.model.resources import ResourceList
from scheduler_core.printing.counts import counted
from scheduler_core.quota.flavor_validation import by_name
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.validation import (
    BrokenRule,
    ValidationContext,
    allocatable,
    broken_rules,
    check_resource_quota,
    ratcheted,
)
from scheduler_core.simulate.world import Simulation

# Set by the server, and different for each object.
_OF_ONE_OBJECT: Final = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def set_bound(draft: Draft, namespace: str, bound: str, resource: str, amount: str) -> None:
    """Another `min` or `max` of a resource in the binding quota of a namespace.

    Raises ConfigError if there is no quota, or if the change is illegal (min <= max <= hard).
    """
    path = put_bound(draft, namespace, bound, resource, amount)
    check_bounds_of(draft, namespace, path)


def put_bound(draft: Draft, namespace: str, bound: str, resource: str, amount: str) -> str:
    """The same, not checked: several changes may be legal only together. Returns what errors name.

    Raises ConfigError if there is no quota.
    """
    path = f"quota/{namespace}:{bound}.{resource}"
    if bound not in ("min", "max"):
        raise ConfigError(path, f'"{bound}" is neither min nor max')
    obj = draft.quota_of(namespace)
    if obj is None:
        raise ConfigError(path, f"namespace {namespace} has no ElasticQuota")
    before = _replace(obj, bound, resource, amount)
    draft.put(obj)
    name = obj["metadata"]["name"]
    draft.tell(f"ElasticQuota {namespace}/{name}: {bound}[{resource}] is {amount} instead of {before}")
    return path


def check_bounds_of(draft: Draft, namespace: str, path: str) -> None:
    """Raise ConfigError if the quota of a namespace is illegal."""
    obj = draft.quota_of(namespace)
    if obj is not None:
        check_quota(draft, obj, path)


def set_hard(draft: Draft, namespace: str, name: str, key: str, amount: str) -> None:
    """Another `hard` of a ResourceQuota. Raises ConfigError as `set_bound`."""
    check_hard_of(draft, namespace, name, put_hard(draft, namespace, name, key, amount))


def put_hard(draft: Draft, namespace: str, name: str, key: str, amount: str) -> str:
    """The same, not checked, as `put_bound`."""
    path = f"resourcequota/{name}:hard.{key}"
    obj = draft.get("ResourceQuota", namespace, name)
    if obj is None:
        raise ConfigError(path, f"ResourceQuota {namespace}/{name} does not exist")
    before = _replace(obj, "hard", key, amount)
    draft.put(obj)
    draft.tell(f"ResourceQuota {namespace}/{name}: hard[{key}] is {amount} instead of {before}")
    return path


def check_hard_of(draft: Draft, namespace: str, name: str, path: str) -> None:
    """Raise ConfigError if a ResourceQuota is below a bound of an ElasticQuota of its namespace."""
    obj = draft.get("ResourceQuota", namespace, name)
    if obj is None:
        return
    try:
        native = parse_resource_quota(obj)
        broken = check_resource_quota(native, draft.parsed("ElasticQuota", parse_elastic_quota))
    except ModelError as error:
        raise ConfigError(path, str(error)) from None
    for violation in broken:
        raise ConfigError(path, str(violation))


def _replace(obj: Object, field: str, key: str, amount: str) -> str:
    spec = obj["spec"] = obj.get("spec") or {}
    before = (spec.get(field) or {}).get(key, "-")
    spec[field] = {**(spec.get(field) or {}), key: amount}
    return str(before)


def check_quota(draft: Draft, obj: Object, path: str) -> None:
    """Raise ConfigError if the quota of an object cannot be read, or if the webhook would refuse it.

    The sum of min is no reason: see `note_sum_of_min`.
    """
    try:
        broken = _broken_by(draft, obj, None)
    except ModelError as error:
        raise ConfigError(path, str(error)) from None
    for item in broken:
        raise ConfigError(path, str(item.violation))


def note_sum_of_min(draft: Draft) -> None:
    """Note the quotas of a draft that make the sum of min more than the nodes have.

    By default the webhook refuses them; it may be told to warn or to say nothing, and what it was told cannot
    be read from the cluster. Without any node, the nodes could not be read.
    """
    nodes = list(draft.parsed("Node", parse_node))
    for obj in draft.drafted("ElasticQuota") if nodes else ():
        for item in _broken_by(draft, obj, allocatable(nodes)):
            if item.rule == "capacity":
                draft.note(
                    f"{item.violation}: the webhook refuses this, unless its --sum-of-min is warn or off; "
                    "lower a min, or add nodes"
                )


def _broken_by(draft: Draft, obj: Object, room: ResourceList | None) -> list[BrokenRule]:
    """The rules that a quota breaks beside the other objects of a draft, and did not break before.

    `room` is the allocatable of the nodes; None: the sum of min is not checked. Raises ModelError.
    """
    quota, ledger = parse_elastic_quota(obj), QuotaLedger()
    for other in draft.parsed("ElasticQuota", parse_elastic_quota):
        ledger.put_quota(other)
    binding = ledger.quota_of(quota.namespace)
    beside = ValidationContext(
        siblings=(*((binding,) if binding is not None else ()), *ledger.shadowed(quota.namespace)),
        others=tuple(other for other in ledger.quotas() if other.namespace != quota.namespace),
        natives=tuple(parse_resource_quota(found) for found in draft.all("ResourceQuota")),
        room=room,
        # Without any, they could not be read, or there are none to break a rule of.
        groups={group.name: group for group in draft.parsed("QuotaGroup", parse_quota_group)} or None,
        flavors=by_name(tuple(draft.parsed("QuotaFlavor", parse_quota_flavor))) or None,
    )
    broken = broken_rules(quota, beside)
    old = draft.base.known.get(("ElasticQuota", quota.namespace, quota.name))
    kept = ratcheted(broken, quota, old, beside) if old is not None else ()
    return [item for item in broken if item not in kept]


def add_nodes(draft: Draft, count: int, like: str) -> None:
    """`count` new nodes like one of the cluster: same labels, taints and capacity, empty and schedulable.

    Raises ConfigError if there is no such node, or if `count` is below 1.
    """
    if count < 1:
        raise ConfigError("add-nodes", f"{count} must be 1 or more")
    _node(draft, like)
    number = made = 0
    while made < count:
        number += 1
        name = f"{like}-new-{number}"
        if draft.get("Node", "", name) is None:
            draft.put(_twin(_node(draft, like), name))
            made += 1
    draft.tell(f"{counted(count, 'more node')} like {like}")


def more_nodes(simulation: Simulation, count: int, like: str) -> Changes:
    """The changes of `add_nodes` alone."""
    draft = Draft(simulation)
    add_nodes(draft, count, like)
    return draft.changes()


def _twin(obj: Object, name: str) -> Object:
    meta = obj["metadata"]
    meta["name"] = name
    for field in _OF_ONE_OBJECT:
        meta.pop(field, None)
    if LABEL_HOSTNAME in (meta.get("labels") or {}):
        meta["labels"][LABEL_HOSTNAME] = name
    spec = obj["spec"] = obj.get("spec") or {}
    spec.pop("unschedulable", None)
    return obj


def drain(draft: Draft, name: str) -> None:
    """A node that takes no pods and has none: as after `kubectl drain --ignore-daemonsets --force`.

    Pods of a controller wait for another node, as their controller creates them again; pods of DaemonSets
    stay; all others are gone. Disruption budgets do not delay this. Raises ConfigError for an unknown node.
    """
    node = _node(draft, name)
    node["spec"] = {**(node.get("spec") or {}), "unschedulable": True}
    draft.put(node)
    gone = again = 0
    for pod in draft.pods_on(name):
        owner = controller_kind(pod)
        if owner == "DaemonSet":
            continue
        gone += 1
        if owner:
            again += 1
            draft.put(waiting_twin(pod, pod["metadata"]["name"]))
        else:
            draft.remove(pod)
    draft.tell(f"Node {name} is drained: {counted(gone, 'pod')} leave it, {again} of them are created again")


def waiting_twin(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """A new pod with the spec, labels and owner of a pod, without a node."""
    obj = copy.deepcopy(pod)
    meta = obj["metadata"]
    meta["name"] = name
    for field in _OF_ONE_OBJECT:
        meta.pop(field, None)
    meta["uid"] = f"{meta.get('namespace', 'default')}/{name} (supposed)"
    obj["spec"].pop("nodeName", None)
    obj["spec"].pop("schedulingGates", None)
    obj.pop("status", None)
    return obj


def controller_kind(pod: Object) -> str:
    """The kind of a pod's controller; empty without one."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("kind")) for owner in owners if owner.get("controller")), "")


def _node(draft: Draft, name: str) -> Object:
    found = draft.get("Node", "", name)
    if found is None:
        raise ConfigError("node", f'node "{name}" does not exist')
    parse_node(found)
    return found


def delete(draft: Draft, kind: str, namespace: str, name: str) -> None:
    """An object that is deleted; with a node its pods, with an owner of pods those. Raises ConfigError."""
    where = f"{namespace}/{name}" if namespace else name
    obj = draft.find(kind, namespace, name)
    kind = str(obj["kind"]) if obj is not None else kind
    pods = _pods_of(draft, kind, namespace, name)
    if obj is None and not pods:
        raise ConfigError("delete", f"{kind} {where} does not exist")
    if obj is not None:
        draft.remove(obj)
    for pod in pods:
        draft.remove(pod)
    also = f" with its {counted(len(pods), 'pod')}" if pods else ""
    draft.tell(f"{kind} {where} is deleted{also}")


def _pods_of(draft: Draft, kind: str, namespace: str, name: str) -> list[Object]:
    if kind == "Node":
        return draft.pods_on(name)
    if kind == "Pod":
        return []
    return draft.raw_pods(draft.pods_of(kind, namespace, name))
