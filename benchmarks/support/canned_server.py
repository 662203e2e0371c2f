"""HTTP server with prepared lists of a large cluster, in pages of nodes and pods.

Storing 50,000 pods in a real API server takes minutes, but a scheduler only reads their lists at its start.
The benchmark supplies the watch events; writes are accepted and dropped, bindings are reported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from scheduler_core.kube.paging import PAGE_SIZE
from tests.support.stand_in_server import StandInHandler, StandInServer

PODS_PATH: Final = "/api/v1/pods"
# What all lists are of; what a watch says is of later versions.
VERSION: Final = 1_000_000
_TEMPLATES: Final = 200
_CREATED: Final = "2026-01-01T00:00:00Z"


def node(number: int) -> dict[str, Any]:
    """A node as a kubelet reports it: labels, conditions, images, addresses."""
    name = f"node-{number}"
    room = {"cpu": "32", "memory": "131072Mi", "pods": "110", "ephemeral-storage": "200Gi"}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    condition = {"lastHeartbeatTime": _CREATED, "lastTransitionTime": _CREATED, "message": "kubelet says so"}
    images = [{"names": [f"registry.example/image-{i}:1"], "sizeBytes": 50_000_000 + i} for i in range(20)]
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "node.kubernetes.io/instance-type": "large",
    }
    return {
        "metadata": metadata(name, labels),
        "spec": {"podCIDR": f"10.{number >> 8}.{number & 255}.0/24", "providerID": f"example:///{name}"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": kind, "status": f"{kind == 'Ready'}", **condition} for kind in kinds],
            "images": images,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }


def pod(number: int, nodes: int) -> dict[str, Any]:
    """A running pod of one of a few hundred templates, as written by admission, scheduler and kubelet."""
    template = number % _TEMPLATES
    name = f"app-{template}-{number}"
    token = f"kube-api-access-{number:05x}"[-21:]
    requests = {"cpu": f"{100 + template}m", "memory": f"{64 + template}Mi"}
    container = {
        "name": "main",
        "image": f"registry.example/image-{template % 20}:1",
        "resources": {"requests": requests, "limits": requests},
        "env": [{"name": "MODE", "value": "production"}],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "volumeMounts": [{"name": token, "readOnly": True, "mountPath": "/var/run/secrets/token"}],
        "imagePullPolicy": "IfNotPresent",
    }
    wait = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    state = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": _CREATED}}}
    labels = {"app": f"app-{template}", "pod-template-hash": f"{template:08x}"}
    meta = metadata(name, labels) | {"namespace": f"team-{template % 20}"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{template}", "uid": f"u-{template}"}
    meta["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {
        "metadata": meta,
        "spec": {
            "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {}}]}}],
            "containers": [container],
            "restartPolicy": "Always",
            "nodeName": f"node-{number % nodes}",
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": key, **wait} for key in keys],
            "priority": 0,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": _CREATED} for kind in kinds
            ],
            "startTime": _CREATED,
            "containerStatuses": [state],
        },
    }


def metadata(name: str, labels: dict[str, str]) -> dict[str, Any]:
    """The metadata of an object, managed fields included."""
    owned = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}, "f:status": {"f:phase": {}}}
    manager = {"manager": "kubelet", "operation": "Update", "time": _CREATED, "fieldsV1": owned}
    return {
        "name": name,
        "uid": f"5f3c1a6e-0000-4000-8000-{name[-12:]:0>12}",
        "resourceVersion": "4711",
        "creationTimestamp": _CREATED,
        "labels": labels,
        "annotations": {"example.com/checksum": "c0ffee" * 10},
        "managedFields": [manager, manager],
    }


def pages(count: int, make: Callable[[int], dict[str, Any]]) -> list[bytes]:
    """A list of `count` objects in pages; the continue token is the number of the next page."""
    found = []
    for start in range(0, max(count, 1), PAGE_SIZE):
        end = min(count, start + PAGE_SIZE)
        more = {"continue": f"{end // PAGE_SIZE}"} if end < count else {}
        items = [make(number) for number in range(start, end)]
        listed = {"metadata": {"resourceVersion": str(VERSION), **more}, "items": items}
        found.append(msgspec.json.encode(listed))
    return found


def running_cluster(nodes: int, pods: int) -> dict[str, list[bytes]]:
    """Lists of nodes and running pods."""
    return {
        "/api/v1/nodes": pages(nodes, node),
        PODS_PATH: pages(pods, lambda number: pod(number, nodes)),
    }


class CannedServer(StandInServer):
    """Context manager of the server; clients use `server.kubeconfig`.

    `lists` are pages by path; lists of other kinds are empty. `on_bind(key, node)` is called for each binding
    on the thread of its connection.
    """

    def __init__(
        self, lists: dict[str, list[bytes]], on_bind: Callable[[str, str], None] = lambda key, node: None
    ) -> None:
        self.lists = lists
        self.nothing = pages(0, node)
        self.on_bind = on_bind
        self._lines: dict[str, SimpleQueue[bytes]] = {}
        super().__init__(_Handler)
        self.kubeconfig = Path(tempfile.mkdtemp()) / "kubeconfig"
        self.kubeconfig.write_text(_KUBECONFIG.format(port=self.server_address[1]))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for lines in list(self._lines.values()):
            lines.put(b"")
        self.shutdown()
        self.server_close()

    def tell(self, path: str, lines: bytes) -> None:
        """Send whole lines to the watch of a path; they are kept until a watch exists."""
        self.lines_of(path).put(lines)

    def lines_of(self, path: str) -> SimpleQueue[bytes]:
        """The pending lines for the watch of a path; b"" ends the watch."""
        return self._lines.setdefault(path, SimpleQueue())


class _Handler(StandInHandler):
    # Head and body of an answer go out in one packet.
    wbufsize = -1
    server: CannedServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if "watch" in query:
            self._watch(url.path)
            return
        found = self.server.lists.get(url.path, self.server.nothing)
        self._answer(200, found[int(query.get("continue", ["0"])[0])])

    def do_POST(self) -> None:
        body = self._body()
        *_, namespace, _, name, last = urlsplit(self.path).path.split("/")
        if last == "binding":
            self.server.on_bind(f"{namespace}/{name}", msgspec.json.decode(body)["target"]["name"])
        self._answer(201, _SUCCESS)

    def do_PATCH(self) -> None:
        self._body()
        self._answer(200, _SUCCESS)

    def do_DELETE(self) -> None:
        self._body()
        self._answer(200, _SUCCESS)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _answer(self, status: int, body: bytes) -> None:
        self.answer(status, body, {"Content-Type": "application/json"})
        self.wfile.flush()

    def _watch(self, path: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        lines = self.server.lines_of(path)
        # Who went away is told nothing more.
        with suppress(OSError):
            while said := lines.get():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(said), said))
                self.wfile.flush()


_SUCCESS: Final = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'
_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: canned
contexts: [{{name: canned, context: {{cluster: canned, user: nobody}}}}]
clusters: [{{name: canned, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: nobody, user: {{}}}}]
"""
