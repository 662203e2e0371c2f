"""What a cluster has besides Muster in an outage: its own scheduler and a Job controller, very small."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed

Obj = dict[str, Any]
# Each turn lists all pods of the namespace.
_PAUSE_SECONDS = 0.3
TRACKED = "batch.kubernetes.io/job-tracking"


def pods_of(cluster: Cluster, namespace: str) -> list[Obj]:
    """The pods of a namespace."""
    items: list[Obj] = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def elsewhere(cluster: Cluster, namespace: str) -> list[Obj]:
    """Those of them that the default scheduler has."""
    return [pod for pod in pods_of(cluster, namespace) if pod["spec"]["schedulerName"] == "default-scheduler"]


def bind_elsewhere(cluster: Cluster, pod: Obj, node: str) -> None:
    """What the default scheduler does with a pod."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    cluster.request("POST", path, body)


class JobController:
    """Keeps as many pods of one Job as it asks for; a finalizer lets it see each that is deleted.

    As the real one does, it counts those as failures that are its own then.
    """

    def __init__(self, cluster: Cluster, job: Obj, template: Callable[[], Obj]) -> None:
        self._cluster = cluster
        self._job = job
        self._template = template
        self.failed = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> JobController:
        self.sync()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(60)
        # Nobody else would, and they would hold their nodes for ever.
        for pod in pods_of(self._cluster, self._job["metadata"]["namespace"]):
            if TRACKED in (pod["metadata"].get("finalizers") or ()):
                self._let_go(pod)

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            self.sync()

    def sync(self) -> None:
        """One turn."""
        metadata = self._job["metadata"]
        active = 0
        for pod in pods_of(self._cluster, metadata["namespace"]):
            if TRACKED not in (pod["metadata"].get("finalizers") or ()):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self.failed += self._owns(pod)
                self._let_go(pod)
            else:
                active += self._owns(pod)
        for _ in range(self._job["spec"]["parallelism"] - active):
            self._make()

    def _make(self) -> None:
        metadata, body = self._job["metadata"], self._template()
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, "blockOwnerDeletion": True}
        body["metadata"] = {
            "generateName": f"{metadata['name']}-",
            "labels": {"batch.kubernetes.io/controller-uid": metadata["uid"]},
            "finalizers": [TRACKED],
            "ownerReferences": [{**owner, "name": metadata["name"], "uid": metadata["uid"]}],
        }
        # A refusal is tried again in the next turn.
        with suppress(RequestFailed):
            self._cluster.request("POST", f"/api/v1/namespaces/{metadata['namespace']}/pods", body)

    def _let_go(self, pod: Obj) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        with suppress(RequestFailed):
            self._cluster.request("PATCH", path, {"metadata": {"finalizers": None}})

    def _owns(self, pod: Obj) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        return any(owner["uid"] == self._job["metadata"]["uid"] for owner in owners)
