"""`muster-sandbox up`: serves a cluster until a signal arrives, optionally with scheduler and webhook."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sandbox.api.server import HOST, ServerOptions
from sandbox.cluster import ClusterOptions, SandboxCluster
from sandbox.controllers.unserved_pods import UnservedPods
from sandbox.initial_objects import crd_dir, put_object, read_crds, read_user_roles
from sandbox.kinds.builtin import CONFIG_MAPS, NODES
from sandbox.kubeconfig import write_kubeconfig
from sandbox.marker import NAMESPACE, marker
from sandbox.nodes.initial_nodes import Topology
from sandbox.objects import Obj
from sandbox.persistence.folder import KeptFolder, KeptSettings
from sandbox.processes import ChildProcesses, Say, commands
from sandbox.real.cluster import RealCluster
from sandbox.real.control_plane import Binaries
from sandbox.scheduler_config import as_published, at_this_server, profile_names
from sandbox.seeds.seed import Seed
from sandbox.seeds.seeding import Seeded
from sandbox.signs import SIGNS, on_first
from sandbox.store.object_store import ObjectStore
from sandbox.store.registry import Registry
from scheduler_core.errors import MusterError
from scheduler_core.model.names import MUSTER_SCHEDULER


@dataclass(frozen=True)
class ServeOptions:
    """Nodes, port (0: any free port) and kubeconfig path (None: a temporary file) of the cluster.

    `everything` adds Muster's CRDs, webhook and scheduler; `config` is the scheduler's configuration file.
    With `binaries`, a real kube-apiserver replaces the sandbox's own server. `keep` is the folder of a
    cluster that lasts; with `rbac`, roles limit what users may do. `nodes_given` is true where the caller
    asked for the nodes. `seed` has the first objects.
    """

    topology: Topology
    port: int = 0
    kubeconfig: Path | None = None
    everything: bool = False
    config: Path | None = None
    binaries: Binaries | None = None
    keep: Path | None = None
    nodes_given: bool = False
    seed: Seed | None = None
    speed: float = 1.0
    rbac: bool = False


class PortInUse(MusterError):
    """The port of the server: its number, and the folder that determines it, if any."""

    def __init__(self, port: int, folder: Path | None) -> None:
        self.port = port
        self.folder = folder
        super().__init__(port, folder)

    def __str__(self) -> str:
        text = f"port {self.port} on {HOST} is in use"
        if self.folder is None:
            return f"{text}; choose another one with --port, or leave --port out"
        return (
            f"{text}; {self.folder} keeps it for its kubeconfig: end the other program, or give a new --port"
        )


class NodesDiffer(MusterError):
    """Nodes were asked for that are not those of the kept cluster."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        self.nodes = nodes
        super().__init__(folder, nodes)

    def __str__(self) -> str:
        return (
            f"{self.folder} was started with {self.nodes} nodes of its own: leave out --nodes, --topology "
            "and --node-..., or give them as at its first start"
        )


class KubeconfigNotWritten(MusterError):
    """The kubeconfig cannot be written: its path, and the cause."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(path, problem)

    def __str__(self) -> str:
        return (
            f"{self.path}: cannot write the kubeconfig: {self.problem}; name another file with --kubeconfig"
        )


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
    @property
    def registry(self) -> Registry: ...
    @property
    def seeded(self) -> Seeded | None: ...
    async def start(self) -> None: ...
    async def ended(self) -> None: ...
    async def stop(self) -> None: ...


async def serve(request: ServeOptions, say: Say) -> None:
    """Serve until SIGINT or SIGTERM; `say` prints one line.

    Raises PortInUse, KubeconfigNotWritten, ConfigError for invalid objects, ProcessEnded if a process ends,
    ControlPlaneFailed if the real API server does not start, and the errors of KeptFolder.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    with KeptFolder(request.keep) if request.keep else nullcontext() as kept:
        again = kept is not None and kept.settings is not None
        if kept and kept.settings:
            _check_nodes(request, kept, kept.settings)
        cluster = _cluster(request, kept)
        await _start(cluster, request, kept)
        try:
            path = _publish(cluster.server, request.kubeconfig)
            await put_object(cluster.registry, CONFIG_MAPS, NAMESPACE, marker(cluster.server.url))
            if kept:
                _complete(cluster, request, kept)
            _introduce(cluster, request, path, say)
            if request.seed and again:
                say(f"{request.keep} has objects already: {request.seed.file} is not used again.")
            await _run(cluster, request, path, stop, say)
        finally:
            await cluster.stop()
    say("The sandbox has stopped.")


