"""Numbered nodes, and nodes of topology trees."""

from __future__ import annotations

from pathlib import Path

from sandbox.nodes.initial_nodes import NodeShape, level_label, numbered_nodes, read_topology

SEED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-topology, namespace: sakkara, labels: {"sakkara.topology": }}
data:
  name: cluster-tree
  resource-names: '[ "cpu", "memory", "nvidia.com/gpu" ]'
  level-names: '[ "rack", "node" ]'
  tree: |
    {"rack-0": {"node-0": {}, "node-1": {}}, "rack-1": {"node-2": {"cpu": "16", "nvidia.com/gpu": "8"}}}
"""


def test_equal_nodes_spread_over_racks_and_zones() -> None:
    nodes = numbered_nodes(9, NodeShape(gpus="2"))
    labels = nodes[8]["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "node-8"
    assert labels[level_label("rack")] == "rack-2"
    assert labels[level_label("zone")] == labels["topology.kubernetes.io/zone"] == "zone-1"
    assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert [c["status"] for c in nodes[0]["status"]["conditions"] if c["type"] == "Ready"] == ["True"]


def test_the_leaves_of_a_config_map_are_nodes(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text(SEED)
    found = read_topology(path, NodeShape(cpu="4"))
    by_name = {node["metadata"]["name"]: node for node in found.nodes}
    assert list(by_name) == ["node-0", "node-1", "node-2"]
    assert by_name["node-2"]["metadata"]["labels"][level_label("rack")] == "rack-1"
    assert by_name["node-0"]["status"]["capacity"]["cpu"] == "4"
    assert (
        by_name["node-2"]["status"]["capacity"] | {"cpu": "16", "nvidia.com/gpu": "8"}
        == (by_name["node-2"]["status"]["capacity"])
    )
    assert found.config_map is not None
    assert found.config_map["metadata"]["namespace"] == "sakkara"
    assert found.config_map["metadata"]["labels"] == {"sakkara.topology": ""}


def test_a_bare_yaml_tree_may_leave_leaves_empty(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("row-0:\n  rack-0:\n    n0:\n    n1:\n  rack-1:\n    n2:\n")
    found = read_topology(path, NodeShape())
    labels = found.nodes[2]["metadata"]["labels"]
    assert [node["metadata"]["name"] for node in found.nodes] == ["n0", "n1", "n2"]
    assert (labels[level_label("level-2")], labels[level_label("level-1")]) == ("row-0", "rack-1")
    assert found.config_map is None
