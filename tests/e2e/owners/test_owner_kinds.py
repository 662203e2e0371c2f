"""Every kind of the table with the schema that its project released: the server accepts the owner, the pod
joins a group with the owner's minimum.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.owners.conftest import CRD_PATH, install
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.scheduler import create_priority_class
from tests.support.clusters.server import RequestFailed, request
from tests.support.eventually import eventually
from webhook.owner_gangs.table import built_in

Obj = dict[str, Any]
KEY = "scheduling.k8s.io/group-name"
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{}/podgroups"
CONTAINERS = [{"name": "main", "image": "example.com/app:1"}]
TEMPLATE = {"spec": {"containers": CONTAINERS}}
RAY_WORKERS = {
    "groupName": "w",
    "replicas": 3,
    "minReplicas": 1,
    "maxReplicas": 5,
    "numOfHosts": 2,
    "rayStartParams": {},
    "template": TEMPLATE,
}
RAY = {"headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}, "workerGroupSpecs": [RAY_WORKERS]}
SPARK = {
    "type": "Python",
    "sparkVersion": "3.5.3",
    "mainApplicationFile": "local:///main.py",
    "driver": {"cores": 1},
    "executor": {"instances": 5},
}


def replicas(role: int, template: Obj = TEMPLATE) -> Obj:
    return {"replicas": role, "template": template}


# name, apiVersion, kind, plural, spec, labels of the pod, name of the group, minimum
CASES: list[tuple[str, str, str, str, Obj, Obj, str, int]] = [
    ("JobSet", "jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets",
     {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {
         "parallelism": 3, "template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}}}}],
      "suspend": True}, {}, "jobset-o", 6),
    ("TrainJob", "trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs",
     {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 4}},
     {"jobset.sigs.k8s.io/replicatedjob-name": "node"}, "trainjob-o", 4),
    ("PyTorchJob", "kubeflow.org/v1", "PyTorchJob", "pytorchjobs",
     {"pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(3)}},
     {}, "pytorchjob-o", 4),
    ("PyTorchJob with a minimum", "kubeflow.org/v1", "PyTorchJob", "pytorchjobs",
     {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}, "pytorchReplicaSpecs": {"Worker": replicas(3)}},
     {}, "pytorchjob-o", 2),
    ("MPIJob", "kubeflow.org/v2beta1", "MPIJob", "mpijobs",
     {"mpiReplicaSpecs": {"Launcher": replicas(1), "Worker": replicas(3)}}, {}, "mpijob-o", 4),
    ("MPIJob whose launcher waits", "kubeflow.org/v2beta1", "MPIJob", "mpijobs",
     {"launcherCreationPolicy": "WaitForWorkersReady",
      "mpiReplicaSpecs": {"Launcher": replicas(1), "Worker": replicas(3)}},
     {"training.kubeflow.org/job-role": "worker"}, "mpijob-o", 3),
    ("RayCluster", "ray.io/v1", "RayCluster", "rayclusters", RAY, {"ray.io/node-type": "head"},
     "raycluster-o", 7),
    ("RayCluster by its minimum", "ray.io/v1", "RayCluster", "rayclusters",
     {**RAY, "workerGroupSpecs": [{**RAY_WORKERS, "replicas": 0, "minReplicas": 2}]},
     {"ray.io/node-type": "head"}, "raycluster-o", 5),
    ("RayCluster that scales", "ray.io/v1", "RayCluster", "rayclusters",
     {**RAY, "enableInTreeAutoscaling": True}, {"ray.io/node-type": "head"}, "raycluster-o", 3),
    ("RayJob", "ray.io/v1", "RayJob", "rayjobs", {"entrypoint": "python main.py", "rayClusterSpec": RAY},
     {"ray.io/node-type": "worker"}, "rayjob-o", 7),
    ("SparkApplication", "sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications", SPARK,
     {"spark-role": "executor"}, "sparkapplication-o", 5),
    ("SparkApplication that scales", "sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications",
     {**SPARK, "dynamicAllocation": {"enabled": True, "minExecutors": 2}}, {"spark-role": "executor"},
     "sparkapplication-o", 2),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets",
     {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": TEMPLATE}, "rolloutStrategy": {
         "type": "RollingUpdate"}},
     {"leaderworkerset.sigs.k8s.io/group-index": "1"}, "leaderworkerset-o-1", 4),
    ("MPIJob v1", "kubeflow.org/v1", "MPIJob", "mpijobs",
     {"mpiReplicaSpecs": {"Launcher": replicas(1), "Worker": replicas(2)}}, {}, "mpijob-o", 3),
]  # fmt: skip


def create_owner(cluster: Cluster, namespace: str, api: str, kind: str, plural: str, spec: Obj) -> Obj:
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": "o"}, "spec": spec}
    made: Obj = cluster.request("POST", f"/apis/{api}/namespaces/{namespace}/{plural}", body)
    return made


def create_pod(cluster: Cluster, namespace: str, **meta: Any) -> Obj:
    body = {"metadata": {"name": "p", **meta}, "spec": {"containers": CONTAINERS}}
    made: Obj = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    return made


def group_of(cluster: Cluster, namespace: str, name: str) -> Obj:
    """The group of a pod; that of a pod's own words is made when the pod is stored."""

    def made() -> list[Obj]:
        items: list[Obj] = cluster.request("GET", GROUPS.format(namespace))["items"]
        return [item for item in items if item["metadata"]["name"] == name]

    return eventually(made, 60)[0]


