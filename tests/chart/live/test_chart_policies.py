"""The chart's admission policies on a real API server, with no webhook there to help."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, helm, objects
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import RequestFailed, Server, request
from tests.support.eventually import eventually
from tests.tools.build import have

Obj = dict[str, Any]
GROUP = "scheduling.k8s.io/group-name"
POLICY_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
ROLES = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ControlPlane() as running:
        yield running


@pytest.fixture(scope="module")
def governed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server on which the policies are in force."""
    policies = [item for item in objects("default") if item["kind"] in POLICY_KINDS]
    assert len(policies) == 30
    install(server, tmp_path_factory.mktemp("policies"), policies)
    request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "probe"}})
    return server


def create_namespace(server: Server, name: str, labels: dict[str, str] | None = None) -> None:
    """A namespace; another test may have made it."""
    with suppress(RequestFailed):
        request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})


def install(server: Server, folder: Path, found: list[Obj]) -> None:
    """Apply objects; the policies among them are in force when this returns."""
    path = folder / "policies.yaml"
    path.write_text(yaml.safe_dump_all(found))
    Cluster(server, have("kubectl").path, "kube-apiserver").kubectl("apply", "-f", str(path))
    await_policies(server)


def await_policies(server: Server) -> None:
    """Wait until the API server enforces the policies that are stored now: by one more, whose effect shows.

    It reads policies and bindings by watches, in order, and takes over what it has read every second.
    """
    notice = f"notice-{next(_numbers)}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    policy = {
        "metadata": {"name": notice},
        "spec": {
            "matchConstraints": {
                "resourceRules": [rule],
                "objectSelector": {"matchLabels": {"notice": notice}},
            },
            "validations": [{"expression": "false", "message": notice}],
        },
    }
    binding = {
        "metadata": {"name": notice},
        "spec": {"policyName": notice, "validationActions": ["Deny"]},
    }
    request(server, "POST", f"{ADMISSION}/validatingadmissionpolicies", policy)
    request(server, "POST", f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    marked = pod("notice")
    marked["metadata"]["labels"] = {"notice": notice}
    eventually(lambda: notice in refusal(server, "default", marked))


def pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    containers = [{"name": "main", "image": "example.com/app:1"}]
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": containers, **spec},
    }


def refusal(server: Server, namespace: str, body: Obj) -> str:
    """The words of a refusal of a pod that is only tried, or an empty text."""
    try:
        request(server, "POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    except RequestFailed as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        pytest.param({GROUP: "g"}, "", id="a group of its own namespace"),
        pytest.param({}, "", id="no group"),
        pytest.param(
            {GROUP: "b/g"},
            f"Pod probe/p: metadata.annotations[{GROUP}]=b/g is no name of a PodGroup",
            id="a group of another namespace",
        ),
        pytest.param({GROUP: "x" * 254}, "is no name of a PodGroup", id="a name that is too long"),
    ],
)
def test_a_pod_names_a_group_that_can_exist(
    governed: Server, annotations: dict[str, str], words: str
) -> None:
    said = refusal(governed, "probe", pod("p", annotations))
    assert words in said
    assert bool(said) == bool(words)


def test_a_pod_stays_in_its_group(governed: Server) -> None:
    path = "/api/v1/namespaces/probe/pods"
    request(governed, "POST", path, pod("member", {GROUP: "first"}))
    for other in ("second", None):
        with pytest.raises(RequestFailed, match="cannot take the pod out of group first"):
            request(governed, "PATCH", f"{path}/member", {"metadata": {"annotations": {GROUP: other}}})
    request(governed, "PATCH", f"{path}/member", {"metadata": {"labels": {"free": "to-change"}}})


def test_the_annotation_of_charged_pods_stays(governed: Server) -> None:
    path, mark = "/api/v1/namespaces/probe/pods", "muster.dev/charged"
    request(governed, "POST", path, pod("charged", {mark: "true"}, schedulerName="volcano"))
    request(governed, "POST", path, pod("plain"))
    for name, other in (("charged", None), ("charged", "no"), ("plain", "true")):
        with pytest.raises(RequestFailed, match=f"probe/{name}: .*charged] cannot be changed"):
            request(governed, "PATCH", f"{path}/{name}", {"metadata": {"annotations": {mark: other}}})
    request(governed, "PATCH", f"{path}/charged", {"metadata": {"labels": {"free": "to-change"}}})


@contextmanager
def tenant(server: Server, name: str, *rules: Obj) -> Iterator[list[str]]:
    """The flags that make kubectl a user who has these cluster-wide rights."""
    meta = {"name": name}
    request(server, "POST", f"{ROLES}/clusterroles", {"metadata": meta, "rules": list(rules)})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": meta, "roleRef": role, "subjects": [subject]}
    request(server, "POST", f"{ROLES}/clusterrolebindings", binding)
    yield ["--as", name]


def label(server: Server, flags: list[str], namespace: str, text: str) -> subprocess.CompletedProcess[str]:
    cluster = Cluster(server, have("kubectl").path, "kube-apiserver")
    return cluster.kubectl("label", "namespace", namespace, text, *flags, check=False)


