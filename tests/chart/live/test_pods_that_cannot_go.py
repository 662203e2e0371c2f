"""Pods that the API server does not let go, as a policy protects them: others are evicted in their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.rendering import CHART
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.scheduler import (
    await_node,
    await_quota,
    bound,
    create_node,
    create_pod,
    create_quota,
    scheduler,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.tools.build import have

pytestmark = pytest.mark.timeout(300)

PROTECTED = "pods of this label stay"
POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "kept"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"kept": "yes"}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"]}
            ],
        },
        "validations": [{"expression": "false", "message": PROTECTED}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "kept"},
    "spec": {"policyName": "kept", "validationActions": ["Deny"]},
}
POLICIES = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ControlPlane() as server:
        found = Cluster(server, have("kubectl").path, "kube-apiserver")
        found.kubectl("apply", "-f", str(CHART / "crds"))
        await_established(server)
        yield found


def is_protected(cluster: Cluster, path: str) -> bool:
    """Whether the server would refuse to delete a pod."""
    try:
        cluster.request("DELETE", f"{path}?dryRun=All")
    except RequestFailed as refused:
        return PROTECTED in str(refused)
    return False


def test_a_quota_gets_its_min_back_beside_pods_that_nobody_can_delete(
    cluster: Cluster, tmp_path: Path
) -> None:
    lender, borrower = cluster.namespace("lender"), cluster.namespace("borrower")
    pods = f"/api/v1/namespaces/{borrower}/pods"
    for name in ("one", "two"):
        create_node(cluster, name, "2")
    create_quota(cluster, lender, {"cpu": "4"}, {"cpu": "4"})
    create_quota(cluster, borrower, {"cpu": "0"}, {"cpu": "4"})
    with scheduler(cluster, tmp_path) as running:
        await_quota(cluster, lender, borrower)
        for name in ("one", "two"):
            await_node(running, name)
        create_pod(cluster, borrower, "may-go", "2")
        eventually(lambda: "may-go" in bound(cluster, borrower), 60)
        create_pod(cluster, borrower, "stays", "2")
        eventually(lambda: "stays" in bound(cluster, borrower), 60)
        cluster.request("PATCH", f"{pods}/stays", {"metadata": {"labels": {"kept": "yes"}}})
        cluster.request("POST", f"{POLICIES}/validatingadmissionpolicies", POLICY)
        cluster.request("POST", f"{POLICIES}/validatingadmissionpolicybindings", BINDING)
        eventually(lambda: is_protected(cluster, f"{pods}/stays"), 60)
        create_pod(cluster, lender, "claims", "2")
        eventually(lambda: "claims" in bound(cluster, lender), 60)
        assert set(bound(cluster, borrower)) == {"stays"}
        assert running.process.poll() is None
        assert "evicting" in running.said()
        assert PROTECTED in running.said()
