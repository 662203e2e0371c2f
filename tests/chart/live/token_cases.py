"""Requests with the tokens of Muster's accounts: what is refused, by its words, and what is carried out.

Each is (method, path, body), and where it is refused the words of the refusal. docs/security.md#stolen-tokens
has a sentence for each part of these tables.
"""

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
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = f"{CORE}/{{}}/persistentvolumeclaims"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
AUTO = {"muster.dev/gang": "auto"}
SELECTED = "volume.kubernetes.io/selected-node"
UID_LABEL = "muster.dev/pod-group-uid"


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


def condition(kind: str, status: str = "False") -> Obj:
    return {"status": {"conditions": [{"type": kind, "status": status, "reason": "Said"}]}}


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
    make(GROUPS.format("kube-system"), group("marked", AUTO))
    make(GROUPS.format("exempted"), group("made", AUTO))
    maps = f"{CORE}/team/configmaps"
    data = {"name": "g", "size": "2", "status": "Pending"}
    make(maps, {"metadata": {"name": "g", "labels": {"sakkara.group": ""}}, "data": data})
    make(maps, {"metadata": {"name": "plain"}, "data": {"a": "b"}})
    make(BUDGETS.format("team"), budget("theirs", {"matchLabels": {"app": "web"}}), own_budget("1"))
    make(f"{CORE}/team/secrets", {"metadata": {"name": "password"}})


def patched(namespace: str, name: str, body: Obj, part: str = "") -> tuple[str, str, Obj]:
    return "PATCH", f"{PODS.format(namespace)}/{name}{part}", body


EVIL: Obj = {"spec": {"containers": [{"name": "main", "image": "example.com/evil:1"}]}}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}
ONLY_LABELS = "the scheduler changes only metadata.labels[muster.dev/pod-group-uid]"
ONLY_STATUS = "the scheduler changes only status.conditions, status.nominatedNodeName"
ONLY_CLAIM_REF = "the scheduler changes only spec.claimRef"
ONLY_FREE = "the scheduler reserves only volumes that are free"
ONLY_NODE = f"the scheduler changes only metadata.annotations[{SELECTED}]"
ONCE = "the scheduler selects a node once, for claims without a volume"
ONLY_RESULTS = "the scheduler changes only metadata.annotations[muster.dev/topology-results]"
ONLY_BUDGETS = "the scheduler writes only budgets podgroup-UID that select muster.dev/pod-group-uid=UID"
WITHOUT = "the scheduler binds pods without labels and annotations"
EXEMPT = "in exempt namespaces"

