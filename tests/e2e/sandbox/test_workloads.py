"""Workloads, quotas and nodes of the sandbox with real kubectl."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.full_sandbox import FullSandbox
from tests.support.clusters.server import RequestFailed, Server
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e
CRDS = Path(__file__).parents[3] / "charts" / "muster" / "crds"
RUN_SECONDS = "sandbox.muster.dev/run-seconds"
EXIT_CODE = "sandbox.muster.dev/exit-code"


class Place:
    """A namespace of a sandbox with two nodes of 8 cpu."""

    def __init__(self, server: Server, kubectl: Path) -> None:
        self.cluster = Cluster(server, kubectl, "sandbox")
        self.namespace = self.cluster.namespace("work")

    def kubectl(self, *args: str, check: bool = True, body: dict[str, Any] | None = None) -> str:
        """Run kubectl in the namespace; what it printed."""
        text = json.dumps(body) if body else None
        done = self.cluster.kubectl("-n", self.namespace, *args, check=check, input=text)
        return done.stdout + done.stderr

    def apply(self, api_version: str, kind: str, name: str, **body: Any) -> None:
        """kubectl apply of one object."""
        obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **body}
        self.kubectl("apply", "-f", "-", body=obj)

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        """Pods that are not on their way out."""
        query = f"?labelSelector={selector}" if selector else ""
        items = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/pods{query}")["items"]
        return [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[FullSandbox]:
    with FullSandbox(nodes=2) as running:
        yield running


@pytest.fixture
def place(sandbox: FullSandbox, kubectl: Path) -> Place:
    return Place(sandbox, kubectl)


def template(cpu: str = "100m", node: str = "node-0", **annotations: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": {"app": "a"}, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [container]},
    }


def job_template(**annotations: str) -> dict[str, Any]:
    found = template(**annotations)
    found["spec"]["restartPolicy"] = "Never"
    return found


SELECTOR = {"matchLabels": {"app": "a"}}


@pytest.mark.smoke
def test_a_job_completes(place: Place) -> None:
    spec = {"completions": 3, "parallelism": 3, "template": job_template(**{RUN_SECONDS: "0.2"})}
    place.apply("batch/v1", "Job", "j", spec=spec)
    place.kubectl("wait", "--for=condition=complete", "job/j", "--timeout=90s")
    assert "3/3" in place.kubectl("get", "job", "j")
    assert [pod["status"]["phase"] for pod in place.pods()] == ["Succeeded"] * 3
    place.kubectl("delete", "job", "j", "--timeout=90s")
    eventually(lambda: not place.pods())


def test_a_job_fails(place: Place) -> None:
    failing = job_template(**{RUN_SECONDS: "0", EXIT_CODE: "1"})
    place.apply("batch/v1", "Job", "j", spec={"backoffLimit": 0, "template": failing})
    place.kubectl("wait", "--for=condition=failed", "job/j", "--timeout=90s")
    assert "BackoffLimitExceeded" in place.kubectl("describe", "job", "j")


def test_a_deployment_rolls_out_scales_and_updates(place: Place) -> None:
    spec = {"replicas": 2, "selector": SELECTOR, "template": template()}
    place.apply("apps/v1", "Deployment", "d", spec=spec)
    assert "successfully rolled out" in place.kubectl("rollout", "status", "deployment/d", "--timeout=90s")
    place.kubectl("scale", "deployment/d", "--replicas=3")
    place.kubectl("wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/d", "--timeout=90s")
    assert "3/3" in place.kubectl("get", "deployment", "d")
    place.kubectl("set", "image", "deployment/d", "main=busybox:2")
    place.kubectl("rollout", "status", "deployment/d", "--timeout=90s")
    images = eventually(lambda: {p["spec"]["containers"][0]["image"] for p in place.pods()})
    assert images == {"busybox:2"}
    place.kubectl("delete", "deployment", "d", "--cascade=foreground", "--timeout=90s")
    assert not place.pods()


def test_a_stateful_set_rolls_out(place: Place) -> None:
    spec = {"replicas": 2, "serviceName": "s", "selector": SELECTOR, "template": template()}
    place.apply("apps/v1", "StatefulSet", "s", spec={**spec, "updateStrategy": {"type": "RollingUpdate"}})
    place.kubectl("rollout", "status", "statefulset/s", "--timeout=90s")
    assert sorted(pod["metadata"]["name"] for pod in place.pods()) == ["s-0", "s-1"]


def test_a_group_goes_with_the_workload_that_owns_it(place: Place) -> None:
    """As a controller would write it: the PodGroup beside the pods of its Job."""
    place.kubectl("apply", "-f", str(CRDS))
    await_established(place.cluster.server)
    place.apply("batch/v1", "Job", "j", spec={"template": job_template(**{RUN_SECONDS: "60"})})
    uid = json.loads(place.kubectl("get", "job", "j", "-o", "json"))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    group = {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "ownerReferences": [owner]},
        "spec": {"minMembers": 1},
    }
    place.kubectl("create", "-f", "-", body=group)
    assert (
        place.kubectl("get", "podgroups.incubator.scheduling.k8s.io", "g", "-o", "name")
        .strip()
        .endswith("/g")
    )
    place.kubectl("delete", "job", "j", "--timeout=90s")
    eventually(
        lambda: "NotFound" in place.kubectl("get", "podgroups.incubator.scheduling.k8s.io", "g", check=False)
    )


def test_a_quota_shows_its_use_and_refuses(place: Place) -> None:
    place.kubectl("create", "quota", "q", "--hard=requests.cpu=1,pods=5")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template("800m")["spec"]}
    place.kubectl("apply", "-f", "-", body=pod)

    def shown() -> list[str]:
        described = place.kubectl("describe", "quota", "q").split()
        assert "requests.cpu" in described
        return described[described.index("requests.cpu") + 1 :][:2]

    eventually(lambda: shown() == ["800m", "1"])
    pod["metadata"] = {"name": "p2"}
    refusal = place.kubectl("create", "-f", "-", body=pod, check=False)
    assert refusal.startswith("Error from server (Forbidden): ")
    assert (
        'pods "p2" is forbidden: exceeded quota: q, requested: requests.cpu=800m, used: requests.cpu=800m, '
        "limited: requests.cpu=1"
    ) in refusal


def test_a_full_quota_stops_a_replica_set_which_says_so(place: Place) -> None:
    place.kubectl("create", "quota", "q", "--hard=pods=1")
    spec = {"replicas": 2, "selector": SELECTOR, "template": template()}
    place.apply("apps/v1", "ReplicaSet", "r", spec=spec)
    eventually(lambda: "exceeded quota: q" in place.kubectl("get", "events"))
    assert len(place.pods()) == 1
    place.kubectl("patch", "quota", "q", "--type=merge", "-p", '{"spec":{"hard":{"pods":"2"}}}')
    eventually(lambda: len(place.pods()) == 2)


def test_deleting_a_running_pod_is_quick(place: Place) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template()["spec"]}
    place.kubectl("apply", "-f", "-", body=pod)
    place.kubectl("wait", "--for=condition=ready", "pod/p", "--timeout=90s")
    begun = time.monotonic()
    place.kubectl("delete", "pod", "p", "--timeout=90s")
    assert time.monotonic() - begun < 25, "its grace period is 30 seconds"


def test_a_namespace_goes_with_all_it_holds(place: Place) -> None:
    place.apply(
        "apps/v1", "ReplicaSet", "r", spec={"replicas": 2, "selector": SELECTOR, "template": template()}
    )
    eventually(lambda: len(place.pods()) == 2)
    place.cluster.kubectl("delete", "namespace", place.namespace, "--timeout=90s")
    with pytest.raises(RequestFailed) as gone:
        place.cluster.request("GET", f"/api/v1/namespaces/{place.namespace}")
    assert gone.value.status == 404
    assert not place.pods()


def test_an_eviction_respects_the_budget(place: Place) -> None:
    place.apply("policy/v1", "PodDisruptionBudget", "b", spec={"minAvailable": 1, "selector": SELECTOR})
    place.apply(
        "apps/v1", "ReplicaSet", "r", spec={"replicas": 1, "selector": SELECTOR, "template": template()}
    )
    name = eventually(lambda: place.pods()[0]["metadata"]["name"])
    place.kubectl("wait", "--for=condition=ready", f"pod/{name}", "--timeout=90s")
    path = f"/api/v1/namespaces/{place.namespace}/pods/{name}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    with pytest.raises(RequestFailed) as refusal:
        place.cluster.request("POST", path, body)
    assert refusal.value.status == 429
    place.kubectl("scale", "rs/r", "--replicas=2")
    place.kubectl("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/b", "--timeout=90s")
    place.cluster.request("POST", path, body)
    eventually(lambda: name not in [pod["metadata"]["name"] for pod in place.pods()])


def test_a_pod_too_large_for_its_node_fails(place: Place) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template("99")["spec"]}
    place.kubectl("apply", "-f", "-", body=pod)
    place.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/p", "--timeout=90s")
    assert "OutOfcpu" in place.kubectl("get", "pod", "p")
