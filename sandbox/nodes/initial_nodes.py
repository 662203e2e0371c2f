"""Initial nodes of a sandbox: equal numbered nodes, or the leaves of a topology tree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.kinds.builtin_types import GIT_VERSION
from sandbox.objects import Obj, now, rfc3339
from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.model.names import LABEL_HOSTNAME, LABEL_REGION, LABEL_ZONE
from scheduler_core.model.resources import parse_resource_list

_LEVEL_LABELS = {"zone": LABEL_ZONE, "region": LABEL_REGION}
LEVEL_LABEL_PREFIX = "topology.muster.dev/"
_RACKS_PER_ZONE = 2
_NODES_PER_RACK = 4


@dataclass(frozen=True)
class NodeShape:
    """Capacity of a node as quantity strings."""

    cpu: str = "8"
    memory: str = "32Gi"
    gpus: str = "0"
    pods: str = "110"

    def capacity(self) -> dict[str, str]:
        """The resource list, without GPUs if their number is 0. Raises ModelError for an invalid quantity."""
        found = {"cpu": self.cpu, "memory": self.memory, "pods": self.pods, "ephemeral-storage": "100Gi"}
        if self.gpus != "0":
            found["nvidia.com/gpu"] = self.gpus
        parse_resource_list(found, "node capacity")
        return found


@dataclass(frozen=True)
class Topology:
    """Content of a topology file: its nodes, and the ConfigMap if the file holds one."""

    nodes: list[Obj]
    config_map: Obj | None = None

    @property
    def digest(self) -> str:
        """Equal for two topologies with the same nodes: names, labels and capacities."""
        shown = [
            (node["metadata"]["name"], node["metadata"]["labels"], node["status"]["capacity"])
            for node in self.nodes
        ]
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def level_label(level: str) -> str:
    """The node label of a topology level: `topology.muster.dev/rack` for `rack`."""
    return _LEVEL_LABELS.get(level, f"{LEVEL_LABEL_PREFIX}{level}")


def node_address(number: int) -> str:
    """The unique IP address of node `number`, counted from 0."""
    number += 1
    return f"172.{16 + (number >> 16) % 16}.{number >> 8 & 255}.{number & 255}"


def node(name: str, capacity: Mapping[str, str], labels: Mapping[str, str], number: int = 0) -> Obj:
    """A node with the condition Ready; `number` determines its address."""
    moment = rfc3339(now())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the sandbox's kubelet runs the pods of this node",
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {LABEL_HOSTNAME: name, "kubernetes.io/os": "linux", **labels}},
        "spec": {},
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(capacity),
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": node_address(number)},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "kubeletVersion": GIT_VERSION,
                "architecture": "amd64",
                "operatingSystem": "linux",
            },
        },
    }


def numbered_nodes(count: int, shape: NodeShape) -> list[Obj]:
    """Nodes `node-0`, `node-1`, ...: four in a rack, two racks in a zone."""
    capacity = shape.capacity()
    return [
        node(
            f"node-{i}",
            capacity,
            {
                level_label("rack"): f"rack-{i // _NODES_PER_RACK}",
                LABEL_ZONE: f"zone-{i // (_NODES_PER_RACK * _RACKS_PER_ZONE)}",
            },
            i,
        )
        for i in range(count)
    ]


def tree_nodes(tree: Any, levels: Sequence[str], shape: NodeShape) -> list[Obj]:
    """The leaves of a tree `{"rack-0": {"node-0": {}}}`, labelled with their parent units.

    `levels` names the levels from top to bottom; the last level is that of the nodes. A leaf may set its
    capacity: `{"node-0": {"cpu": "16"}}`. Raises ConfigError.
    """
    capacity = shape.capacity()
    found: dict[str, Obj] = {}
    for path, leaf in _leaves(tree, "tree"):
        name = path[-1]
        if name in found:
            raise ConfigError(f"tree.{'.'.join(path)}", f"the node {name!r} occurs twice", kind="Duplicate")
        if levels and len(path) != len(levels):
            problem = f"lies at depth {len(path)}, but level-names has {len(levels)} levels"
            raise ConfigError(f"tree.{'.'.join(path)}", problem, kind="Invalid")
        names = levels[:-1] if levels else [f"level-{depth}" for depth in range(len(path) - 1, 0, -1)]
        labels = {level_label(level): unit for level, unit in zip(names, path[:-1], strict=True)}
        try:
            parse_resource_list(leaf, "capacity")
        except ModelError as error:
            raise ConfigError(f"tree.{'.'.join(path)}", str(error), kind="Invalid") from None
        own = {**capacity, **{key: str(value) for key, value in leaf.items()}}
        found[name] = node(name, own, labels, len(found))
    return list(found.values())


def _leaves(tree: Any, where: str, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Obj]]:
    if not isinstance(tree, dict):
        raise ConfigError(where, f"expected a mapping of units, found {type(tree).__name__}", kind="Invalid")
    for name, below in tree.items():
        here = (*path, str(name))
        below = below or {}
        if isinstance(below, dict) and not any(_is_unit(value) for value in below.values()):
            yield here, below
        else:
            yield from _leaves(below, f"{where}.{name}", here)


def _is_unit(value: Any) -> bool:
    """True if an entry is a unit of the next level; YAML reads `node-0:` as null."""
    return value is None or isinstance(value, dict)


def read_topology(path: Path, shape: NodeShape) -> Topology:
    """Read a file with a topology tree or a topology ConfigMap.

    Raises ConfigError with file and field.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("", error.strerror or str(error), file=str(path)) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise ConfigError("", " ".join(str(error).split()), file=str(path)) from None
    try:
        return _topology(document, shape)
    except ConfigError as error:
        raise ConfigError(error.path, error.problem, kind=error.kind, file=str(path)) from None


def _topology(document: Any, shape: NodeShape) -> Topology:
    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return Topology(_some(tree_nodes(document, (), shape)))
    data = document.get("data")
    if not isinstance(data, dict):
        raise ConfigError("data", "expected the entries tree and level-names", kind="Required")
    tree = _json(data, "tree", None)
    levels = _json(data, "level-names", [])
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        raise ConfigError("data.level-names", "expected a list of names", kind="Invalid")
    return Topology(_some(tree_nodes(tree, levels, shape)), _with_empty_labels(document))


def _with_empty_labels(obj: Obj) -> Obj:
    """Replace null label values by empty strings, as a typed client does (`"sakkara.topology":` in YAML)."""
    meta = obj.get("metadata") or {}
    labels = {key: "" if value is None else value for key, value in (meta.get("labels") or {}).items()}
    return {**obj, "metadata": {**meta, "labels": labels}}


def _some(nodes: list[Obj]) -> list[Obj]:
    if not nodes:
        raise ConfigError("tree", "names no node", kind="Required")
    return nodes


def _json(data: Mapping[str, Any], key: str, default: Any) -> Any:
    text = data.get(key)
    if text is None:
        if default is None:
            raise ConfigError(f"data.{key}", "is missing", kind="Required")
        return default
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"data.{key}", f"is not JSON: {error}", kind="Invalid") from None
