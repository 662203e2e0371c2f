"""What a cluster asks of Muster in a day, in a minute: quotas, gangs, topology, volumes, load."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from scheduler_core.model.timestamps import format_time
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, create_pod, create_quota, events
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.webhooks.try_again import until_decided
from webhook.owner_gangs.table import built_in

NODES = ("node-0", "node-1")
GROUPS = "/apis/incubator.scheduling.k8s.io/v1alpha1/namespaces/{}/podgroups"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
SECONDS = 60.0


def nodes_with_load(cluster: Cluster) -> None:
    """Two nodes of four CPUs, and a metrics API that knows how busy they are."""
    now = format_time(time.time())
    for name in NODES:
        create_node(cluster, name)
        use = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": name},
            "timestamp": now,
            "window": "30s",
            "usage": {"cpu": "1", "memory": "1Gi"},
        }
        cluster.request("POST", "/apis/metrics.k8s.io/v1beta1/nodes", use)


def a_stranger(cluster: Cluster) -> None:
    """A pod of the default scheduler where a quota is: what slips through while no webhook is there."""
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "early"}})
    create_quota(cluster, "early", {}, {"cpu": "1"})
    create_pod(cluster, "early", "stranger", schedulerName="default-scheduler", nodeName=NODES[0], cpu="100m")


def pods_that_pass_by(cluster: Cluster, namespace: str) -> None:
    """Pods of a Job, of a StatefulSet and of nobody, while no webhook is there: each goes elsewhere."""
    for name, kind, version in (("of-job", "Job", "batch/v1"), ("of-set", "StatefulSet", "apps/v1")):
        owner = {"apiVersion": version, "kind": kind, "name": "gone", "uid": name, "controller": True}
        labels = {"batch.kubernetes.io/controller-uid": name}
        member(cluster, namespace, name, {"labels": labels, "ownerReferences": [owner]})
    member(cluster, namespace, "of-nobody", {})
    assert elsewhere(cluster, namespace) >= {"of-job", "of-set", "of-nobody"}


def elsewhere(cluster: Cluster, namespace: str) -> set[str]:
    """The pods that the default scheduler has."""
    items = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {pod["metadata"]["name"] for pod in items if pod["spec"]["schedulerName"] == "default-scheduler"}


def what_passed_by_is_brought_back(cluster: Cluster, namespace: str = "early") -> None:
    """The policy takes what a controller makes again; what nobody would make again is told of."""

    def done() -> bool:
        assert not {"of-job", "of-set"} & elsewhere(cluster, namespace)
        told = {event["regarding"]["name"] for event in events(cluster, namespace, "RuleBroken")}
        return "of-nobody" in told & elsewhere(cluster, namespace)

    eventually(done, SECONDS)


def borrowed_and_reclaimed(cluster: Cluster) -> None:
    """One team takes all CPUs, the other asks for its min."""
    lender, borrower = cluster.namespace("lender"), cluster.namespace("borrower")
    create_quota(cluster, borrower, {"cpu": "2"}, {"cpu": "6"})
    create_quota(cluster, lender, {"cpu": "5"}, {"cpu": "6"})
    for number in range(6):
        create_pod(cluster, borrower, f"idle-{number}", schedulerName="")
    eventually(lambda: len(bound(cluster, borrower)) == 6, SECONDS)
    create_pod(cluster, lender, "owner", cpu="3", schedulerName="")
    eventually(lambda: "owner" in bound(cluster, lender), SECONDS)
    for namespace in (lender, borrower):
        cluster.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")


def a_gang_with_a_reservation(cluster: Cluster) -> None:
    """A group that reserves what its pods will use, under a native quota; beside it the pod of a Job."""
    namespace = cluster.namespace("gang")
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    limits = {"requests.cpu": "2"}
    cluster.request("POST", quotas, {"metadata": {"name": "hard"}, "spec": {"hard": limits}})
    used = {"status": {"hard": limits, "used": {"requests.cpu": "0"}}}
    cluster.request("PATCH", f"{quotas}/hard/status", used)
    group = {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "workers"},
        "spec": {"minMembers": 2, "totalResources": {"cpu": "1"}},
    }
    until_decided(lambda: cluster.request("POST", GROUPS.format(namespace), group))
    for number in range(2):
        member(cluster, namespace, f"worker-{number}", {"annotations": {GROUP_ANNOTATION: "workers"}})
    owned = {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "1", "controller": True}
    member(cluster, namespace, "owned", {"ownerReferences": [owned]})
    eventually(lambda: len(bound(cluster, namespace)) >= 2, SECONDS)

    def told() -> bool:
        status = cluster.request("GET", GROUPS.format(namespace) + "/workers").get("status", {})
        return bool(status.get("conditions"))

    eventually(told, SECONDS)
    a_budget_as_long_as_the_gang_runs(cluster, namespace)


def a_budget_as_long_as_the_gang_runs(cluster: Cluster, namespace: str) -> None:
    """It wants as many members as run, and goes with the last of them."""
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"

    def wanted() -> list[int]:
        return [item["spec"]["minAvailable"] for item in cluster.request("GET", budgets)["items"]]

    expected: list[list[int]] = [[2], [1], []]
    for number, still in enumerate(expected):
        if number:
            path = f"/api/v1/namespaces/{namespace}/pods/worker-{number - 1}/status"
            cluster.request("PATCH", path, {"status": {"phase": "Succeeded"}})
        eventually(lambda still=still: wanted() == still, SECONDS)  # type: ignore[misc]


def a_pod_for_nobody(cluster: Cluster) -> None:
    """The webhook looks for the scheduler that a pod names."""
    namespace = cluster.namespace("nobody")
    member(cluster, namespace, "lost", {}, schedulerName="nobody-runs-this")


def member(
    cluster: Cluster, namespace: str, name: str, metadata: dict[str, Any], query: str = "", **spec: Any
) -> None:
    """A small pod with labels, annotations or owners."""
    resources = {"requests": {"cpu": "100m"}}
    body = {
        "metadata": {"name": name, **metadata},
        "spec": {
            "containers": [{"name": "main", "image": "example.com/app:1", "resources": resources}],
            **spec,
        },
    }
    until_decided(lambda: cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods{query}", body))


def a_gang_from_its_owner(cluster: Cluster, namespace: str = "fleet") -> None:
    """A Job is a gang as it is; its group follows it, and goes with it."""
    labels = {"muster.dev/gang": "auto"}
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    jobs, groups = f"/apis/batch/v1/namespaces/{namespace}/jobs", GROUPS.format(namespace)
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/app:1"}]}
    }
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": template}
    job = cluster.request("POST", jobs, {"metadata": {"name": "boat"}, "spec": spec})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "boat", "uid": job["metadata"]["uid"]}

    def minimum() -> list[int]:
        return [item["spec"]["minMembers"] for item in cluster.request("GET", groups)["items"]]

    for name in ("first", "second"):
        member(cluster, namespace, name, {"ownerReferences": [{**owner, "controller": True}]})
    eventually(lambda: minimum() == [2], SECONDS)
    eventually(lambda: len(bound(cluster, namespace)) == 2, SECONDS)
    cluster.request("PATCH", f"{jobs}/boat", {"spec": {"parallelism": 3, "completions": 3}})
    eventually(lambda: minimum() == [3], SECONDS)
    cluster.request("DELETE", f"{jobs}/boat", {"propagationPolicy": "Background"})
    eventually(lambda: minimum() == [], SECONDS)


def owners_of_every_kind(cluster: Cluster, namespace: str = "harbour") -> None:
    """Pods whose owners are of the kinds of the table: none of them is there, so the pods have no gang."""
    labels = {"muster.dev/gang": "auto"}
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    kinds = [(entry.group, entry.kind) for entry in built_in().entries]
    for number, (group, kind) in enumerate([*kinds, ("example.com", "Ship")]):
        api = f"{group}/v1" if group else "v1"
        owner = {"apiVersion": api, "kind": kind, "name": "gone", "uid": f"{number}", "controller": True}
        member(cluster, namespace, f"owned-{number}", {"ownerReferences": [owner]})
    names = {
        "labels": {"pod-group.scheduling.sigs.k8s.io": "gone"},
        "annotations": {GROUP_ANNOTATION: "gone"},
    }
    member(cluster, namespace, "named", names)
    assert cluster.request("GET", GROUPS.format(namespace))["items"] == []
    # The name of its group is taken.
    mine = {"apiVersion": "incubator.scheduling.k8s.io/v1alpha1", "kind": "PodGroup"}
    body = {**mine, "metadata": {"name": "light"}, "spec": {"minMembers": 2}}
    cluster.request("POST", GROUPS.format(namespace), body)
    light = {
        "gang.scheduling.koordinator.sh/name": "light",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    taken = "delete or rename it, or annotate the pods with their group"

    def refused() -> bool:
        # By what the watch of the webhook shows.
        try:
            member(cluster, namespace, "light", {"annotations": light}, "?dryRun=All")
        except RequestFailed as error:
            return taken in str(error)
        return False

    eventually(refused, SECONDS)
    with pytest.raises(RequestFailed, match=taken):
        member(cluster, namespace, "light", {"annotations": light})


def a_gang_that_its_pods_name(cluster: Cluster, namespace: str = "ferry") -> None:
    """Its group is made when a pod is stored, and has the minimum of the latest pod."""
    labels = {"muster.dev/gang": "auto"}
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    numbers = itertools.count()

    def follows(minimum: int) -> bool:
        # Creation times are whole seconds: one of these pods is the latest.
        said = {"name": "light", "min-available": str(minimum)}
        words = {f"gang.scheduling.koordinator.sh/{key}": value for key, value in said.items()}
        member(cluster, namespace, f"light-{next(numbers)}", {"annotations": words})
        items = cluster.request("GET", GROUPS.format(namespace))["items"]
        return [item["spec"]["minMembers"] for item in items] == [minimum]

    eventually(lambda: follows(2), SECONDS)
    eventually(lambda: follows(3), SECONDS)


def a_group_in_the_tree(cluster: Cluster) -> None:
    """A topology and two groups in it: one as a ConfigMap, one as a PodGroup with constraints."""
    tree = {
        "metadata": {"name": "tree", "labels": {"sakkara.topology": ""}},
        "data": {
            "name": "tree",
            "resource-names": '["cpu"]',
            "level-names": '["rack", "node"]',
            "tree": '{"rack-0": {"node-0": {}}, "rack-1": {"node-1": {}}}',
        },
    }
    cluster.request("POST", "/api/v1/namespaces/default/configmaps", tree)
    namespace = cluster.namespace("topology")
    constraints = '{"rack": {"type": "pack"}}'
    group = {
        "metadata": {"name": "pair", "labels": {"sakkara.group": ""}},
        "data": {"name": "pair", "size": "2", "priority": "0", "constraints": constraints},
    }
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", group)
    native = {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "trio", "annotations": {"muster.dev/topology-constraints": constraints}},
        "spec": {"minMembers": 2},
    }
    cluster.request("POST", GROUPS.format(namespace), native)
    for number in range(2):
        labels = {"labels": {"sakkara.group.name": "pair"}}
        member(cluster, namespace, f"pair-{number}", labels, schedulerName="muster-topology")
        mark = {"annotations": {GROUP_ANNOTATION: "trio"}}
        member(cluster, namespace, f"trio-{number}", mark, schedulerName="muster-topology")
    eventually(lambda: len(bound(cluster, namespace)) == 4, SECONDS)

    def reported() -> bool:
        found = cluster.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/pair")
        return bool(found["data"].get("rank"))

    eventually(reported, SECONDS)


def volumes_for_pods(cluster: Cluster) -> None:
    """A claim that a volume of the chosen node fits, and one that a provisioner has to serve."""
    namespace = cluster.namespace("volumes")
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "example.com/disks")):
        storage = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        cluster.request("POST", "/apis/storage.k8s.io/v1/storageclasses", storage)
        claim = {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": name,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", claim)
    on_node = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODES[0]]}]
    volume = {
        "metadata": {"name": "disk"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": on_node}]}},
        },
    }
    cluster.request("POST", "/api/v1/persistentvolumes", volume)
    # There is no controller of volumes here to say so.
    available = {"status": {"phase": "Available"}}
    cluster.request("PATCH", "/api/v1/persistentvolumes/disk/status", available)
    for name in ("local", "made"):
        claims = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        member(cluster, namespace, name, {}, schedulerName="muster-scheduler", volumes=claims)

    def chosen() -> bool:
        disk = cluster.request("GET", "/api/v1/persistentvolumes/disk")
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/made"
        notes = cluster.request("GET", path)["metadata"].get("annotations", {})
        pods = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert "claimRef" in disk["spec"], [pod["status"] for pod in pods]
        assert "volume.kubernetes.io/selected-node" in notes, [pod["status"] for pod in pods]
        return True

    eventually(chosen, SECONDS)


def an_old_day_of_history(cluster: Cluster, namespace: str) -> None:
    """Longer ago than history is kept."""
    meta = {"name": "muster-history-2020-01-01", "labels": {"muster.dev/history": "true"}}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": meta})


def history_is_kept(cluster: Cluster, namespace: str) -> None:
    """Old days go, today is written, and what somebody damaged is written anew."""
    place = f"/api/v1/namespaces/{namespace}/configmaps"

    def days() -> dict[str, Any]:
        items = cluster.request("GET", f"{place}?labelSelector=muster.dev/history=true")["items"]
        return {item["metadata"]["name"]: item for item in items}

    eventually(lambda: days() and "muster-history-2020-01-01" not in days(), SECONDS)
    today = max(days())
    cluster.request("PATCH", f"{place}/{today}", {"data": {"day.json": "nonsense"}, "binaryData": None})
    eventually(lambda: days()[today].get("data", {}).get("day.json") != "nonsense", SECONDS)


def load_is_reported(cluster: Cluster) -> None:
    """NodeMetrics are filled, follow the configuration, and go with their node."""

    def filled() -> bool:
        found = cluster.request("GET", METRICS)["items"]
        return len([item for item in found if item.get("status", {}).get("updateTime")]) == len(NODES)

    eventually(filled, SECONDS)
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "koordinator-system"}})
    settings = '{"enable": true, "metricAggregateDurationSeconds": 600, "metricReportIntervalSeconds": 120}'
    policy = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": settings}}
    cluster.request("POST", "/api/v1/namespaces/koordinator-system/configmaps", policy)

    def followed() -> bool:
        spec = cluster.request("GET", f"{METRICS}/{NODES[0]}")["spec"]["metricCollectPolicy"]
        return bool(spec["reportIntervalSeconds"] == 120)

    eventually(followed, SECONDS)
    cluster.request("DELETE", f"/api/v1/nodes/{NODES[1]}")
    eventually(lambda: len(cluster.request("GET", METRICS)["items"]) == 1, SECONDS)


def a_department_and_a_type_of_gpu(cluster: Cluster) -> None:
    """A group of quotas and a flavor: the scheduler tells of both what it sees."""
    muster = "/apis/muster.dev/v1alpha1"
    selector = {"kubernetes.io/hostname": NODES[0]}
    for plural, kind, spec in (
        ("quotagroups", "QuotaGroup", {"max": {"cpu": "4"}}),
        ("quotaflavors", "QuotaFlavor", {"resource": "example.com/gpu", "nodeSelector": selector}),
    ):
        made = {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": {"name": "new"}, "spec": spec}
        cluster.request("POST", f"{muster}/{plural}", made)

        def told(path: str = f"{muster}/{plural}/new") -> bool:
            conditions = cluster.request("GET", path).get("status", {}).get("conditions", [])
            return any(item["type"] == "Valid" and item["status"] == "True" for item in conditions)

        eventually(told, SECONDS)
