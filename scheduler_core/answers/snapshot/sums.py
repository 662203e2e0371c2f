"""A cluster as one namespace may know it: others are a sum per node, and one quota."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler_core.model import older_texts
from scheduler_core.model.names import DISRUPTION_TARGET, PODS, PREEMPTED_FOR
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource, parse_quantity, parse_resource
from scheduler_core.model.timestamps import format_time
from scheduler_core.quota.ledger import QuotaLedger, shift
from scheduler_core.simulate.kinds import is_namespaced

Object = dict[str, Any]

# The namespaces that stand for all others: those with an ElasticQuota, and those without.
OTHERS: Final = "others"
OTHERS_FREE: Final = "others-without-quota"


def of_one_namespace(
    objects: Iterable[Object], pods: Iterable[Pod], ledger: QuotaLedger, namespace: str
) -> list[Object]:
    """The objects of one namespace, the cluster-wide ones, and sums in place of the others.

    On each node one pod stands for the pods of others with a quota, and one for those without. It has the
    highest of their priorities: who of them would be evicted is not known. Volumes of others are left out.
    """
    # Copies, as parts of them are replaced.
    own = [copy.deepcopy(obj) for obj in objects if _is_seen(obj, namespace)]
    sums, counts, priorities, starts = _by_node(pods, ledger, namespace)
    for obj in own:
        if obj["kind"] == "Node":
            _keep_pod_slots(obj, counts.get(obj["metadata"]["name"], {}))
        elif obj["kind"] == "NodeMetric":
            _sum_usage(obj, ledger, namespace)
        elif obj["kind"] == "Pod":
            _without_foreign_preemptor(obj, namespace)
    placeholders = [
        _placeholder(place, amounts, priorities[place], starts.get(place))
        for place, amounts in sorted(sums.items())
    ]
    return [*own, *_quota_of_others(ledger, namespace), *placeholders]


def _is_seen(obj: Mapping[str, Any], namespace: str) -> bool:
    kind, meta = str(obj["kind"]), obj["metadata"]
    if kind == "Namespace":
        return bool(meta["name"] == namespace)
    if kind == "PersistentVolume":
        claim = (obj.get("spec") or {}).get("claimRef") or {}
        return claim.get("namespace") in (None, namespace)
    if kind == "ConfigMap" and "sakkara.topology" in (meta.get("labels") or {}):
        return True
    return not is_namespaced(kind) or meta.get("namespace") == namespace


def _without_foreign_preemptor(pod: Object, namespace: str) -> None:
    """Take out for whom of another namespace a pod is being evicted: that pod is in no sum."""
    told = [
        condition
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if condition.get("type") in (DISRUPTION_TARGET, PREEMPTED_FOR)
    ]
    if not any(_preemptor(condition).startswith(f"{namespace}/") for condition in told):
        for condition in told:
            condition["message"] = ""


def _preemptor(condition: Object) -> str:
    """The pod for which a condition says that its pod is evicted; empty for none."""
    text = str(condition.get("message") or "")
    if condition["type"] == PREEMPTED_FOR:
        return text
    return ",".join(older_texts.preemptors(text))


_Place = tuple[str, str]
_Sums = dict[_Place, dict[str, int]]


def _by_node(
    pods: Iterable[Pod], ledger: QuotaLedger, namespace: str
) -> tuple[_Sums, dict[str, dict[str, int]], dict[_Place, int], dict[_Place, float]]:
    """(requests, numbers by node, highest priorities, latest starts) of the placed pods of others."""
    sums: _Sums = {}
    counts: dict[str, dict[str, int]] = {}
    priorities: dict[_Place, int] = {}
    starts: dict[_Place, float] = {}
    for pod in pods:
        if pod.namespace == namespace or not pod.assigned or pod.finished:
            continue
        space = _space(ledger, pod.namespace)
        place = space, pod.node_name
        shift(sums.setdefault(place, {}), pod.requests)
        of_node = counts.setdefault(pod.node_name, {})
        of_node[space] = of_node.get(space, 0) + 1
        priorities[place] = max(priorities.get(place, pod.priority), pod.priority)
        if pod.start_time is not None:
            starts[place] = max(starts.get(place, pod.start_time), pod.start_time)
    return sums, counts, priorities, starts


def _space(ledger: QuotaLedger, namespace: str) -> str:
    """The namespace that stands for a namespace of others."""
    return OTHERS if ledger.quota_of(namespace) is not None else OTHERS_FREE


def _sum_usage(metric: Object, ledger: QuotaLedger, namespace: str) -> None:
    """Replace the measured pods of others by one entry for each of the pods that stand for them."""
    status = metric.get("status") or {}
    own: list[Object] = []
    sums: dict[str, dict[str, int]] = {}
    for item in status.get("podsMetric") or ():
        if item.get("namespace") == namespace:
            own.append(item)
            continue
        usage = (item.get("podUsage") or {}).get("resources") or {}
        amounts = {name: parse_resource(name, value) for name, value in usage.items()}
        shift(sums.setdefault(_space(ledger, str(item.get("namespace"))), {}), amounts)
    summed = [
        {
            "namespace": space,
            "name": _name_on(metric["metadata"]["name"]),
            "podUsage": {"resources": _texts(amounts)},
        }
        for space, amounts in sorted(sums.items())
    ]
    if own or summed:
        status["podsMetric"] = [*own, *summed]


def _name_on(node: str) -> str:
    return f"sum-on-{node}"


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: format_resource(name, value) for name, value in sorted(amounts.items())}


def _keep_pod_slots(node: Object, counts: Mapping[str, int]) -> None:
    """Take the pods that became one from the number that the node may have."""
    fewer = sum(counts.values()) - len(counts)
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    if fewer > 0 and PODS in allocatable:
        allocatable[PODS] = str(max(0, parse_quantity(allocatable[PODS]) - fewer))


def _placeholder(place: _Place, amounts: Mapping[str, int], priority: int, start: float | None) -> Object:
    space, node = place
    requests = _texts({name: value for name, value in amounts.items() if value and name != PODS})
    # Without a start it would count as one that starts now, whose use was not measured yet.
    status = {"phase": "Running", **({} if start is None else {"startTime": format_time(start)})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": space, "name": _name_on(node)},
        "spec": {
            "nodeName": node,
            "priority": priority,
            "containers": [{"name": "sum", "resources": {"requests": requests}}],
        },
        "status": status,
    }


def _quota_of_others(ledger: QuotaLedger, namespace: str) -> list[Object]:
    """One quota with the sums of min, and of max where all others have one."""
    others = [quota for quota in ledger.quotas() if quota.namespace != namespace]
    if not others:
        return []
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for quota in others:
        shift(low, quota.min)
        shift(high, quota.max)
    bounded = {name for name in high if all(name in quota.max for quota in others)}
    spec = {"min": _texts(low), "max": _texts({name: high[name] for name in bounded})}
    return [
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"namespace": OTHERS, "name": "sum"},
            "spec": spec,
        }
    ]
