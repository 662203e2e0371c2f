"""Who may read and write quotas with the roles that the chart adds, asked as such a user."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.chart.rendering import CHART, Obj, objects, of_kind
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.tenant import AGGREGATE, aggregate
from tests.support.eventually import eventually
from tests.tools.build import have

# The first test starts the control plane.
pytestmark = pytest.mark.timeout(300)
TEAM = "team"
RBAC = "rbac.authorization.k8s.io"
EVERYBODY = ("view", "edit", "admin")
# Who has the right of an administrator by a binding, and who by Kubernetes' own group.
ADMINISTRATORS = [["--as=cluster-admin"], ["--as=root", "--as-group=system:masters"]]


def quota(name: str, namespace: str = TEAM) -> Obj:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"min": {"cpu": "1"}},
    }


def group(name: str) -> Obj:
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"minMembers": 1},
    }


def bind(cluster: Cluster, role: str, kind: str, place: str) -> None:
    """Give the user of a role's name the role."""
    body = {
        "metadata": {"name": f"team-{role}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": role}],
    }
    cluster.request("POST", f"/apis/{RBAC}/v1/{place}{kind}", body)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A real API server with Muster's kinds, the chart's roles for users, and a user for each role."""
    with ControlPlane() as server:
        found = Cluster(server, have("kubectl").path, "kube-apiserver")
        found.kubectl("apply", "-f", str(CHART / "crds"))
        await_established(server)
        labels = {AGGREGATE.format(role) for role in EVERYBODY}
        roles = [r for r in of_kind(objects("default"), "ClusterRole") if labels & {*r["metadata"]["labels"]}]
        assert {role["metadata"]["name"] for role in roles} == {"muster-view", "muster-edit"}
        found.kubectl(
            "apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": roles})
        )
        aggregate(found)
        found.request("POST", "/api/v1/namespaces", {"metadata": {"name": TEAM}})
        for role in EVERYBODY:
            bind(found, role, "rolebindings", f"namespaces/{TEAM}/")
        bind(found, "cluster-admin", "clusterrolebindings", "")
        found.kubectl("apply", "-f", "-", input=json.dumps(quota("given")))
        # The API server reads new bindings with a delay.
        for user in (*EVERYBODY, "cluster-admin"):
            eventually(lambda u=user: asked(found, [f"--as={u}"], "get", "podgroups").returncode == 0)  # type: ignore[misc]
        yield found


def asked(
    cluster: Cluster, user: list[str], *args: str, body: Obj | None = None
) -> subprocess.CompletedProcess[str]:
    """kubectl in the team's namespace, as somebody."""
    return cluster.kubectl(
        *args, "-n", TEAM, *user, check=False, input=None if body is None else json.dumps(body)
    )


WRITES: list[tuple[str, list[str], Obj | None]] = [
    ("create", ["create", "-f", "-"], quota("mine")),
    ("update", ["replace", "-f", "-"], quota("given")),
    (
        "patch",
        ["patch", "elasticquota", "given", "--type=merge", "-p", '{"spec": {"min": {"cpu": "9"}}}'],
        None,
    ),
    (
        "patch the status of",
        ["patch", "elasticquota", "given", "--subresource=status", "--type=merge", "-p", '{"status": {}}'],
        None,
    ),
    (
        "move to another department",
        ["label", "elasticquota", "given", "muster.dev/quota-group=dept", "--overwrite"],
        None,
    ),
    ("delete", ["delete", "elasticquota", "given"], None),
    ("delete all", ["delete", "elasticquota", "--all"], None),
]


@pytest.mark.parametrize("role", EVERYBODY)
def test_only_administrators_of_the_cluster_write_quotas(cluster: Cluster, role: str) -> None:
    user = [f"--as={role}"]
    assert "given" in asked(cluster, user, "get", "elasticquotas", "-o", "name").stdout
    for verb, command, body in WRITES:
        done = asked(cluster, user, *command, body=body)
        assert done.returncode == 1, f"{role} may {verb} a quota"
        assert "is forbidden" in done.stderr
    assert (
        asked(cluster, user, "get", "elasticquota", "given", "-o", "jsonpath={.spec.min.cpu}").stdout == "1"
    )


