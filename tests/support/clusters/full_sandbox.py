"""The whole sandbox in this process: API server, admission, controllers and kubelet, with some nodes."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.api.server import ServerOptions
from sandbox.cluster import ClusterOptions, SandboxCluster
from sandbox.nodes.initial_nodes import NodeShape, numbered_nodes
from tests.support.clusters.sandbox_server import SandboxServer


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

    async def _stop(self) -> None:
        await self.cluster.stop()
