"""The chart's admission policies on a real API server, with no webhook there to help."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import objects
from tests.support.cluster import Cluster
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.server import RequestFailed, Server, request
from tests.tools.build import have

Obj = dict[str, Any]
GROUP = "scheduling.k8s.io/group-name"
POLICY_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ControlPlane() as running:
        yield running


@pytest.fixture(scope="module")
def governed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server on which the policies are in force."""
    policies = [item for item in objects("default") if item["kind"] in POLICY_KINDS]
    assert len(policies) == 8
    install(server, tmp_path_factory.mktemp("policies"), policies)
    request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "probe"}})
    eventually(lambda: refusal(server, "probe", pod("p", {GROUP: "b/g"})) != "")
    return server


def install(server: Server, folder: Path, found: list[Obj]) -> None:
    path = folder / "policies.yaml"
    path.write_text(yaml.safe_dump_all(found))
    Cluster(server, have("kubectl").path, "kube-apiserver").kubectl("apply", "-f", str(path))


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


def test_what_says_that_a_pod_counts_stays(governed: Server) -> None:
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


def test_without_the_value_there_are_none() -> None:
    found = objects("default", "muster-system", "--set", "admissionPolicies.enabled=false")
    assert not [item for item in found if item["kind"] in POLICY_KINDS]