def test_only_who_may_exempt_takes_a_namespace_out(governed: Server) -> None:
    request(governed, "POST", "/api/v1/namespaces", {"metadata": {"name": "theirs"}})
    writes: Obj = {
        "apiGroups": [""],
        "resources": ["namespaces"],
        "verbs": ["get", "list", "patch", "update"],
    }
    exempts: Obj = {"apiGroups": ["muster.dev"], "resources": ["namespaces"], "verbs": ["exempt"]}
    with tenant(governed, "tenant", writes) as plain, tenant(governed, "owner", writes, exempts) as trusted:
        eventually(lambda: label(governed, plain, "theirs", "team=theirs").returncode == 0)
        refused = label(governed, plain, "theirs", "muster.dev/exempt=true")
        assert refused.returncode == 1
        assert (
            "Namespace theirs: metadata.labels[muster.dev/exempt]=true may be changed only by"
            in refused.stderr
        )
        eventually(lambda: label(governed, trusted, "theirs", "muster.dev/exempt=true").returncode == 0)
        assert label(governed, plain, "theirs", "muster.dev/exempt-").returncode == 1


def test_a_pod_that_the_webhook_never_saw_is_told_or_refused(governed: Server, tmp_path: Path) -> None:
    labels = {"muster.dev/schedule": "true"}
    request(governed, "POST", "/api/v1/namespaces", {"metadata": {"name": "opted-in", "labels": labels}})
    assert refusal(governed, "opted-in", pod("p")) == ""
    strict = [
        item
        for item in objects("default", "muster-system", "--set", "admissionPolicies.optedInPods=Deny")
        if item["kind"] in POLICY_KINDS
    ]
    install(governed, tmp_path, strict)
    eventually(lambda: "did not answer" in refusal(governed, "opted-in", pod("p")))
    assert refusal(governed, "opted-in", pod("p", schedulerName="muster-scheduler")) == ""
    assert refusal(governed, "opted-in", pod("p", nodeName="n1")) == ""
    assert refusal(governed, "probe", pod("p")) == ""


def test_a_tenant_gets_no_pod_of_muster_s_own_class(governed: Server, tmp_path: Path) -> None:
    """Pods of it may evict those of everybody: a tenant who may run pods must not have them."""
    classes = [item for item in objects("default") if item["kind"] == "PriorityClass"]
    (name,) = (item["metadata"]["name"] for item in classes)
    install(governed, tmp_path, classes)
    for namespace in ("tenant", "muster-system"):
        create_namespace(governed, namespace)
    pods: Obj = {"apiGroups": ["", "apps"], "resources": ["pods", "replicasets"], "verbs": ["*"]}
    cluster = Cluster(governed, have("kubectl").path, "kube-apiserver")

    def run(namespace: str, class_name: str, flags: list[str]) -> subprocess.CompletedProcess[str]:
        body = {"apiVersion": "v1", "kind": "Pod", **pod("p", priorityClassName=class_name)}
        path = tmp_path / "pod.yaml"
        path.write_text(yaml.safe_dump(body))
        options = ("--dry-run=server", "-n", namespace, "-f", str(path))
        return cluster.kubectl("create", *options, *flags, check=False)

    with tenant(governed, "runner", pods) as flags:
        eventually(lambda: run("tenant", "", flags).returncode == 0)
        words = (
            f"Pod tenant/p: spec.priorityClassName={name} is for namespace muster-system, where Muster runs"
        )
        # The API server reads the class by a watch; before, it refuses the pod for another reason.
        refused = eventually(lambda: done if words in (done := run("tenant", name, flags)).stderr else None)
        assert refused.returncode == 1
        assert run("tenant", "system-node-critical", flags).returncode == 0
    assert run("tenant", name, []).returncode == 1, "an administrator's pod would evict as many"
    assert run("kube-system", name, []).returncode == 1
    assert run("muster-system", name, []).returncode == 0


def test_the_scheduler_writes_no_config_map_but_its_history(governed: Server) -> None:
    create_namespace(governed, "muster-system")
    account = "system:serviceaccount:muster-system:muster-scheduler"
    maps: Obj = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    meta = {"name": "writes-config-maps"}
    request(governed, "POST", f"{ROLES}/clusterroles", {"metadata": meta, "rules": [maps]})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": meta["name"]}
    request(
        governed,
        "POST",
        f"{ROLES}/clusterrolebindings",
        {"metadata": meta, "roleRef": role, "subjects": [subject]},
    )
    kubectl = Cluster(governed, have("kubectl").path, "kube-apiserver").kubectl

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return kubectl("-n", "muster-system", *words, "--as", account, check=False)

    day = "muster-history-2026-03-01"
    eventually(lambda: run("create", "configmap", day).returncode == 0)
    kubectl("create", "configmap", "settings", "-n", "muster-system")
    words = "muster-system/settings: the scheduler may write only muster-history-* in namespace muster-system"
    assert words in run("label", "configmap", "settings", "sakkara.group=").stderr
    assert words in run("delete", "configmap", "settings").stderr
    assert "muster-system/more: " in run("create", "configmap", "more").stderr
    assert "probe/more: " in run("create", "configmap", "more", "-n", "probe").stderr
    assert f"probe/{day}: " in run("create", "configmap", day, "-n", "probe").stderr
    assert run("label", "configmap", day, "a=b").returncode == 0
    assert run("delete", "configmap", day).returncode == 0

    # Somebody else makes a group; the scheduler writes its results into it, and does not delete it.
    kubectl("label", "configmap", "settings", "sakkara.group=", "-n", "muster-system")
    result = ("patch", "configmap", "settings", "--type=merge", "-p", '{"data": {"status": "Bound"}}')
    assert run(*result).returncode == 0
    assert "the scheduler changes only data.status" in run("annotate", "configmap", "settings", "a=b").stderr
    assert words in run("delete", "configmap", "settings").stderr


