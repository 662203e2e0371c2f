"""Builders of API objects: `make_pod("team-a/p").requests(cpu="1").obj()`; `dict()` gives the raw object.

Each call returns the builder itself; the object is deep-copied on the way out, so a builder can go on.

In tests, `make_pod` gives a builder, `pod_object` a plain API object; `create_pod` writes one to a cluster.
"""

from __future__ import annotations

from typing import Any, Self

from scheduler_core.model.groups.gang import Gang, parse_gang
from scheduler_core.model.names import GROUP_NAME_ANNOTATION, MUSTER_SCHEDULER, REASON_PREEMPTION
from scheduler_core.model.node import Node, parse_node
from scheduler_core.model.pdb import PodDisruptionBudget, parse_pdb
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Evict

Raw = dict[str, Any]


def resources(**values: Any) -> Raw:
    """Resource list from keywords: `ephemeral_storage` and `gpu` stand for longer names."""
    names = {"ephemeral_storage": "ephemeral-storage", "gpu": "nvidia.com/gpu"}
    return {names.get(name, name): str(value) for name, value in values.items()}


def copied(value: Any) -> Any:
    """A copy of JSON: a fifth of what the copy of just anything costs."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


class Builder:
    """The raw object under construction."""

    def __init__(self, api_version: str, kind: str, key: str, *, namespaced: bool = True) -> None:
        namespace, _, name = key.rpartition("/")
        meta: Raw = {"name": name}
        if namespaced:
            meta["namespace"] = namespace or "default"
        self.raw: Raw = {"apiVersion": api_version, "kind": kind, "metadata": meta}

    @property
    def meta(self) -> Raw:
        """`metadata`."""
        return self.raw["metadata"]

    def part(self, name: str) -> Raw:
        """A top-level map such as `spec`, made on first use."""
        part: Raw = self.raw.setdefault(name, {})
        return part

    def uid(self, uid: str) -> Self:
        self.meta["uid"] = uid
        return self

    def version(self, version: str) -> Self:
        self.meta["resourceVersion"] = version
        return self

    def labels(self, **labels: str) -> Self:
        self.meta.setdefault("labels", {}).update(labels)
        return self

    def label(self, key: str, value: str) -> Self:
        self.meta.setdefault("labels", {})[key] = value
        return self

    def annotation(self, key: str, value: str) -> Self:
        self.meta.setdefault("annotations", {})[key] = value
        return self

    def created(self, seconds: float) -> Self:
        self.meta["creationTimestamp"] = format_micro_time(seconds)
        return self

    def deleting(self, seconds: float) -> Self:
        self.meta["deletionTimestamp"] = format_micro_time(seconds)
        return self

    def dict(self) -> Raw:
        return copied(self.raw)


class PodBuilder(Builder):
    """A pod of one container, with the scheduler name of Muster."""

    def __init__(self, key: str) -> None:
        super().__init__("v1", "Pod", key)
        spec = self.part("spec")
        spec["schedulerName"] = MUSTER_SCHEDULER
        spec["containers"] = [{"name": "main", "image": "pause"}]

    def requests(self, **values: Any) -> Self:
        self.raw["spec"]["containers"][0]["resources"] = {"requests": resources(**values)}
        return self

    def containers(self, *containers: Raw) -> Self:
        self.raw["spec"]["containers"] = list(containers)
        return self

    def spec(self, **fields: Any) -> Self:
        self.raw["spec"].update(fields)
        return self

    def status(self, **fields: Any) -> Self:
        self.part("status").update(fields)
        return self

    def evicted_for(self, *preemptors: str) -> Self:
        """With the conditions of an eviction for these."""
        write = Evict(self.meta["namespace"], self.meta["name"], "", REASON_PREEMPTION, "m", None, preemptors)
        return self.status(conditions=write.conditions(0.0))

    def priority(self, priority: int) -> Self:
        return self.spec(priority=priority)

    def never(self) -> Self:
        return self.spec(preemptionPolicy="Never")

    def scheduler(self, name: str) -> Self:
        return self.spec(schedulerName=name)

    def group(self, name: str) -> Self:
        self.meta.setdefault("annotations", {})[GROUP_NAME_ANNOTATION] = name
        return self

    def selector(self, **labels: str) -> Self:
        return self.spec(nodeSelector=labels)

    def tolerates(self, key: str, effect: str = "") -> Self:
        toleration = {"key": key, "operator": "Exists"} | ({"effect": effect} if effect else {})
        self.raw["spec"].setdefault("tolerations", []).append(toleration)
        return self

    def gate(self, name: str) -> Self:
        self.raw["spec"].setdefault("schedulingGates", []).append({"name": name})
        return self

    def on(self, node: str, phase: str = "Running") -> Self:
        self.raw["spec"]["nodeName"] = node
        return self.status(phase=phase)

    def started(self, seconds: float) -> Self:
        return self.status(startTime=format_micro_time(seconds))

    def nominated(self, node: str) -> Self:
        return self.status(nominatedNodeName=node)

    def obj(self) -> Pod:
        return parse_pod(self.dict())


class NodeBuilder(Builder):
    """A node with room for 110 pods unless said otherwise, labelled with its host name."""

    def __init__(self, name: str) -> None:
        super().__init__("v1", "Node", name, namespaced=False)
        self.label("kubernetes.io/hostname", name)

    def allocatable(self, **values: Any) -> Self:
        listed = {"pods": "110", **resources(**values)}
        self.raw["status"] = {"allocatable": listed, "capacity": dict(listed)}
        return self

    def unschedulable(self) -> Self:
        self.part("spec")["unschedulable"] = True
        return self

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        taints = self.part("spec").setdefault("taints", [])
        taints.append({"key": key, "value": value, "effect": effect})
        return self

    def obj(self) -> Node:
        return parse_node(self.dict())


class QuotaBuilder(Builder):
    """An ElasticQuota."""

    def __init__(self, key: str) -> None:
        super().__init__("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", key)
        self.part("spec")

    def min(self, **values: Any) -> Self:
        self.raw["spec"]["min"] = resources(**values)
        return self

    def max(self, **values: Any) -> Self:
        self.raw["spec"]["max"] = resources(**values)
        return self

    def obj(self) -> ElasticQuota:
        return parse_elastic_quota(self.dict())


class GroupBuilder(Builder):
    """A PodGroup of the seed's dialect."""

    def __init__(self, key: str) -> None:
        super().__init__("incubator.scheduling.k8s.io/v1alpha1", "PodGroup", key)
        self.part("spec")

    def needs(self, members: int) -> Self:
        self.raw["spec"]["minMembers"] = members
        return self

    def totals(self, **values: Any) -> Self:
        self.raw["spec"]["totalResources"] = resources(**values)
        return self

    def obj(self) -> Gang:
        return parse_gang(self.dict())


