"""Test bed with one kube-apiserver for several schedulers: objects, binding times, and CPU time."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml

from benchmarks.bench_process import cpu_seconds, create_all, is_served, node
from benchmarks.peers.programs import NAMES
from benchmarks.support.threads import run_all
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.errors import NotFound
from scheduler_core.kube.paths import resource_path, with_query
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ELASTIC_QUOTAS,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    NODES,
    PODS,
    X_POD_GROUPS,
)
from scheduler_core.model.names import X_POD_GROUP_LABEL
from scheduler_core.model.writes import Bind, Create, Patch
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import SERVERS
from tests.support.eventually import eventually

QUOTA_CRD = Path(__file__).parents[2] / "charts/muster/crds/scheduling.x-k8s.io_elasticquotas.yaml"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events?limit=1"
# So many objects are deleted by one call: the server answers when all of them are gone.
PAGE = 1000
THREADS = 8
SYNC_SECONDS = 60.0
CPU = "100m"


def pod_group_crd() -> dict[str, Any]:
    """CRD of the PodGroup that both schedulers read; it preserves unknown fields."""
    served = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": X_POD_GROUPS.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {
            "name": f"{X_POD_GROUPS.plural}.{X_POD_GROUPS.group}",
            "annotations": {
                "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins"
            },
        },
        "spec": {
            "group": X_POD_GROUPS.group,
            "scope": "Namespaced",
            "names": {"kind": X_POD_GROUPS.kind, "plural": X_POD_GROUPS.plural},
            "versions": [{**version, "schema": {"openAPIV3Schema": served}}],
        },
    }


def pod(
    scheduler: str, namespace: str, name: str, *, cpu: str = CPU, gang: str = "", native: str = ""
) -> Create:
    """A pod with one container for the scheduler MUSTER or PEER, in a PodGroup or in a native one."""
    container = {
        "name": "main",
        "image": "registry.example/pause:3",
        "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}},
    }
    labels = {"app": "bench", **({X_POD_GROUP_LABEL: gang} if gang else {})}
    spec: dict[str, Any] = {"schedulerName": NAMES[scheduler], "containers": [container]}
    if native:
        spec["schedulingGroup"] = {"podGroupName": native}
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    return Create(PODS, namespace, body)


def quota(namespace: str, low: Mapping[str, str], high: Mapping[str, str]) -> Create:
    """An ElasticQuota."""
    meta = {"name": "quota"}
    kind = {"apiVersion": ELASTIC_QUOTAS.api_version, "kind": ELASTIC_QUOTAS.kind}
    return Create(ELASTIC_QUOTAS, namespace, {**kind, "metadata": meta, "spec": {"min": low, "max": high}})


def group(namespace: str, name: str, members: int) -> Create:
    """A PodGroup with a minimum number of members."""
    kind = {"apiVersion": X_POD_GROUPS.api_version, "kind": X_POD_GROUPS.kind}
    return Create(
        X_POD_GROUPS, namespace, {**kind, "metadata": {"name": name}, "spec": {"minMember": members}}
    )


def native_group(namespace: str, name: str, members: int) -> Create:
    """A native PodGroup with a minimum number of members."""
    spec = {"schedulingPolicy": {"gang": {"minCount": members}}}
    return Create(NATIVE_POD_GROUPS, namespace, {"metadata": {"name": name}, "spec": spec})


class Watch:
    """Records when each pod of some namespaces is first seen with a node, as `time.monotonic()`."""

    def __init__(self, client: Client, namespaces: Iterable[str]) -> None:
        self.bound: dict[str, float] = {}
        self._reflectors = [
            Reflector(client, PODS, lambda raw: b'"nodeName":"' in bytes(raw), self._note, namespace=name)
            for name in namespaces
        ]
        for reflector in self._reflectors:
            reflector.start()
        for reflector in self._reflectors:
            if not reflector.synced.wait(SYNC_SECONDS):
                raise TimeoutError("the benchmark's own watch did not start")

    def _note(self, event: Event) -> None:
        if event.obj:
            self.bound.setdefault(event.key, time.monotonic())

    def close(self) -> None:
        """End the watch."""
        for reflector in self._reflectors:
            reflector.stop()
        for reflector in self._reflectors:
            reflector.join(5)


class Bed:
    """Context manager of etcd and kube-apiserver, of the pinned or the newest release, with nodes only.

    `stand_in`: Muster takes the place of the peer.
    """

    def __init__(self, apiserver: str = SERVERS[1], *, stand_in: bool = False) -> None:
        self.stand_in = stand_in
        # Without a kubelet, nodes would stay tainted as not ready.
        flags = ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]
        self.server = ControlPlane(extra_flags=flags, apiserver=apiserver)
        self.client: Client
        self.folder = Path(tempfile.mkdtemp(prefix="muster-peers-"))
        self._nodes = 0
        self._turns = 0

    def __enter__(self) -> Self:
        self.server.__enter__()
        self.client, _ = connect(Overrides(kubeconfig=str(self.server.kubeconfig)))
        for body in (yaml.safe_load(QUOTA_CRD.read_text()), pod_group_crd()):
            self.client.create(Create(CUSTOM_RESOURCE_DEFINITIONS, "", body))
        for kind in (ELASTIC_QUOTAS, X_POD_GROUPS):
            eventually(partial(is_served, self.client, kind, "default"), timeout=SYNC_SECONDS)
        return self

    def __exit__(self, *error: Any) -> None:
        self.server.__exit__(*error)

    def turn(self) -> int:
        """A unique number for the next run."""
        self._turns += 1
        return self._turns

    def grow(self, nodes: int) -> None:
        """Add nodes of 32 CPUs until `count` exist; nodes are never removed."""
        create_all(self.client, [Create(NODES, "", node(number)) for number in range(self._nodes, nodes)])
        self._nodes = max(self._nodes, nodes)

    def create(self, writes: list[Create]) -> None:
        """Create objects and, before them, their namespaces from several threads."""
        for name in sorted({write.namespace for write in writes}):
            self._namespace(name)
        create_all(self.client, writes)

    def _namespace(self, name: str) -> None:
        try:
            self.client.get(NAMESPACES, "", name)
        except NotFound:
            self.client.create(Create(NAMESPACES, "", {"metadata": {"name": name}}))

    def bind(self, pods: list[Create]) -> None:
        """Bind existing pods to the nodes in turn."""
        writes = [
            Bind(pod.namespace, pod.body["metadata"]["name"], "", f"node-{number % self._nodes}")
            for number, pod in enumerate(pods)
        ]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self.client.write, writes, chunksize=16))

    def clear(self, namespaces: Iterable[str]) -> None:
        """Delete pods, gangs and quotas of namespaces immediately."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for name in namespaces:
            self._release(name)
            for kind in (PODS, X_POD_GROUPS, ELASTIC_QUOTAS, NATIVE_POD_GROUPS):
                while self.client.get_page(kind, name, limit=1).items:
                    self.client.call(
                        "DELETE",
                        with_query(resource_path(self.client.resolve(kind), name), {"limit": PAGE}),
                        body,
                    )

    def _release(self, namespace: str) -> None:
        """Take the finalizers off native groups: no controller manager runs that would."""
        for raw in list(self.client.list_raw(NATIVE_POD_GROUPS, namespace)):
            name = msgspec.json.decode(raw)["metadata"]["name"]
            self.client.patch(Patch(NATIVE_POD_GROUPS, namespace, name, {"metadata": {"finalizers": None}}))

    def events(self, namespaces: Iterable[str]) -> int:
        """Number of events in namespaces, from list requests with limit 1."""
        found = 0
        for name in namespaces:
            page = msgspec.json.decode(self.client.call("GET", EVENTS.format(name)))
            found += len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
        return found

    def revision(self) -> int:
        """The current resourceVersion, which grows with every write."""
        page = msgspec.json.decode(self.client.call("GET", "/api/v1/pods?limit=1"))
        return int(page["metadata"]["resourceVersion"])

    def api_cpu(self) -> float:
        """CPU seconds of the API server so far."""
        return cpu_seconds(self.server.pid("kube-apiserver"))


def paced(rate: float, jobs: Sequence[Callable[[], object]], threads: int = THREADS) -> None:
    """Run the jobs at fixed times, `rate` per second, regardless of how long earlier jobs take."""
    begin = time.monotonic() + 0.2
    failures: list[Exception] = []

    def work(first: int) -> None:
        for number in range(first, len(jobs), threads):
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            try:
                jobs[number]()
            except Exception as error:
                failures.append(error)

    run_all([threading.Thread(target=work, args=(first,)) for first in range(threads)])
    if failures:
        raise failures[0]


@contextmanager
def watching(bed: Bed, namespaces: Iterable[str]) -> Iterator[Watch]:
    """Context manager of a Watch."""
    watch = Watch(bed.client, namespaces)
    try:
        yield watch
    finally:
        watch.close()