@pytest.mark.parametrize("setting", ["priorityClass.create=false", "priorityClass.name="])
def test_a_class_of_somebody_else_s_is_theirs_to_guard(setting: str) -> None:
    found = objects("default", "muster-system", "--set", setting)
    named = [item["metadata"]["name"] for item in found if item["kind"] in POLICY_KINDS]
    assert named
    assert "muster-priority-class" not in named


QUOTAS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"


@pytest.fixture(scope="module")
def closed(governed: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The same where pods that Muster should get are refused while no webhook answers."""
    kubectl = Cluster(governed, have("kubectl").path, "kube-apiserver").kubectl
    kubectl("apply", "-f", str(CHART / "crds" / "scheduling.x-k8s.io_elasticquotas.yaml"))
    await_established(governed)
    found = objects("default", "muster-system", "--set", "webhook.pods.failurePolicy=Fail")
    policies = [item for item in found if item["kind"] in POLICY_KINDS]
    assert len(policies) == 34
    install(governed, tmp_path_factory.mktemp("closed"), policies)
    for name in ("under-quota", "exempted", "muster-system"):
        labels = {"muster.dev/exempt": "true"} if name == "exempted" else {}
        create_namespace(governed, name, labels)
    for name in ("under-quota", "exempted", "kube-system", "muster-system"):
        quota = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "eq"},
            "spec": {"max": {"cpu": "1"}},
        }
        request(governed, "POST", QUOTAS.format(name), quota)
    # The quotas are read by a watch that begins with the policies.
    eventually(lambda: "ElasticQuota under-quota/eq" in refusal(governed, "under-quota", pod("p")))
    return governed


@pytest.mark.parametrize(
    ("namespace", "body", "words"),
    [
        pytest.param(
            "under-quota",
            pod("p"),
            "Pod under-quota/p: spec.schedulerName=default-scheduler though ElasticQuota under-quota/eq "
            "governs its namespace; the webhook of Muster did not answer, try again",
            id="a namespace under a quota",
        ),
        pytest.param(
            "probe",
            pod("p", {GROUP: "g"}),
            "Pod probe/p: spec.schedulerName=default-scheduler though it belongs to PodGroup probe/g; "
            "the webhook of Muster did not answer, try again",
            id="a member of a group, wherever",
        ),
        pytest.param("under-quota", pod("p", schedulerName="muster-scheduler"), "", id="the webhook saw it"),
        pytest.param("under-quota", pod("p", schedulerName="other"), "", id="another scheduler was chosen"),
        pytest.param(
            "under-quota", pod("p", nodeName="n1"), "", id="a pod with a node is nobody's to schedule"
        ),
        pytest.param("probe", pod("p"), "", id="a namespace without a quota"),
        pytest.param("kube-system", pod("p"), "", id="what a cluster needs to recover"),
        pytest.param(
            "muster-system", pod("p"), "", id="Muster's own namespace: a cold start needs no webhook"
        ),
        pytest.param("exempted", pod("p"), "", id="a namespace that was exempted"),
    ],
)
def test_pods_that_muster_should_get_fail_closed(
    closed: Server, namespace: str, body: Obj, words: str
) -> None:
    said = refusal(closed, namespace, body)
    assert words in said
    assert bool(said) == bool(words)


def test_the_emergency_command_of_the_policies_lets_pods_in_again(closed: Server) -> None:
    kubectl = Cluster(closed, have("kubectl").path, "kube-apiserver").kubectl
    names = ("muster-governed-pods", "muster-member-pods")
    kubectl("delete", "validatingadmissionpolicybinding", *names)
    eventually(lambda: refusal(closed, "under-quota", pod("p")) == "")


def test_pods_cannot_fail_closed_without_policies() -> None:
    values = ("--set", "admissionPolicies.enabled=false,webhook.pods.failurePolicy=Fail")
    done = helm("template", "muster", str(CHART), *values)
    assert done.returncode == 1
    assert "webhook.pods.failurePolicy=Fail needs admissionPolicies.enabled=true" in done.stderr


def test_without_the_value_there_are_none() -> None:
    found = objects("default", "muster-system", "--set", "admissionPolicies.enabled=false")
    assert not [item for item in found if item["kind"] in POLICY_KINDS]
