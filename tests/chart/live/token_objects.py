"""Objects of others on which holders of the tokens of Muster's accounts try their rights."""

from __future__ import annotations

from typing import Any

from tests.chart.rendering import NAMESPACE
from tests.support.clusters.server import Server, request

Obj = dict[str, Any]
STRATEGIC = (("Content-Type", "application/strategic-merge-patch+json"),)
CORE = "/api/v1/namespaces"
PODS = f"{CORE}/{{}}/pods"
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{}/podgroups"
NATIVE_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = f"{CORE}/{{}}/persistentvolumeclaims"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
QUOTAS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"
QUOTA = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
MUSTER = "/apis/muster.dev/v1alpha1/{}"
QUOTA_GROUP = {"apiVersion": "muster.dev/v1alpha1", "kind": "QuotaGroup"}
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
METRIC = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
AUTO = {"muster.dev/gang": "auto"}
SELECTED = "volume.kubernetes.io/selected-node"
UID_LABEL = "muster.dev/pod-group-uid"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


def container(image: str = "example.com/app:1", **more: Any) -> Obj:
    return {"name": "main", "image": image, **more}


def pod(name: str, scheduler: str = "muster-scheduler", **spec: Any) -> Obj:
    body = {"containers": [container()], "schedulerName": scheduler, **spec}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": body}


def group(name: str, labels: Obj | None = None, **spec: Any) -> Obj:
    meta = {"name": name, "labels": labels or {}, "annotations": {"muster.dev/gang-source": "Job"}}
    kind = {"apiVersion": "incubator.scheduling.k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**kind, "metadata": meta, "spec": {"minMembers": 2, "minMembersFrom": "Owner", **spec}}


def claim(name: str, **meta: Any) -> Obj:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, **meta}, "spec": {**spec, "storageClassName": "none"}}


def volume(name: str, reserved: Obj | None = None) -> Obj:
    spec: Obj = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data"},
        "storageClassName": "none",
        "persistentVolumeReclaimPolicy": "Retain",
    }
    return {"metadata": {"name": name}, "spec": spec | ({"claimRef": reserved} if reserved else {})}


def for_claim(name: str, uid: str = "", namespace: str = "team") -> Obj:
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "namespace": namespace, "name": name, **({"uid": uid} if uid else {})}


def budget(name: str, selector: Obj, labels: Obj | None = None) -> Obj:
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    return {
        **kind,
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"minAvailable": 1, "selector": selector},
    }


def own_budget(uid: str, selected: str = "") -> Obj:
    return budget(f"podgroup-{uid}", {"matchLabels": {UID_LABEL: selected or uid}}, {UID_LABEL: uid})


def binding(name: str, **meta: Any) -> Obj:
    target = {"kind": "Node", "name": "n1"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": target}


def event(name: str, about: str, namespace: str) -> Obj:
    return {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "somebody",
        "reportingInstance": "else",
        "action": "Said",
        "reason": "Said",
        "type": "Warning",
        "regarding": {"kind": "Pod", "namespace": namespace, "name": about},
    }


def condition(kind: str, status: str = "False") -> Obj:
    return {"status": {"conditions": [{"type": kind, "status": status, "reason": "Said"}]}}


def named(kind: Obj, name: str, **spec: Any) -> Obj:
    return {**kind, "metadata": {"name": name}, "spec": spec}


def fill(server: Server) -> None:
    """The objects of others, as an administrator makes them."""

    def make(path: str, *bodies: Obj) -> None:
        for body in bodies:
            request(server, "POST", path, body)

    make("/api/v1/nodes", {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}})
    make(
        CORE,
        *({"metadata": {"name": name}} for name in ("team", NAMESPACE)),
        {"metadata": {"name": "fleet", "labels": AUTO}},
        {"metadata": {"name": "exempted", "labels": AUTO | {"muster.dev/exempt": "true"}}},
    )
    make(PODS.format("team"), pod("p"), pod("theirs", "default-scheduler"))
    privileged = container(securityContext={"privileged": True})
    make(PODS.format("kube-system"), pod("proxy", "default-scheduler", containers=[privileged]))
    for name in ("p", "theirs"):
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        request(server, "PATCH", f"{PODS.format('team')}/{name}/status", {"status": ready}, headers=STRATEGIC)
    make(CLAIMS.format("team"), claim("new"), claim("placed", annotations={SELECTED: "n1"}))
    bound = claim("bound")
    bound["spec"]["volumeName"] = "taken"
    make(CLAIMS.format("team"), bound)
    make(VOLUMES, volume("free"), volume("taken", for_claim("bound", "1")), volume("kept", for_claim("new")))
    make(GROUPS.format("fleet"), group("made", AUTO), group("mine"))
    make(GROUPS.format("team"), group("marked", AUTO), group("plain"))
    native: Obj = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "native"},
    }
    make(NATIVE_GROUPS.format("team"), native | {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    make(GROUPS.format("kube-system"), group("marked", AUTO))
    make(GROUPS.format("exempted"), group("made", AUTO))
    make(QUOTAS.format("team"), named(QUOTA, "quota", max={"cpu": "1"}))
    make(MUSTER.format("quotagroups"), named(QUOTA_GROUP, "all"))
    make(METRICS, named(METRIC, "n1"))
    maps = f"{CORE}/team/configmaps"
    data = {"name": "g", "size": "2", "status": "Pending"}
    make(maps, {"metadata": {"name": "g", "labels": {"sakkara.group": ""}}, "data": data})
    make(maps, {"metadata": {"name": "plain"}, "data": {"a": "b"}})
    make(BUDGETS.format("team"), budget("theirs", {"matchLabels": {"app": "web"}}), own_budget("1"))
    make(EVENTS.format("team"), event("said", "p", "team"))
    make(f"{CORE}/team/secrets", {"metadata": {"name": "password"}})
