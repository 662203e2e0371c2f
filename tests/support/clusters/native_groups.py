"""Native groups (scheduling.k8s.io) for end-to-end tests, in the version that each server serves."""

from __future__ import annotations

from typing import Any

from tests.support.clusters.cluster import Cluster

VERSIONS = {"sandbox": "v1beta1", "kube-apiserver": "v1alpha2", "kube-apiserver-1.37": "v1beta1"}
# disruptionMode in v1alpha2.
_MODES = {"single": "Pod", "all": "PodGroup"}


def version_of(cluster: Cluster) -> str:
    """The version of the group API."""
    return VERSIONS[cluster.kind]


def scheduled_type(cluster: Cluster) -> str:
    """The type of the condition that says whether a group started."""
    return "PodGroupScheduled" if version_of(cluster) == "v1alpha2" else "PodGroupInitiallyScheduled"


def path_of(cluster: Cluster, namespace: str, name: str = "", subresource: str = "") -> str:
    """The path of a PodGroup or of all."""
    path = f"/apis/scheduling.k8s.io/{version_of(cluster)}/namespaces/{namespace}/podgroups"
    return "/".join(part for part in (path, name, subresource) if part)


def create_native_group(
    cluster: Cluster,
    namespace: str,
    minimum: int | None,
    name: str = "g",
    *,
    topology: str = "",
    mode: str = "",
    **spec: Any,
) -> None:
    """A PodGroup with a minimum, or a basic one (None)."""
    policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    body: dict[str, Any] = {"schedulingPolicy": policy, **spec}
    if topology:
        body["schedulingConstraints"] = {"topology": [{"key": topology}]}
    if mode:
        body["disruptionMode"] = _MODES[mode] if version_of(cluster) == "v1alpha2" else {mode: {}}
    cluster.request("POST", path_of(cluster, namespace), {"metadata": {"name": name}, "spec": body})


def create_native_members(
    cluster: Cluster, namespace: str, *names: str, group: str = "g", cpu: str = "1", **spec: Any
) -> None:
    """Pods of a PodGroup."""
    for name in names:
        container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "metadata": {"name": name},
            "spec": {
                "schedulerName": "muster-scheduler",
                "terminationGracePeriodSeconds": 0,
                "schedulingGroup": {"podGroupName": group},
                "containers": [container],
                **spec,
            },
        }
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def group_condition(cluster: Cluster, namespace: str, type_: str, name: str = "g") -> dict[str, Any]:
    """A condition of a PodGroup; empty where it is not set."""
    found = cluster.request("GET", path_of(cluster, namespace, name))
    conditions = found.get("status", {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == type_), {})
