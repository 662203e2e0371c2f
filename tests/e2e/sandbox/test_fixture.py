"""Properties of the fixture `cluster` that the other end-to-end tests assume."""

from __future__ import annotations

import pytest
from kubernetes import client

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually


def pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}


def test_namespaces_are_fresh(cluster: Cluster) -> None:
    first, second = cluster.namespace(), cluster.namespace("team")
    assert first != second
    assert cluster.kubectl("-n", second, "get", "pods", "-o", "name").stdout == ""


def test_pods_can_be_made_without_a_service_account(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    made = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod("lonely"))
    assert made["spec"].get("nodeName") is None
    assert made["status"]["phase"] == "Pending"


def test_official_client_speaks_to_the_server(cluster: Cluster) -> None:
    with cluster.client() as api:
        found = client.CoreV1Api(api).read_namespace(cluster.namespace("by-client"))
    assert found.metadata is not None
    assert found.metadata.name is not None
    assert found.metadata.name.startswith("by-client-")


@pytest.mark.smoke
def test_nothing_is_left_for_the_next_test(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    node = {"metadata": {"name": "leftover"}}
    cluster.request("POST", "/api/v1/nodes", node)
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod("leftover"))
    cluster.clean()

    def gone() -> bool:
        for path in ("/api/v1/nodes/leftover", f"/api/v1/namespaces/{namespace}/pods/leftover"):
            with pytest.raises(RequestFailed, match="404"):
                cluster.request("GET", path)
        return True

    assert eventually(gone)


def test_plugins_of_this_environment_are_found(cluster: Cluster) -> None:
    assert "elasticquota" in cluster.kubectl("elasticquota", "--help").stdout


def test_a_failing_kubectl_fails_the_test_with_its_words(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="NotFound"):
        cluster.kubectl("get", "namespace", "nowhere")
    assert cluster.kubectl("get", "namespace", "nowhere", check=False).returncode == 1
