"""Nodes of the demo's clusters."""

from __future__ import annotations

from typing import Final

from sandbox.nodes.initial_nodes import NodeShape

NODES: Final = {
    "gpu-0": NodeShape(cpu="64", memory="256Gi", gpus="10"),
    "cpu-0": NodeShape(cpu="2", memory="8Gi"),
    "cpu-1": NodeShape(cpu="2", memory="8Gi"),
}
REAL_NODES: Final = {"dock-0": NodeShape(cpu="600m")}
"""Nodes of the cluster with real controllers."""
