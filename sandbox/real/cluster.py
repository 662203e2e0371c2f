"""Cluster of a real kube-apiserver and etcd with the sandbox's nodes, kubelet and controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from sandbox.controllers import Controllers, start_controllers
from sandbox.initial_objects import create_objects
from sandbox.kinds.builtin import CUSTOM_RESOURCE_DEFINITIONS, NODES
from sandbox.nodes.kubelet import Kubelet
from sandbox.objects import Obj, has_condition
from sandbox.processes import ProcessEnded
from sandbox.real.client import TokenClient
from sandbox.real.control_plane import START_SECONDS, Binaries, ControlPlane, ControlPlaneFailed
from sandbox.real.reflector import MirrorReflectors, MirrorStore
from sandbox.real.registry import RemoteRegistry
from sandbox.seeds.seeding import Seeded
from sandbox.store.registry import Registry

# The sandbox has no controllers that remove the taint of new nodes or the finalizers of claims and volumes.
_FLAGS: Final = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
)
_SETTLE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.5
_SERVED_POLL_SECONDS: Final = 0.1


class RealCluster:
    """Lifecycle of one cluster: `start`, use `server`, `stop`. All calls belong to one event loop.

    `store` is a local copy of the server's objects, which lags slightly behind. `controllers` is false where
    kube-controller-manager runs instead of the sandbox's controllers. `speed` divides the times of kubelet
    and Jobs.
    """

    def __init__(
        self,
        binaries: Binaries,
        nodes: Sequence[Obj] = (),
        objects: Sequence[Obj] = (),
        port: int = 0,
        *,
        controllers: bool = True,
        speed: float = 1.0,
    ) -> None:
        self.server = ControlPlane(binaries, _FLAGS, port)
        self._nodes = nodes
        self._objects = objects
        self._own_controllers = controllers
        self._speed = speed
        self._client: TokenClient | None = None
        self._registry: RemoteRegistry | None = None
        self._followers: MirrorReflectors | None = None
        self._kubelet: Kubelet | None = None
        self._controllers: Controllers | None = None
        self._up = False
        self.store = MirrorStore()
        self.seeded: Seeded | None = None

    async def start(self) -> None:
        """Start serving. Raises ControlPlaneFailed, or ConfigError if the server refuses an object."""
        await asyncio.to_thread(self.server.__enter__)
        self._up = True
        try:
            await self._start_components()
        except BaseException:
            await self.stop()
            raise

    async def _start_components(self) -> None:
        self._client = TokenClient(self.server.url, self.server.token, self.server.ca_file)
        registry = self._registry = RemoteRegistry(self._client, self.store)
        self._followers = MirrorReflectors(self._client, self.store, registry.kinds)
        await self._followers.start()
        if self._own_controllers:
            authority = self.server.ca_file.read_text()
            self._controllers = start_controllers(
                registry, authority, settle=_SETTLE_SECONDS, speed=self._speed
            )
        self._kubelet = Kubelet(registry, speed=self._speed)
        self._kubelet.start()
        for node in self._nodes:
            await registry.create(NODES, node)
        await create_objects(registry, self._objects)
        await self._await_definitions(registry)

    async def _await_definitions(self, registry: Registry) -> None:
        """Wait until the kinds that were defined are served: whoever asks for one before gets a 404."""
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        for obj in self._objects:
            if obj["kind"] != CUSTOM_RESOURCE_DEFINITIONS.kind:
                continue
            name = obj["metadata"]["name"]
            while not has_condition(
                await registry.read(CUSTOM_RESOURCE_DEFINITIONS, "", name), "Established"
            ):
                if asyncio.get_running_loop().time() > deadline:
                    raise ControlPlaneFailed(
                        f"CustomResourceDefinition {name} is not established after {START_SECONDS:g} s"
                    )
                await asyncio.sleep(_SERVED_POLL_SECONDS)

    @property
    def registry(self) -> Registry:
        """Reads and writes of objects, after `start`."""
        assert self._registry is not None
        return self._registry

    async def ended(self) -> None:
        """Wait until etcd or kube-apiserver ends unexpectedly; raises ProcessEnded."""
        while True:
            found = self.server.ended()
            if found:
                raise ProcessEnded(*found)
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """Stop controllers, kubelet and control plane."""
        if self._client:
            await self._client.close()
        if self._kubelet:
            await self._kubelet.stop()
        if self._controllers:
            await self._controllers.stop()
        if self._followers:
            await self._followers.stop()
        if self._client:
            with suppress(TimeoutError):
                await self._client.closed()
        self._kubelet = self._controllers = self._followers = self._client = None
        if self._up:
            self._up = False
            await asyncio.to_thread(self.server.__exit__, None, None, None)