class BudgetBuilder(Builder):
    """A PodDisruptionBudget over pods with some labels; no disruption is allowed unless said."""

    def __init__(self, key: str) -> None:
        super().__init__("policy/v1", "PodDisruptionBudget", key)
        self.part("spec")

    def selects(self, **labels: str) -> Self:
        self.raw["spec"]["selector"] = {"matchLabels": labels}
        return self

    def allows(self, disruptions: int, *disrupted: str) -> Self:
        self.raw["status"] = {"disruptionsAllowed": disruptions}
        if disrupted:
            self.raw["status"]["disruptedPods"] = dict.fromkeys(disrupted, format_micro_time(0))
        return self

    def obj(self) -> PodDisruptionBudget:
        return parse_pdb(self.dict())


def make_pod(key: str) -> PodBuilder:
    """A pod by `namespace/name`."""
    return PodBuilder(key)


def make_node(name: str) -> NodeBuilder:
    """A node by name."""
    return NodeBuilder(name)


def make_quota(key: str) -> QuotaBuilder:
    """An ElasticQuota by `namespace/name`."""
    return QuotaBuilder(key)


def make_group(key: str) -> GroupBuilder:
    """A PodGroup by `namespace/name`."""
    return GroupBuilder(key)


def make_budget(key: str) -> BudgetBuilder:
    """A PodDisruptionBudget by `namespace/name`."""
    return BudgetBuilder(key)
