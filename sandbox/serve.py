"""`muster-sandbox up`: serves a cluster until a signal arrives, optionally with scheduler and webhook."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sandbox.api.server import ServerOptions
from sandbox.cluster import ClusterOptions, SandboxCluster
from sandbox.initial_objects import crd_dir, read_crds
from sandbox.kubeconfig import write_kubeconfig
from sandbox.nodes.initial_nodes import Topology
from sandbox.objects import Obj
from sandbox.processes import ChildProcesses, Say, commands
from sandbox.real.cluster import RealCluster
from sandbox.real.control_plane import Binaries
from sandbox.scheduler_config import at_this_server
from sandbox.signs import SIGNS, on_first
from sandbox.store.object_store import ObjectStore


@dataclass(frozen=True)
class ServeOptions:
    """Nodes, port (0: any free port) and kubeconfig path (None: a temporary file) of the cluster.

    `everything` adds Muster's CRDs, webhook and scheduler; `config` is the scheduler's configuration file.
    With `binaries`, a real kube-apiserver replaces the sandbox's own server.
    """

    topology: Topology
    port: int = 0
    kubeconfig: Path | None = None
    everything: bool = False
    config: Path | None = None
    binaries: Binaries | None = None


class ClusterServer(Protocol):
    """How the API server of a started cluster is reached; `folder` goes away with the cluster."""

    url: str
    token: str
    ca_file: Path
    kubeconfig: Path
    folder: Path


class Cluster(Protocol):
    """Interface of a served cluster: SandboxCluster, or RealCluster with a real kube-apiserver."""

    @property
    def server(self) -> ClusterServer: ...
    @property
    def store(self) -> ObjectStore: ...
    async def start(self) -> None: ...
    async def ended(self) -> None: ...
    async def stop(self) -> None: ...


async def serve(request: ServeOptions, say: Say) -> None:
    """Serve until SIGINT or SIGTERM; `say` prints one line.

    Raises OSError if the port is in use, ConfigError for invalid objects, ProcessEnded if a process ends,
    ControlPlaneFailed if the real API server does not start.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    objects = read_crds(crd_dir()) if request.everything else []
    if request.topology.config_map:
        objects.append(request.topology.config_map)
    cluster = _cluster(request, objects)
    await cluster.start()
    try:
        path = _publish(cluster.server, request.kubeconfig)
        count = len(request.topology.nodes)
        nodes = f"{count} node" if count == 1 else f"{count} nodes"
        what = "A real kube-apiserver" if request.binaries else "A sandbox"
        say(f"{what} with {nodes} serves at {cluster.server.url} (loopback only, nothing is kept).")
        say(f"export KUBECONFIG={path}")
        say("Ctrl-C stops it.")
        programs = _programs(request, path, cluster.server.folder)
        if programs:
            _announce(cluster.store, say)
        await _wait(stop, cluster, ChildProcesses(programs, say))
    finally:
        await cluster.stop()
    say("The sandbox has stopped.")


def _cluster(request: ServeOptions, objects: Sequence[Obj]) -> Cluster:
    nodes = request.topology.nodes
    if request.binaries:
        return RealCluster(request.binaries, nodes, objects, request.port)
    return SandboxCluster(ClusterOptions(ServerOptions(port=request.port), nodes, objects))


def _programs(request: ServeOptions, kubeconfig: Path, state: Path) -> dict[str, list[str]]:
    if not request.everything:
        return {}
    return commands(kubeconfig, state, at_this_server(request.config, kubeconfig, state))


def _publish(server: ClusterServer, path: Path | None) -> Path:
    if path is None:
        return server.kubeconfig
    write_kubeconfig(path, server.url, server.ca_file.read_bytes(), server.token)
    return path.resolve()


def _announce(store: ObjectStore, say: Say) -> None:
    """Print one line when the webhook has registered and one when a scheduler holds its Lease."""
    for kind, text in SIGNS.items():
        on_first(store, kind, partial(say, text))


async def _wait(stop: asyncio.Event, cluster: Cluster, stack: ChildProcesses) -> None:
    """Run the child processes until `stop` is set, or until one of them or of the cluster's ends."""
    stopping = asyncio.create_task(stop.wait())
    watching: list[asyncio.Task[None]] = [
        asyncio.create_task(stack.run()),
        asyncio.create_task(cluster.ended()),
    ]
    try:
        await asyncio.wait({stopping, *watching}, return_when=asyncio.FIRST_COMPLETED)
        for task in watching:
            if task.done():
                task.result()
    finally:
        stopping.cancel()
        for task in watching:
            task.cancel()
        await asyncio.gather(stopping, *watching, return_exceptions=True)
