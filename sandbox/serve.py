"""What `muster-sandbox up` does: serve until a signal comes, with the rest of Muster if it is wanted."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

from sandbox.builtin import LEASES, MUTATING_WEBHOOKS
from sandbox.cluster import ClusterOptions, SandboxCluster, crd_dir, read_crds
from sandbox.kinds import ApiKind
from sandbox.kubeconfig import write_kubeconfig
from sandbox.nodes import Topology
from sandbox.objects import Obj
from sandbox.server import ServerOptions
from sandbox.stack import Say, Stack, commands
from sandbox.store import EventType, Store


@dataclass(frozen=True)
class Request:
    """What to serve: nodes, port (0: any), where the kubeconfig goes (None: a temporary file).

    `everything` adds Muster's CRDs, its webhook and its scheduler.
    """

    topology: Topology
    port: int = 0
    kubeconfig: Path | None = None
    everything: bool = False


async def serve(request: Request, say: Say) -> None:
    """Serve until SIGINT or SIGTERM. `say` prints a line.

    Raises OSError if the port is taken, ConfigError for bad objects, ProcessEnded if a process ends.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    objects = read_crds(crd_dir()) if request.everything else []
    if request.topology.config_map:
        objects.append(request.topology.config_map)
    options = ClusterOptions(ServerOptions(port=request.port), request.topology.nodes, objects)
    cluster = SandboxCluster(options)
    await cluster.start()
    try:
        path = _publish(cluster, request.kubeconfig)
        nodes = len(request.topology.nodes)
        say(f"A sandbox with {nodes} nodes serves at {cluster.server.url} (loopback only, nothing is kept).")
        say(f"export KUBECONFIG={path}")
        say("Ctrl-C stops it.")
        programs = commands(path, cluster.server.directory) if request.everything else {}
        if programs:
            _announce(cluster.server.store, say)
        await _wait(stop, Stack(programs, say))
    finally:
        await cluster.stop()
    say("The sandbox has stopped.")


def _publish(cluster: SandboxCluster, path: Path | None) -> Path:
    server = cluster.server
    if path is None:
        return server.kubeconfig
    write_kubeconfig(path, server.url, server.ca_file.read_bytes(), server.token)
    return path.resolve()


def _announce(store: Store, say: Say) -> None:
    """Say once when the webhook has registered, and when a scheduler leads."""
    signs = {MUTATING_WEBHOOKS: "The webhook is registered.", LEASES: "The scheduler is at work."}

    def listen(kind: ApiKind, text: str) -> None:
        def seen(event: EventType, obj: Obj, old: Obj | None) -> None:
            unsubscribe()
            say(text)

        unsubscribe = store.subscribe(kind, seen)

    for kind, text in signs.items():
        listen(kind, text)


async def _wait(stop: asyncio.Event, stack: Stack) -> None:
    """Run the stack until the signal comes, or one of its processes ends by itself."""
    stopping = asyncio.create_task(stop.wait())
    watching = asyncio.create_task(stack.run())
    try:
        await asyncio.wait({stopping, watching}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()
    finally:
        stopping.cancel()
        watching.cancel()
        await asyncio.gather(stopping, watching, return_exceptions=True)
