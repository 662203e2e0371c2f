"""A cluster around a real kube-apiserver: what it lacks, nodes, kubelet and controllers, is the sandbox's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sandbox.builtin import NODES
from sandbox.controllers import Controllers, start_controllers
from sandbox.creation import create_objects
from sandbox.kubelet import Kubelet
from sandbox.objects import Obj
from sandbox.real.client import Client
from sandbox.real.control_plane import Binaries, ControlPlane
from sandbox.real.mirror import Followers, Mirror
from sandbox.real.registry import RealRegistry
from sandbox.stack import ProcessEnded
from sandbox.store import Store

# Nobody here would take away the taint of new nodes, or the finalizers of claims and volumes.
_FLAGS: Final = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
)
_SETTLE_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.5


class RealCluster:
    """`start`, then use the attributes; then `stop`. All on one event loop but the start of the programs."""

    def __init__(
        self, binaries: Binaries, nodes: Sequence[Obj] = (), objects: Sequence[Obj] = (), port: int = 0
    ) -> None:
        self._plane = ControlPlane(binaries, _FLAGS, port)
        self._nodes = nodes
        self._objects = objects
        self._client: Client | None = None
        self._followers: Followers | None = None
        self._kubelet: Kubelet | None = None
        self._controllers: Controllers | None = None
        self._up = False
        self._mirror = Mirror()

    @property
    def store(self) -> Store:
        """What the server has, a moment later."""
        return self._mirror

    @property
    def url(self) -> str:
        """`https://127.0.0.1:port`."""
        return self._plane.url

    @property
    def token(self) -> str:
        """The bearer token of an admin."""
        return self._plane.token

    @property
    def ca_file(self) -> Path:
        """PEM of the authority that signed the serving certificate."""
        return self._plane.ca_file

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for kubectl and client libraries."""
        return self._plane.kubeconfig

    @property
    def directory(self) -> Path:
        """A folder that goes away with the cluster."""
        return self._plane.folder

    async def start(self) -> None:
        """Serve. Raises ControlPlaneFailed, and ConfigError for an object that the server refuses."""
        await asyncio.to_thread(self._plane.__enter__)
        self._up = True
        try:
            await self._furnish()
        except BaseException:
            await self.stop()
            raise

    async def _furnish(self) -> None:
        self._client = Client(self.url, self.token, self.ca_file)
        registry = RealRegistry(self._client, self._mirror)
        self._followers = Followers(self._client, self._mirror, registry.kinds)
        await self._followers.start()
        authority = self.ca_file.read_text()
        self._controllers = start_controllers(registry, authority, settle=_SETTLE_SECONDS)
        self._kubelet = Kubelet(registry)
        self._kubelet.start()
        for node in self._nodes:
            await registry.create(NODES, node)
        await create_objects(registry, self._objects)

    async def ended(self) -> None:
        """Wait for the end of a program of the control plane that nobody asked for: raises ProcessEnded."""
        while True:
            found = self._plane.ended()
            if found:
                raise ProcessEnded(*found)
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self) -> None:
        """End everything that runs."""
        if self._client:
            await self._client.close()
        if self._kubelet:
            await self._kubelet.stop()
        if self._controllers:
            await self._controllers.stop()
        if self._followers:
            await self._followers.stop()
        self._kubelet = self._controllers = self._followers = self._client = None
        if self._up:
            self._up = False
            await asyncio.to_thread(self._plane.__exit__, None, None, None)
