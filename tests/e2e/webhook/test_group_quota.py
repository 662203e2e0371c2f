"""Groups of other dialects and their quota, judged by a webhook process behind an API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.webhook.test_reservations import guarded as guarded
from tests.e2e.webhook.test_reservations import hooks as hooks
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.native_groups import (
    create_native_group,
    create_native_members,
    path_of,
    version_of,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

QUOTAS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
X_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups"
FIELD = "spec.schedulingPolicy.gang.minCount"


def limited(cluster: Cluster, cpu: str) -> str:
    """A namespace whose ElasticQuota the webhook has seen."""
    namespace = cluster.namespace()
    spec = {"min": {}, "max": {"cpu": cpu, "pods": "99"}}
    version = "scheduling.x-k8s.io/v1alpha1"
    quota = {"apiVersion": version, "kind": "ElasticQuota", "metadata": {"name": "eq"}, "spec": spec}
    cluster.request("POST", QUOTAS.format(namespace), quota)
    native_refused(cluster, namespace, 100, "spec.max[pods]=99")
    return namespace


def native_refused(cluster: Cluster, namespace: str, minimum: int, words: str, **spec: Any) -> None:
    """Wait until a native group is refused with these words."""
    body = {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec}
    group = {"metadata": {"name": "g"}, "spec": body}
    refused(cluster, "POST", path_of(cluster, namespace), group, words)


def refused(cluster: Cluster, method: str, path: str, body: dict[str, Any], words: str) -> None:
    """Wait until a dry run is refused with these words: what the webhook cannot read in time it allows."""

    def told() -> bool:
        with pytest.raises(RequestFailed) as refusal:
            cluster.request(method, f"{path}?dryRun=All", body)
        assert words in str(refusal.value)
        return True

    eventually(told, timeout=90)


@pytest.mark.smoke
def test_a_native_group_that_can_never_fit_is_refused(guarded: Cluster) -> None:
    namespace = limited(guarded, "3")
    create_native_members(guarded, namespace, "a")
    words = f"{FIELD}=4 pods like the 1 that exist ask for cpu=4, which exceeds spec.max[cpu]=3"
    native_refused(guarded, namespace, 4, words)
    create_native_group(guarded, namespace, 3)


def test_a_minimum_that_is_raised_too_far_is_refused(guarded: Cluster) -> None:
    if version_of(guarded) == "v1alpha2":
        # There the spec cannot be changed at all.
        words = "immutable"
    else:
        words = f"{FIELD}=4 pods like the 1 that exist ask for cpu=4, which exceeds spec.max[cpu]=3"
    namespace = limited(guarded, "3")
    create_native_group(guarded, namespace, 2)
    create_native_members(guarded, namespace, "a")
    body = {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    refused(guarded, "PATCH", path_of(guarded, namespace, "g"), body, words)


def test_a_native_group_before_its_pods_is_judged_by_its_job(guarded: Cluster) -> None:
    namespace = limited(guarded, "3")
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": template}}
    guarded.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    spec = {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
        "podGroupTemplates": [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}],
    }
    workloads = path_of(guarded, namespace).replace("podgroups", "workloads")
    guarded.request("POST", workloads, {"metadata": {"name": "train"}, "spec": spec})
    reference: dict[str, Any] = {"workloadRef": {"workloadName": "train", "templateName": "workers"}}
    if version_of(guarded) == "v1alpha2":
        named = {"workloadName": "train", "podGroupTemplateName": "workers"}
        reference = {"podGroupTemplateRef": {"workload": named}}
    words = (
        f"{FIELD}=2 pods like the template of Job {namespace}/train ask for cpu=4, "
        f"which exceeds spec.max[cpu]=3 of ElasticQuota {namespace}/eq"
    )
    native_refused(guarded, namespace, 2, words, **reference)


@contextmanager
def x_groups(cluster: Cluster) -> Iterator[None]:
    """A server that has the PodGroups of scheduling.x-k8s.io."""
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    name = "podgroups.scheduling.x-k8s.io"
    body = {
        "metadata": {
            "name": name,
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "scheduling.x-k8s.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
    cluster.request("POST", CRDS, body)
    try:
        yield
    finally:
        cluster.request("DELETE", f"{CRDS}/{name}")
        eventually(lambda: "podgroups" not in kinds(cluster, "/apis/scheduling.x-k8s.io/v1alpha1"))


def kinds(cluster: Cluster, version: str) -> set[str]:
    """What the discovery of a version tells; a server keeps it for a moment after a kind is gone."""
    return {item["name"] for item in cluster.request("GET", version)["resources"]}


def test_a_group_of_scheduler_plugins_that_can_never_fit_is_refused(guarded: Cluster) -> None:
    namespace = limited(guarded, "3")
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    member = {
        "metadata": {"name": "a", "labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        "spec": {"containers": [container]},
    }
    guarded.request("POST", f"/api/v1/namespaces/{namespace}/pods", member)

    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
    }
    words = "spec.minMember=4 pods like the 1 that exist ask for cpu=4, which exceeds spec.max[cpu]=3"
    with x_groups(guarded):
        path = X_GROUPS.format(namespace)
        refused(guarded, "POST", path, {**group, "spec": {"minMember": 4}}, words)
        guarded.request("POST", path, {**group, "spec": {"minMember": 3}})
