"""Who was bound where, and when: the history of all pods as storage has it, behind the proxy's back.

Of the sandbox it is what its store tells at once, of a real control plane what etcd's own watch tells, which
goes on while the API server is killed. So nothing that a fault hides from clients is hidden from the witness.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from sandbox.kinds.builtin import PODS
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.faults.plane import FaultPlane

_FINISHED = ("Succeeded", "Failed")
_PREFIX = "/registry/pods/"


def milli(text: str) -> int:
    """A CPU quantity in thousandths; the few forms that these tests use."""
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def cpu_of(pod: dict[str, Any]) -> int:
    """What the containers ask for, in thousandths."""
    containers = pod["spec"]["containers"]
    return sum(milli(item["resources"]["requests"]["cpu"]) for item in containers)


class Witness:
    """What became of every pod, by uid. `peaks` are the most that was ever used, by namespace and by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[str]] = defaultdict(list)
        self.names: dict[str, str] = {}
        self.peaks: Counter[str] = Counter()
        self._cpu: dict[str, tuple[str, str, int]] = {}
        self._used: Counter[str] = Counter()
        # By namespace and name: a question about one namespace must not cost a look at all pods.
        self._uids: dict[str, dict[str, str]] = defaultdict(dict)
        self._lock = threading.Lock()

    def take(self, key: str, pod: dict[str, Any] | None) -> None:
        """A pod's new form; None: it is gone."""
        namespace, _, name = key.partition("/")
        with self._lock:
            uids = self._uids[namespace]
            if pod is None:
                self._free(uids.pop(name, ""))
                return
            uid = pod["metadata"]["uid"]
            self.names[uid] = key
            if uids.get(name, uid) != uid:
                self._free(uids[name])
            uids[name] = uid
            node = pod["spec"].get("nodeName", "")
            if node and self.nodes[uid][-1:] != [node]:
                self.nodes[uid].append(node)
            self._free(uid)
            if node and pod.get("status", {}).get("phase") not in _FINISHED:
                self._charge(uid, namespace, f"node {node}", cpu_of(pod))

    def _charge(self, uid: str, namespace: str, node: str, cpu: int) -> None:
        self._cpu[uid] = (namespace, node, cpu)
        for place in (namespace, node):
            self._used[place] += cpu
            self.peaks[place] = max(self.peaks[place], self._used[place])

    def _free(self, uid: str) -> None:
        namespace, node, cpu = self._cpu.pop(uid, ("", "", 0))
        for place in (namespace, node):
            self._used[place] -= cpu

    def present(self, namespace: str) -> set[str]:
        """Names of the pods that exist."""
        with self._lock:
            return set(self._uids[namespace])

    def bound(self, namespace: str) -> set[str]:
        """Names of the pods that exist and have a node."""
        with self._lock:
            return {name for name, uid in self._uids[namespace].items() if self.nodes.get(uid)}

    def bindings(self, namespace: str) -> dict[str, list[str]]:
        """Every node that each pod ever had, by uid; of pods that are gone too."""
        with self._lock:
            return {
                uid: list(nodes)
                for uid, nodes in self.nodes.items()
                if nodes and self.names[uid].startswith(f"{namespace}/")
            }


@contextmanager
def of_sandbox(server: SandboxServer) -> Iterator[Witness]:
    """The sandbox's store tells, in the middle of each write."""
    witness = Witness()

    def told(event: str, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        meta = obj["metadata"]
        witness.take(f"{meta['namespace']}/{meta['name']}", None if event == "DELETED" else obj)

    async def follow() -> Any:
        return server.api.store.subscribe(PODS, told)

    end = server.run(follow())
    try:
        yield witness
    finally:
        end()


@contextmanager
def of_plane(plane: FaultPlane) -> Iterator[Witness]:
    """etcd tells, through its own HTTP gateway."""
    witness = Witness()
    edges = {"key": _b64(_PREFIX), "range_end": _b64(_PREFIX[:-1] + chr(ord("/") + 1))}
    place = urlsplit(plane.etcd)
    with closing(HTTPConnection(place.hostname or "", place.port)) as link:
        link.connect()
        raw: socket.socket = link.sock
        link.request("POST", "/v3/watch", json.dumps({"create_request": edges}))
        stream = link.getresponse()
        # The first line says that the watch is made: what happens from now on is told.
        assert json.loads(stream.readline())["result"]["created"]

        def read() -> None:
            with suppress(OSError, HTTPException):
                while line := stream.readline():
                    for event in json.loads(line)["result"].get("events", ()):
                        _take(witness, event)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield witness
        raw.shutdown(socket.SHUT_RDWR)
        reader.join(60)
        stream.close()


def _take(witness: Witness, event: dict[str, Any]) -> None:
    key = base64.b64decode(event["kv"]["key"]).decode().removeprefix(_PREFIX)
    gone = event.get("type") == "DELETE"
    witness.take(key, None if gone else json.loads(base64.b64decode(event["kv"]["value"])))


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
