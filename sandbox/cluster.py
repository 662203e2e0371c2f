"""Sandbox cluster: API server, admission, controllers, kubelet and initial objects in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox.admission.priority import SYSTEM_CLASSES
from sandbox.api.server import ApiServer, ServerOptions
from sandbox.controllers import Controllers, start_controllers
from sandbox.initial_objects import create_objects
from sandbox.kinds.builtin import NODES, PRIORITY_CLASSES
from sandbox.nodes.kubelet import Kubelet
from sandbox.objects import Obj, copy_json


@dataclass(frozen=True)
class ClusterOptions:
    """Settings of a sandbox cluster. `objects` and their missing namespaces are created after the nodes."""

    server: ServerOptions = field(default_factory=ServerOptions)
    nodes: Sequence[Obj] = ()
    objects: Sequence[Obj] = ()


class SandboxCluster:
    """Lifecycle of one cluster: `start`, use `server`, `stop`. All calls belong to one event loop.

    `store` has all objects of the cluster.
    """

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self.server = ApiServer(options.server)
        self.store = self.server.store
        self.kubelet = Kubelet(self.server.registry)
        self._controllers: Controllers | None = None

    async def start(self) -> None:
        """Start serving. Raises OSError if the port is in use, ConfigError if an object is refused."""
        registry = self.server.registry
        authority = self.server.prepare().ca.read_text()
        self._controllers = start_controllers(registry, authority)
        self.kubelet.start()
        try:
            for priority_class in SYSTEM_CLASSES:
                await registry.create(PRIORITY_CLASSES, copy_json(priority_class))
            for node in self._options.nodes:
                await registry.create(NODES, node)
            await create_objects(registry, self._options.objects)
            await self.server.start()
        except BaseException:
            await self.stop()
            raise

    async def ended(self) -> None:
        """Wait forever: the cluster has no child process that could end."""
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Stop the server, the kubelet and the controllers."""
        await self.server.stop()
        await self.kubelet.stop()
        if self._controllers:
            await self._controllers.stop()
            self._controllers = None
