"""The whole sandbox in this process: API server, admission, controllers and kubelet, with some nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

from sandbox.cluster import ClusterOptions, SandboxCluster
from sandbox.nodes import NodeShape, numbered_nodes
from sandbox.server import ServerOptions
from tests.support.sandbox_server import SandboxServer


class FullSandbox(SandboxServer):
    """As SandboxServer. `services` says where a webhook's service of (namespace, name) listens."""

    def __init__(
        self, nodes: int = 0, services: Mapping[tuple[str, str], tuple[str, int]] | None = None
    ) -> None:
        super().__init__()
        self._cluster_options = ClusterOptions(
            ServerOptions(services=services), numbered_nodes(nodes, NodeShape())
        )
        self.cluster: SandboxCluster

    async def _start(self) -> None:
        self.cluster = SandboxCluster(self._cluster_options)
        self.api = self.cluster.server
        await self.cluster.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._stop())
        self._end_loop()

    async def _stop(self) -> None:
        await self.cluster.stop()
        # Requests of clients that went away may still wait for an event; asyncio.run would end them too.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