def of_cluster(kind: str, spec: Obj) -> Obj:
    return {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": {"name": "mine"}, "spec": spec}


DEPARTMENTS: list[tuple[str, list[str], Obj | None]] = [
    ("create a group of quotas", ["create", "-f", "-"], of_cluster("QuotaGroup", {"min": {"cpu": "1"}})),
    (
        "raise the max of its department",
        ["patch", "quotagroup", "dept", "--type=merge", "-p", '{"spec": {"max": {"cpu": "9"}}}'],
        None,
    ),
    ("delete its department", ["delete", "quotagroup", "dept"], None),
    (
        "create a flavor",
        ["create", "-f", "-"],
        of_cluster("QuotaFlavor", {"resource": "cpu", "nodeSelector": {"a": "b"}}),
    ),
    (
        "write the ledger of its namespace",
        ["create", "-f", "-"],
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "ReservationLedger",
            "metadata": {"name": "elastic", "namespace": TEAM},
            "spec": {},
        },
    ),
    (
        "report space of a storage class",
        ["create", "-f", "-"],
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "mine", "namespace": TEAM},
            "storageClassName": "fast",
        },
    ),
    (
        "make a volume that is kept for a claim of others",
        ["create", "-f", "-"],
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "mine"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/data"},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "others", "name": "data"},
            },
        },
    ),
    (
        "make a storage class",
        ["create", "-f", "-"],
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "mine"},
            "provisioner": "mine",
        },
    ),
    (
        "attach a volume",
        ["create", "-f", "-"],
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": "mine"},
            "spec": {"attacher": "csi", "nodeName": "n1", "source": {"persistentVolumeName": "data"}},
        },
    ),
    (
        "say how many volumes a node attaches",
        ["create", "-f", "-"],
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "n1"},
            "spec": {"drivers": []},
        },
    ),
]


@pytest.mark.parametrize("role", EVERYBODY)
def test_a_tenant_writes_nothing_that_stands_above_its_quota(cluster: Cluster, role: str) -> None:
    for what, command, body in DEPARTMENTS:
        done = asked(cluster, [f"--as={role}"], *command, body=body)
        assert done.returncode == 1, f"{role} may {what}"
        assert "is forbidden" in done.stderr, done.stderr


@pytest.mark.parametrize("user", ADMINISTRATORS, ids=["by a binding", "by the group of administrators"])
def test_an_administrator_of_the_cluster_writes_quotas(cluster: Cluster, user: list[str]) -> None:
    made = asked(cluster, user, "create", "-f", "-", body=quota("made"))
    assert made.returncode == 0, made.stderr
    changed = ["patch", "elasticquota", "made", "--type=merge", "-p", '{"spec": {"min": {"cpu": "2"}}}']
    assert asked(cluster, user, *changed).returncode == 0
    assert asked(cluster, user, "delete", "elasticquota", "made").returncode == 0


@pytest.mark.parametrize(("role", "writes"), [("view", False), ("edit", True), ("admin", True)])
def test_groups_belong_to_those_who_run_pods(cluster: Cluster, role: str, writes: bool) -> None:
    done = asked(cluster, [f"--as={role}"], "create", "-f", "-", body=group(f"of-{role}"))
    assert (done.returncode == 0) is writes
    assert asked(cluster, [f"--as={role}"], "get", "podgroups").returncode == 0


def test_nobody_gives_away_a_right_on_quotas_that_he_has_not(cluster: Cluster) -> None:
    rule = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["elasticquotas"], "verbs": ["create"]}
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": "more", "namespace": TEAM},
        "rules": [rule],
    }
    done = asked(cluster, ["--as=admin"], "create", "-f", "-", body=role)
    assert done.returncode == 1
    assert "attempting to grant RBAC permissions not currently held" in done.stderr


def test_a_user_without_a_role_reads_no_quota(cluster: Cluster) -> None:
    """RBAC decides here: otherwise the tests above prove nothing."""
    done = asked(cluster, ["--as=stranger"], "get", "elasticquotas")
    assert done.returncode == 1
    assert "is forbidden" in done.stderr