async def _start(cluster: Cluster, request: ServeOptions, kept: KeptFolder | None) -> None:
    try:
        await cluster.start()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        settled = kept.settings if kept else None
        folder = request.keep if settled and not request.port else None
        raise PortInUse(request.port or (settled.port if settled else 0), folder) from None


def _check_nodes(request: ServeOptions, kept: KeptFolder, settings: KeptSettings) -> None:
    if request.nodes_given and request.topology.digest != settings.topology:
        raise NodesDiffer(kept.path, settings.nodes)


def _cluster(request: ServeOptions, kept: KeptFolder | None) -> Cluster:
    nodes: Sequence[Obj] = request.topology.nodes
    objects = read_crds(crd_dir()) if request.everything or request.seed else []
    if request.rbac and request.everything:
        objects += read_user_roles()
    settings = kept.settings if kept else None
    if settings:
        nodes = ()
    elif request.topology.config_map:
        objects.append(request.topology.config_map)
    if request.binaries:
        return RealCluster(request.binaries, nodes, objects, request.port, speed=request.speed)
    server = ServerOptions(
        directory=kept.path if kept else None,
        port=request.port or (settings.port if settings else 0),
        token=settings.token if settings else "",
        rbac=request.rbac,
    )
    seed = None if settings else request.seed
    return SandboxCluster(ClusterOptions(server, nodes, objects, kept, request.speed, seed))


def _complete(cluster: Cluster, request: ServeOptions, kept: KeptFolder) -> None:
    """Remember port and token, and the nodes of the first start."""
    port = int(cluster.server.url.rpartition(":")[2])
    nodes, digest = len(request.topology.nodes), request.topology.digest
    if kept.settings:
        nodes, digest = kept.settings.nodes, kept.settings.topology
    kept.complete(KeptSettings(port, cluster.server.token, nodes, digest))


def _introduce(cluster: Cluster, request: ServeOptions, path: Path, say: Say) -> None:
    count = cluster.store.count(NODES)
    nodes = f"{count} node" if count == 1 else f"{count} nodes"
    what = "A real kube-apiserver" if request.binaries else "A sandbox"
    kept = f"kept in {request.keep}" if request.keep else "nothing is kept"
    say(f"{what} with {nodes} serves at {cluster.server.url} (loopback only, {kept}).")
    say(f"export KUBECONFIG={path}")
    if request.rbac:
        say("Roles limit what users may do: kubectl create rolebinding, then kubectl --as USER.")
    say("Ctrl-C stops it.")
    if request.seed and cluster.seeded:
        say(f"{request.seed.file}: {cluster.seeded}.")
        if request.seed.steps:
            say(f"{request.seed.file}: its steps ({request.seed.steps}) are not played.")


async def _run(
    cluster: Cluster, request: ServeOptions, kubeconfig: Path, stop: asyncio.Event, say: Say
) -> None:
    """Run scheduler and webhook, if asked for, until `stop` is set."""
    programs: dict[str, list[str]] = {}
    names: list[str] = []
    if request.everything:
        state = cluster.server.folder
        given = request.seed.config if request.seed else None
        config = at_this_server(request.config, kubeconfig, state, given=given, only_scheduler=True)
        await put_object(cluster.registry, CONFIG_MAPS, NAMESPACE, as_published(config))
        names = profile_names(config)
        programs = commands(kubeconfig, state, config)
        _announce(cluster.store, say)
        if MUSTER_SCHEDULER not in names:
            say(f"No profile is named {MUSTER_SCHEDULER}: pods of namespaces with a quota will wait.")
    watch = UnservedPods(cluster.registry, names)
    watch.start()
    try:
        await _wait(stop, cluster, ChildProcesses(programs, say))
    finally:
        await watch.stop()


def _publish(server: ClusterServer, path: Path | None) -> Path:
    if path is None:
        return server.kubeconfig
    try:
        write_kubeconfig(path, server.url, server.ca_file.read_bytes(), server.token)
    except OSError as error:
        raise KubeconfigNotWritten(path, error.strerror or str(error)) from None
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