SCHEDULER_REFUSED = {
    "the image of a privileged pod in kube-system": (*patched("kube-system", "proxy", EVIL), EXEMPT),
    "a label of its own in kube-system": (
        *patched("kube-system", "proxy", {"metadata": {"labels": {"sakkara.member.rank": "1"}}}),
        EXEMPT,
    ),
    "the image of a tenant's pod": (*patched("team", "p", EVIL), ONLY_LABELS),
    "how long a tenant's pod may run": (
        *patched("team", "p", {"spec": {"activeDeadlineSeconds": 1}}),
        ONLY_LABELS,
    ),
    "a label by which a Service finds the pod": (
        *patched("team", "p", {"metadata": {"labels": {"app": "bank"}}}),
        ONLY_LABELS,
    ),
    "a label less": (*patched("team", "p", {"metadata": {"labels": {"app": None}}}), ONLY_LABELS),
    "an annotation": (*patched("team", "p", {"metadata": {"annotations": {"a": "b"}}}), ONLY_LABELS),
    "an owner that does not exist, so that the pod is collected": (
        *patched("team", "p", {"metadata": {"ownerReferences": [OWNER]}}),
        ONLY_LABELS,
    ),
    "a finalizer, so that the pod never ends": (
        *patched("team", "p", {"metadata": {"finalizers": ["example.com/stay"]}}),
        ONLY_LABELS,
    ),
    "a label by way of the status": (
        *patched("team", "p", {"metadata": {"labels": {"app": "bank"}}}, "/status"),
        ONLY_STATUS,
    ),
    "a finalizer by way of the status": (
        *patched("team", "p", {"metadata": {"finalizers": ["example.com/stay"]}}, "/status"),
        ONLY_STATUS,
    ),
    "the address to which a Service sends": (
        *patched("team", "p", {"status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}}, "/status"),
        ONLY_STATUS,
    ),
    "that a pod has failed": (*patched("team", "p", {"status": {"phase": "Failed"}}, "/status"), ONLY_STATUS),
    "that a pod is not ready": (
        *patched("team", "p", condition("Ready"), "/status"),
        "of status.conditions the scheduler changes only PodScheduled, DisruptionTarget",
    ),
    "that a pod of kube-system is ready": (
        *patched("kube-system", "proxy", condition("Ready", "True"), "/status"),
        "of status.conditions the scheduler changes only PodScheduled, DisruptionTarget",
    ),
    "an annotation by way of the binding": (
        "POST",
        f"{PODS.format('kube-system')}/proxy/binding",
        binding("proxy", annotations={"a": "b"}),
        WITHOUT,
    ),
    "a label by way of the binding": (
        "POST",
        f"{PODS.format('team')}/p/binding",
        binding("p", labels={"app": "bank"}),
        WITHOUT,
    ),
    "the volume of another claim": (
        "PATCH",
        f"{VOLUMES}/taken",
        {"spec": {"claimRef": for_claim("new", "2")}},
        ONLY_FREE,
    ),
    "the volume of a claim, for nobody": (
        "PATCH",
        f"{VOLUMES}/taken",
        {"spec": {"claimRef": None}},
        ONLY_FREE,
    ),
    "the volume that its owner reserved for another claim": (
        "PATCH",
        f"{VOLUMES}/kept",
        {"spec": {"claimRef": for_claim("bound", "1")}},
        ONLY_FREE,
    ),
    "what becomes of the data of a volume": (
        "PATCH",
        f"{VOLUMES}/taken",
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        ONLY_CLAIM_REF,
    ),
    "the labels of a volume": (
        "PATCH",
        f"{VOLUMES}/free",
        {"metadata": {"labels": {"a": "b"}}},
        ONLY_CLAIM_REF,
    ),
    "the labels of a claim": (
        "PATCH",
        f"{CLAIMS.format('team')}/new",
        {"metadata": {"labels": {"a": "b"}}},
        ONLY_NODE,
    ),
    "the volume of a claim by its name": (
        "PATCH",
        f"{CLAIMS.format('team')}/new",
        {"spec": {"volumeName": "taken"}},
        ONLY_NODE,
    ),
    "another node for a claim": (
        "PATCH",
        f"{CLAIMS.format('team')}/placed",
        {"metadata": {"annotations": {SELECTED: "n2"}}},
        ONCE,
    ),
    "a node for a claim that has a volume": (
        "PATCH",
        f"{CLAIMS.format('team')}/bound",
        {"metadata": {"annotations": {SELECTED: "n2"}}},
        ONCE,
    ),
    "the minimum of a group": (
        "PATCH",
        f"{GROUPS.format('team')}/plain",
        {"spec": {"minMembers": 50}},
        ONLY_RESULTS,
    ),
    "the constraints of a group": (
        "PATCH",
        f"{GROUPS.format('team')}/plain",
        {"metadata": {"annotations": {"muster.dev/topology-constraints": "{}"}}},
        ONLY_RESULTS,
    ),
    "the size of a group ConfigMap": (
        "PATCH",
        f"{CORE}/team/configmaps/g",
        {"data": {"size": "50"}},
        "the scheduler changes only data.status, data.reason",
    ),
    "another ConfigMap": (
        "PATCH",
        f"{CORE}/team/configmaps/plain",
        {"data": {"status": "x"}},
        "the scheduler may write only muster-history-* in namespace muster-system",
    ),
    "a budget that keeps a tenant's nodes from being drained": (
        "POST",
        BUDGETS.format("team"),
        budget("podgroup-2", {}, {UID_LABEL: "2"}),
        ONLY_BUDGETS,
    ),
    "a budget that selects another group": (
        "POST",
        BUDGETS.format("team"),
        own_budget("2", selected="3"),
        ONLY_BUDGETS,
    ),
    "a budget in kube-system": ("POST", BUDGETS.format("kube-system"), own_budget("2"), EXEMPT),
    "somebody's budget": ("DELETE", f"{BUDGETS.format('team')}/theirs", None, ONLY_BUDGETS),
    "what somebody's budget protects": (
        "PATCH",
        f"{BUDGETS.format('team')}/theirs",
        {"spec": {"minAvailable": 0}},
        ONLY_BUDGETS,
    ),
    "a new pod": ("POST", PODS.format("team"), pod("more"), 'cannot create resource "pods"'),
    "a container in a running pod": (
        *patched("team", "p", {"spec": {"ephemeralContainers": []}}, "/ephemeralcontainers"),
        'cannot patch resource "pods/ephemeralcontainers"',
    ),
    "a command in a running pod": (
        "GET",
        f"{PODS.format('team')}/p/exec?command=id",
        None,
        'cannot get resource "pods/exec"',
    ),
    "Secrets": ("GET", f"{CORE}/team/secrets/password", None, 'cannot get resource "secrets"'),
    "a node": (
        "PATCH",
        "/api/v1/nodes/n1",
        {"metadata": {"labels": {"a": "b"}}},
        'cannot patch resource "nodes"',
    ),
    "a token of another account": (
        "POST",
        f"{CORE}/{NAMESPACE}/serviceaccounts/muster-webhook/token",
        {"spec": {}},
        'cannot create resource "serviceaccounts/token"',
    ),
    "a quota": (
        "PATCH",
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/elasticquotas/q",
        {"spec": {}},
        'cannot patch resource "elasticquotas"',
    ),
}

SCHEDULER_CARRIED_OUT = {
    "labels of members and ranks": patched(
        "team",
        "p",
        {
            "metadata": {
                "labels": {
                    UID_LABEL: "1",
                    "sakkara.member.rank": "0",
                    "sakkara.member.retries": "0",
                    "sakkara.member.status": "Bound",
                }
            }
        },
    ),
    "why a pod waits, and its nominated node": patched(
        "team", "p", {"status": {"nominatedNodeName": "n1", **condition("PodScheduled")["status"]}}, "/status"
    ),
    "that a pod of kube-system is evicted": patched(
        "kube-system", "proxy", condition("DisruptionTarget", "True"), "/status"
    ),
    "the deletion of any pod": ("DELETE", f"{PODS.format('kube-system')}/proxy", None),
    "the binding of any pod that has no node": (
        "POST",
        f"{PODS.format('kube-system')}/proxy/binding",
        binding("proxy"),
    ),
    "a volume that is free": (
        "PATCH",
        f"{VOLUMES}/free",
        {
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": for_claim("new", "2")},
        },
    ),
    "a volume that is reserved for the claim": (
        "PATCH",
        f"{VOLUMES}/kept",
        {"spec": {"claimRef": for_claim("new", "2")}},
    ),
    "the node of a claim": (
        "PATCH",
        f"{CLAIMS.format('team')}/new",
        {"metadata": {"annotations": {SELECTED: "n1"}}},
    ),
    "the results of a group": (
        "PATCH",
        f"{GROUPS.format('team')}/plain",
        {"metadata": {"annotations": {"muster.dev/topology-results": "{}"}}},
    ),
    "the status of a group": (
        "PATCH",
        f"{GROUPS.format('team')}/plain/status",
        {"status": {"phase": "Running"}},
    ),
    "the results of a group ConfigMap": (
        "PATCH",
        f"{CORE}/team/configmaps/g",
        {"data": {"status": "Bound", "rank": "[]", "reason": None}},
    ),
    "a budget of a gang": ("POST", BUDGETS.format("team"), own_budget("2")),
    "another minimum in it": ("PATCH", f"{BUDGETS.format('team')}/podgroup-1", {"spec": {"minAvailable": 2}}),
    "its end": ("DELETE", f"{BUDGETS.format('team')}/podgroup-1", None),
    "all ConfigMaps, to read": ("GET", "/api/v1/configmaps", None),
    "an Event about anything": (
        "POST",
        "/apis/events.k8s.io/v1/namespaces/kube-system/events",
        {
            "metadata": {"name": "e"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "somebody",
            "reportingInstance": "else",
            "action": "Said",
            "reason": "Said",
            "type": "Warning",
            "regarding": {"kind": "Pod", "namespace": "kube-system", "name": "proxy"},
        },
    ),
}

ASKED = "the webhook writes PodGroups only in namespaces with muster.dev/gang=auto"
MADE = "the webhook touches only PodGroups that it made: metadata.labels[muster.dev/gang]=auto"
NEW = "the webhook makes PodGroups with metadata.labels[muster.dev/gang]=auto, minMembers and minMembersFrom"
ONLY_MINIMUM = "the webhook changes only spec.minMembers, metadata.ownerReferences"
MORE: Obj = {"spec": {"minMembers": 50}}

WEBHOOK_REFUSED = {
    "a group where nobody asked": ("POST", GROUPS.format("team"), group("more", AUTO), ASKED),
    "a group in kube-system": ("PATCH", f"{GROUPS.format('kube-system')}/marked", MORE, ASKED),
    "a group in a namespace that is exempt": ("PATCH", f"{GROUPS.format('exempted')}/made", MORE, ASKED),
    "a marked group where nobody asked": ("PATCH", f"{GROUPS.format('team')}/marked", MORE, ASKED),
    "its end": ("DELETE", f"{GROUPS.format('team')}/marked", None, ASKED),
    "the minimum of a tenant's group": ("PATCH", f"{GROUPS.format('fleet')}/mine", MORE, MADE),
    "the mark on a tenant's group": (
        "PATCH",
        f"{GROUPS.format('fleet')}/mine",
        {"metadata": {"labels": AUTO}},
        MADE,
    ),
    "the end of a tenant's group": ("DELETE", f"{GROUPS.format('fleet')}/mine", None, MADE),
    "a group without the mark": ("POST", GROUPS.format("fleet"), group("more"), NEW),
    "a group that reserves quota": (
        "POST",
        GROUPS.format("fleet"),
        group("more", AUTO, totalResources={"cpu": "100"}),
        NEW,
    ),
    "a reservation for a group that it made": (
        "PATCH",
        f"{GROUPS.format('fleet')}/made",
        {"spec": {"totalResources": {"cpu": "100"}}},
        "the spec of a PodGroup cannot be changed",
    ),
    "the labels of a group that it made": (
        "PATCH",
        f"{GROUPS.format('fleet')}/made",
        {"metadata": {"labels": {"muster.dev/gang": None}}},
        ONLY_MINIMUM,
    ),
    "the image of a pod": (*patched("team", "theirs", EVIL), "never what they run"),
    "a label of a pod": (
        *patched("team", "theirs", {"metadata": {"labels": {"app": "bank"}}}),
        "the webhook changes only metadata.ownerReferences",
    ),
    "a pod of Muster": ("DELETE", f"{PODS.format('team')}/p", None, "pods of the default scheduler only"),
    "a pod of kube-system": (
        "DELETE",
        f"{PODS.format('kube-system')}/proxy",
        None,
        "leaves exempt namespaces alone",
    ),
    "Secrets of others": ("GET", f"{CORE}/team/secrets/password", None, 'cannot get resource "secrets"'),
    "a new pod": ("POST", PODS.format("team"), pod("more"), 'cannot create resource "pods"'),
    "the end of its configurations": (
        "DELETE",
        f"{WEBHOOKS}/muster-webhook",
        None,
        'cannot delete resource "validatingwebhookconfigurations"',
    ),
}

LEDGER: Obj = {
    "apiVersion": "muster.dev/v1alpha1",
    "kind": "ReservationLedger",
    "metadata": {"name": "reservations"},
    "spec": {},
}
WEBHOOK_CARRIED_OUT = {
    "its own key": ("GET", f"{CORE}/{NAMESPACE}/secrets/muster-webhook-certificate", None),
    "the reservations of any namespace": (
        "POST",
        "/apis/muster.dev/v1alpha1/namespaces/team/reservationledgers",
        LEDGER,
    ),
    "a group that an owner asks for": ("POST", GROUPS.format("fleet"), group("more", AUTO)),
    "its minimum": ("PATCH", f"{GROUPS.format('fleet')}/made", MORE),
    "its owners": ("PATCH", f"{GROUPS.format('fleet')}/made", {"metadata": {"ownerReferences": [OWNER]}}),
    "its end": ("DELETE", f"{GROUPS.format('fleet')}/made", None),
    "the group of a pod that passed by": patched(
        "team", "theirs", {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}}
    ),
    "the end of a pod that passed by": ("DELETE", f"{PODS.format('team')}/theirs", None),
}

CONSOLE_REFUSED = {
    "a pod": (*patched("team", "p", {"metadata": {"labels": {"a": "b"}}}), 'cannot patch resource "pods"'),
    "the end of a pod": ("DELETE", f"{PODS.format('team')}/p", None, 'cannot delete resource "pods"'),
    "a ConfigMap": (
        "POST",
        f"{CORE}/team/configmaps",
        {"metadata": {"name": "more"}},
        'cannot create resource "configmaps"',
    ),
    "Secrets": ("GET", f"{CORE}/team/secrets/password", None, 'cannot get resource "secrets"'),
}
CONSOLE_CARRIED_OUT = {
    "all pods, to read": ("GET", "/api/v1/pods", None),
    "all ConfigMaps, to read": ("GET", "/api/v1/configmaps", None),
}

REFUSED: dict[str, dict[str, Any]] = {
    "scheduler": SCHEDULER_REFUSED,
    "webhook": WEBHOOK_REFUSED,
    "console": CONSOLE_REFUSED,
}
CARRIED_OUT: dict[str, dict[str, Any]] = {
    "scheduler": SCHEDULER_CARRIED_OUT,
    "webhook": WEBHOOK_CARRIED_OUT,
    "console": CONSOLE_CARRIED_OUT,
}
