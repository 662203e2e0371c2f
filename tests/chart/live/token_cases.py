"""Requests with the tokens of Muster's accounts: what is refused, by its words, and what is carried out.

Each is (method, path, body), and where it is refused the words of the refusal. docs/security.md#stolen-tokens
has a sentence for each part of these tables.
"""

from __future__ import annotations

from typing import Any

from tests.chart.live.token_objects import (
    AUTO,
    BUDGETS,
    CLAIMS,
    CORE,
    EVENTS,
    GROUPS,
    LEASES,
    METRICS,
    MUSTER,
    NATIVE_GROUPS,
    PODS,
    QUOTAS,
    SELECTED,
    UID_LABEL,
    VOLUMES,
    WEBHOOKS,
    Obj,
    binding,
    budget,
    condition,
    event,
    for_claim,
    group,
    own_budget,
    pod,
)
from tests.chart.rendering import NAMESPACE


def patched(namespace: str, name: str, body: Obj, part: str = "") -> tuple[str, str, Obj]:
    return "PATCH", f"{PODS.format(namespace)}/{name}{part}", body


EVIL: Obj = {"spec": {"containers": [{"name": "main", "image": "example.com/evil:1"}]}}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}
ONLY_LABELS = "the scheduler changes only metadata.labels[muster.dev/pod-group-uid]"
ONLY_STATUS = "the scheduler changes only status.conditions, status.nominatedNodeName"
ONLY_CONDITIONS = (
    "of status.conditions the scheduler changes only PodScheduled, DisruptionTarget, muster.dev/PreemptedFor"
)
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
        ONLY_CONDITIONS,
    ),
    "that a pod of kube-system is ready": (
        *patched("kube-system", "proxy", condition("Ready", "True"), "/status"),
        ONLY_CONDITIONS,
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
    "the labels of a native group": (
        "PATCH",
        f"{NATIVE_GROUPS.format('team')}/native",
        {"metadata": {"labels": {"a": "b"}}},
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
    "the Lease of another program": (
        "POST",
        LEASES.format("kube-system"),
        {"metadata": {"name": "more"}},
        'cannot create resource "leases"',
    ),
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
    "what somebody's Event says": (
        "PATCH",
        f"{EVENTS.format('team')}/said",
        {"note": "all is well"},
        "field is immutable",
    ),
    "a quota": (
        "PATCH",
        f"{QUOTAS.format('team')}/quota",
        {"spec": {"max": {"cpu": "100"}}},
        'cannot patch resource "elasticquotas"',
    ),
}

EVENT = ("POST", EVENTS.format("kube-system"), event("e", "proxy", "kube-system"))

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
    "the status of a quota": (
        "PATCH",
        f"{QUOTAS.format('team')}/quota/status",
        {"status": {"used": {"cpu": "1"}}},
    ),
    "the status of a group of quotas": (
        "PATCH",
        f"{MUSTER.format('quotagroups')}/all/status",
        {"status": {"used": {"cpu": "1"}}},
    ),
    "a day of the history": (
        "POST",
        f"{CORE}/{NAMESPACE}/configmaps",
        {"metadata": {"name": "muster-history-2026-01-01"}},
    ),
    "what is measured on a node": ("DELETE", f"{METRICS}/n1", None),
    "whose a token is": (
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "made-up"}},
    ),
    "a Lease, so that no scheduler leads": ("POST", LEASES.format(NAMESPACE), {"metadata": {"name": "l"}}),
    "all pods, to read": ("GET", "/api/v1/pods", None),
    "all volumes, to read": ("GET", VOLUMES, None),
    "all ConfigMaps, to read": ("GET", "/api/v1/configmaps", None),
    "an Event about anything": EVENT,
    "an owner of somebody's Event that does not exist, so that it is collected": (
        "PATCH",
        f"{EVENTS.format('team')}/said",
        {"metadata": {"ownerReferences": [OWNER]}},
    ),
}

ASKED = "the webhook writes PodGroups only in namespaces with muster.dev/gang=auto"
MADE = "the webhook touches only PodGroups that it made: metadata.labels[muster.dev/gang]=auto"
NEW = "the webhook makes PodGroups with metadata.labels[muster.dev/gang]=auto, minMembers and minMembersFrom"
ONLY_MINIMUM = "the webhook changes only spec.minMembers, metadata.ownerReferences"
MORE: Obj = {"spec": {"minMembers": 50}}

WEBHOOK_REFUSED = {
    "a quota": (
        "PATCH",
        f"{QUOTAS.format('team')}/quota",
        {"spec": {}},
        'cannot patch resource "elasticquotas"',
    ),
    "a pod to a node": (
        "POST",
        f"{PODS.format('team')}/p/binding",
        binding("p"),
        'cannot create resource "pods/binding"',
    ),
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
    "an Event about anything": EVENT,
    "a pod that leaves its Job": patched(
        "team",
        "theirs",
        {
            "metadata": {
                "ownerReferences": None,
                "labels": {"job-name": None},
                "annotations": {"muster.dev/released": "true"},
            }
        },
    ),
    "all pods, to read": ("GET", "/api/v1/pods", None),
    "all ConfigMaps, to read": ("GET", "/api/v1/configmaps", None),
    "all Events, to read": ("GET", "/apis/events.k8s.io/v1/events", None),
    "all Leases, to read": ("GET", "/apis/coordination.k8s.io/v1/leases", None),
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
