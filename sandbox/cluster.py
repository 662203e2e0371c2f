"""Sandbox cluster: API server, admission, controllers, kubelet and initial objects in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sandbox.admission.priority import SYSTEM_CLASSES
from sandbox.api.server import ApiServer, ServerOptions
from sandbox.controllers import Controllers, start_controllers
from sandbox.initial_objects import create_objects
from sandbox.kinds.builtin import NODES, PRIORITY_CLASSES
from sandbox.nodes.kubelet import Kubelet
from sandbox.objects import Obj, copy_json
from sandbox.persistence.abandoned_leases import remove_abandoned
from sandbox.persistence.folder import KeptFolder
from sandbox.persistence.journal import Journal
from sandbox.seeds.seed import Seed
from sandbox.seeds.seeding import Seeded, Seeder
from sandbox.store.registry import Registry


@dataclass(frozen=True)
class ClusterOptions:
    """Settings of a sandbox cluster. `objects` and their missing namespaces are created after the nodes.

    `kept` is the folder that the objects come from and go to; its cluster has its nodes already. `speed`
    divides the times of kubelet and Jobs. `seed` has the first objects of a cluster without restored ones.
    """

    server: ServerOptions = field(default_factory=ServerOptions)
    nodes: Sequence[Obj] = ()
    objects: Sequence[Obj] = ()
    kept: KeptFolder | None = None
    speed: float = 1.0
    seed: Seed | None = None


class SandboxCluster:
    """Lifecycle of one cluster: `start`, use `server`, `stop`. All calls belong to one event loop.

    `store` has all objects of the cluster.
    """

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self.server = ApiServer(replace(options.server, settled=self._settled if options.kept else None))
        self.store = self.server.store
        self.kubelet = Kubelet(self.server.registry, speed=options.speed)
        self.seeded: Seeded | None = None
        self._journal = Journal(options.kept.generation, self.store) if options.kept else None
        self._controllers: Controllers | None = None

    async def start(self) -> None:
        """Start serving. Raises OSError if the port is in use, ConfigError if an object is refused."""
        registry = self.registry
        authority = self.server.prepare().ca.read_text()
        try:
            if self._journal:
                self._journal.start()
            if self._options.seed:
                # Before the controllers, which would act on a part of the objects.
                await self._first_objects()
                self.seeded = await Seeder(self.store, self.server.kinds, self._options.seed).run()
            self._controllers = start_controllers(registry, authority, speed=self._options.speed)
            self.kubelet.start()
            if self._options.kept and self._options.kept.settings:
                # All controllers and the kubelet see the objects of the last start as new ones.
                kept = self._options.kept.restored
                self.store.restore(kept.in_order(), kept.revision)
                await remove_abandoned(registry)
            if not self._options.seed:
                await self._first_objects()
            await self.server.start()
            await self._settled()
        except BaseException:
            await self.stop()
            raise

    async def _first_objects(self) -> None:
        for priority_class in SYSTEM_CLASSES:
            if self.store.get(PRIORITY_CLASSES, "", priority_class["metadata"]["name"]) is None:
                await self.registry.create(PRIORITY_CLASSES, copy_json(priority_class))
        for node in self._options.nodes:
            await self.registry.create(NODES, node)
        await create_objects(self.registry, self._options.objects)

    @property
    def registry(self) -> Registry:
        """Reads and writes of objects, as the API server does them."""
        return self.server.registry

    async def _settled(self) -> None:
        if self._journal:
            await self._journal.settled()

    async def ended(self) -> None:
        """Wait until the objects can no longer be kept; raises JournalFailed."""
        if self._journal:
            await self._journal.ended()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Stop the server, the kubelet and the controllers."""
        await self.server.stop()
        await self.kubelet.stop()
        if self._controllers:
            await self._controllers.stop()
            self._controllers = None
        if self._journal:
            await self._journal.stop()
            self._journal = None