@pytest.mark.parametrize(
    ("name", "api", "kind", "plural", "spec", "labels", "group", "minimum"), CASES, ids=[c[0] for c in CASES]
)
def test_released_schema_gives_the_minimum_of_the_gang(
    cluster: Cluster,
    plane: ControlPlane,
    team: str,
    name: str,
    api: str,
    kind: str,
    plural: str,
    spec: Obj,
    labels: Obj,
    group: str,
    minimum: int,
) -> None:
    if name == "MPIJob v1":
        replace_crd(plane, "mpijobs.kubeflow.org", name)
    owner = create_owner(cluster, team, api, kind, plural, spec)
    uid = owner["metadata"]["uid"]
    reference = {"apiVersion": api, "kind": kind, "name": "o", "uid": uid}
    made = create_pod(cluster, team, labels=labels, ownerReferences=[{**reference, "controller": True}])
    assert made["metadata"]["annotations"][KEY] == group
    assert made["spec"]["schedulerName"] == "muster-scheduler"
    found = group_of(cluster, team, group)
    assert found["spec"] == {"minMembers": minimum, "minMembersFrom": "Owner"}
    assert found["metadata"]["ownerReferences"] == [reference]


def replace_crd(plane: ControlPlane, stored: str, released: str) -> None:
    """Both projects name their CRD alike."""
    request(plane, "DELETE", f"{CRD_PATH}/{stored}")

    def replaced() -> bool:
        try:
            install(plane, released)
        except RequestFailed as error:
            if error.status != 409:
                raise
            return False
        return True

    eventually(replaced)
    await_established(plane)


def test_every_kind_of_the_table_is_tested() -> None:
    tested = {(api.partition("/")[0], kind) for _, api, kind, *_ in CASES}
    others = {("batch", "Job"), ("scheduling.volcano.sh", "PodGroup"), ("", "Pod")}
    others.add(("scheduling.sigs.k8s.io", "PodGroup"))
    assert {(entry.group, entry.kind) for entry in built_in().entries} == tested | others


def test_priority_class_of_the_owner_becomes_that_of_its_pods(cluster: Cluster, team: str) -> None:
    create_priority_class(cluster, "owners-high", 1234)
    _, api, kind, plural, spec, *_ = next(case for case in CASES if case[0] == "PyTorchJob")
    said = {**spec, "runPolicy": {"schedulingPolicy": {"priorityClass": "owners-high"}}}
    owner = create_owner(cluster, team, api, kind, plural, said)
    reference = {"apiVersion": api, "kind": kind, "name": "o", "uid": owner["metadata"]["uid"]}
    made = create_pod(cluster, team, ownerReferences=[{**reference, "controller": True}])
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("owners-high", 1234)


NAMED: list[tuple[str, str, Obj, Obj]] = [
    ("PodGroup of Volcano", "scheduling.volcano.sh/v1beta1", {"minMember": 3}, {"annotations": {KEY: "o"}}),
    (
        "PodGroup of Koordinator",
        "scheduling.sigs.k8s.io/v1alpha1",
        {"minMember": 3},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "o"}},
    ),
]


@pytest.mark.parametrize(("name", "api", "spec", "meta"), NAMED, ids=[case[0] for case in NAMED])
def test_group_of_another_scheduler_that_a_pod_names_gets_a_twin(
    cluster: Cluster, team: str, name: str, api: str, spec: Obj, meta: Obj
) -> None:
    owner = create_owner(cluster, team, api, "PodGroup", "podgroups", spec)
    assert create_pod(cluster, team, **meta)["metadata"]["annotations"][KEY] == "o"
    found = group_of(cluster, team, "o")
    assert found["spec"]["minMembers"] == 3
    assert found["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]


def test_labels_of_koordinator_on_bare_pods_make_a_group(cluster: Cluster, team: str) -> None:
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "light",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    assert create_pod(cluster, team, labels=labels)["metadata"]["annotations"][KEY] == "light"
    assert group_of(cluster, team, "light")["spec"]["minMembers"] == 2
