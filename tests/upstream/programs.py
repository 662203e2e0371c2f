"""What a control plane needs beside etcd and the API server: controllers, hollow nodes and a scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sandbox.real.control_plane import end_process
from sandbox.real.controllers import JOBSET, MANAGER, jobset_command, manager_command
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import request
from tests.support.eventually import eventually
from tests.support.free_port import free_port
from tests.tools.build import have

NODES = 3
NODE_SECONDS = 120.0
DAEMONS = "kube-proxy-fluentd-elasticsearch-node-problem-detector"
DEFAULT_SCHEDULER = "default-scheduler"

Companion = Callable[[ControlPlane], AbstractContextManager[object]]


@contextmanager
def _running(folder: Path, name: str, command: Sequence[str]) -> Iterator[None]:
    """A program that writes its log and its temporary files into the folder."""
    home = folder / name
    home.mkdir(exist_ok=True)
    log_file = folder / f"{name}.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(home)}
        )
    try:
        yield
        code = process.poll()
        assert code is None, f"{name} ended with {code}; its log ends:\n{log_file.read_text()[-2000:]}"
    finally:
        end_process(process)


def controllers(server: ControlPlane, *, heartbeats: bool = True) -> AbstractContextManager[None]:
    """kube-controller-manager, where kubelets run (`heartbeats`) with all that it runs by default."""
    command = manager_command(have(MANAGER).path, server, heartbeats=heartbeats)
    return _running(server.folder, MANAGER, command)


def jobset(server: ControlPlane) -> AbstractContextManager[None]:
    """The controller of JobSets."""
    return _running(server.folder, JOBSET, jobset_command(have(JOBSET).path, server))


def _hollow_node(server: ControlPlane, number: int) -> AbstractContextManager[None]:
    name = f"hollow-{number}"
    return _running(
        server.folder,
        name,
        [
            str(have("kubemark").path),
            "--morph=kubelet",
            f"--name={name}",
            f"--kubeconfig={server.kubeconfig}",
            f"--kubelet-port={free_port()}",
            f"--kubelet-read-only-port={free_port()}",
            f"--node-labels=topology.kubernetes.io/zone=zone-{number}",
            # Their storage is pretended, and would be none.
            "--extended-resources=ephemeral-storage=100Gi",
            "--use-host-image-service=false",
            "--kube-api-qps=50",
            "--kube-api-burst=100",
        ],
    )


@contextmanager
def hollow_nodes(server: ControlPlane) -> Iterator[None]:
    """Kubelets whose containers are pretended, each in a zone of its own; ready when the block starts."""
    with ExitStack() as running:
        for number in range(NODES):
            running.enter_context(_hollow_node(server, number))
        eventually(lambda: _ready(server) == NODES, timeout=NODE_SECONDS)
        for number in range(NODES):
            request(server, "POST", "/api/v1/namespaces/kube-system/pods", _daemon(f"hollow-{number}"))
        eventually(lambda: _daemons_run(server), timeout=NODE_SECONDS)
        yield


def _daemon(node: str) -> dict[str, Any]:
    """Before most specs the suite waits a minute for the daemons of a cloud: one pod has all their names."""
    return {
        "metadata": {"name": f"{DAEMONS}-{node}"},
        "spec": {
            "nodeName": node,
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "main", "image": "registry.example/daemon:1"}],
        },
    }


def _daemons_run(server: ControlPlane) -> bool:
    pods = request(server, "GET", "/api/v1/namespaces/kube-system/pods")["items"]
    return len(pods) == NODES and all(pod["status"].get("phase") == "Running" for pod in pods)


def _ready(server: ControlPlane) -> int:
    nodes = request(server, "GET", "/api/v1/nodes")["items"]
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True" and not node["spec"].get("taints")
        for node in nodes
        for condition in node["status"].get("conditions") or ()
    )


def muster(kubeconfig: Path, folder: Path) -> AbstractContextManager[None]:
    """Muster with its built-in configuration, in the place of the default scheduler."""
    flags = [f"--kubeconfig={kubeconfig}", f"--scheduler-name={DEFAULT_SCHEDULER}"]
    flags += ["--leader-elect=false", "--secure-port=0"]
    return _running(folder, "muster", [sys.executable, "-m", "scheduler_core.app", *flags])


def kube_scheduler(server: ControlPlane) -> AbstractContextManager[None]:
    """kube-scheduler as it comes."""
    return _running(
        server.folder,
        "kube-scheduler",
        [
            str(have("kube-scheduler").path),
            f"--kubeconfig={server.kubeconfig}",
            f"--cert-dir={server.folder / 'kube-scheduler'}",
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ],
    )


SCHEDULERS: Mapping[str, Companion] = {
    "muster": lambda server: muster(server.kubeconfig, server.folder),
    "kube-scheduler": kube_scheduler,
}


def cluster(scheduler: str) -> ControlPlane:
    """A whole cluster with that scheduler."""
    return ControlPlane(companions=(controllers, hollow_nodes, SCHEDULERS[scheduler]))


def logs(server: ControlPlane, folder: Path) -> None:
    """Keep the logs of all programs of a control plane, which go away with it."""
    for log in server.folder.glob("*.log"):
        (folder / log.name).write_bytes(log.read_bytes())
