"""Objects of a tenant in their worst shapes: each fills its JSON with the one thing that costs a reader most.

A shape is a field of a kind that the role `edit` lets somebody write in a namespace, or the account of a
driver of volumes. API servers accept them: the names, labels and keys are valid and differ from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from string import ascii_lowercase
from typing import Any, Final

import msgspec

from scheduler_core.model import names
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    CSI_STORAGE_CAPACITIES,
    NATIVE_POD_GROUPS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    X_POD_GROUPS,
    Resource,
)

Json = dict[str, Any]
TENANT: Final = "hostile"
SIZE: Final = 1_000_000
# What an API server takes of all annotations of an object, keys and values together.
MOST_ANNOTATIONS: Final = 256 * 1024
_CREATED: Final = "2026-01-01T00:00:00Z"
# One such character makes Python keep all others of a text in four bytes each.
_WIDE: Final = "\U0001f600"


@dataclass(frozen=True)
class Shape:
    """`make(number, size)` gives an object of about `size` bytes of JSON, another one for each number."""

    name: str
    resource: Resource
    make: Callable[[int, int], Json]


def words(start: str = "") -> Iterator[str]:
    """Different short words without end."""
    length = 1
    while True:
        yield from (start + "".join(letters) for letters in product(ascii_lowercase, repeat=length))
        length += 1


def filled(size: int, item: Callable[[str], Any]) -> list[Any]:
    """Different items that together have about `size` bytes of JSON."""
    each = len(msgspec.json.encode(item("abcd"))) + 1
    return [item(word) for word in islice(words(), max(1, size // each))]


def _values(number: int, size: int) -> list[str]:
    return [f"v{number}", *filled(size, str)]


def _map(number: int, size: int, value: str = "") -> dict[str, str]:
    each = len(msgspec.json.encode({"abcd": value})) - 1
    return {f"k{number}": value} | dict.fromkeys(islice(words(), max(1, size // each)), value)


def _requirement(number: int, size: int, operator: str = "In") -> Json:
    return {"key": "app", "operator": operator, "values": _values(number, size)}


def _selector(number: int, size: int, operator: str = "In") -> Json:
    return {"matchExpressions": [_requirement(number, size, operator)]}


def pod(number: int, spec: Json | None = None, *, node: str = "", **meta: Any) -> Json:
    """A pod of the built-in profile that asks for nothing."""
    more: Json = {"nodeName": node} if node else {}
    container = {"name": "main", "image": "example.com/app:1"}
    return {
        "metadata": _meta(f"p{number}") | meta,
        "spec": {"schedulerName": names.MUSTER_SCHEDULER, "containers": [container]} | more | (spec or {}),
        "status": {"phase": "Running" if node else "Pending"},
    }


def _meta(name: str) -> Json:
    return {
        "namespace": TENANT,
        "name": name,
        "uid": f"{TENANT}-{name}",
        "resourceVersion": "1",
        "creationTimestamp": _CREATED,
    }


def _object(number: int, spec: Json | None = None, **meta: Any) -> Json:
    return {"metadata": _meta(f"o{number}") | meta, "spec": spec or {}}


def _pool(number: int, size: int) -> Json:
    made = _object(number, None)
    return made | {"storageClassName": "fast", "capacity": "1Gi", "nodeTopology": _selector(number, size)}


def _claim(number: int, spec: Json, **meta: Any) -> Json:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return _object(number, asked | spec, **meta)


def _anti_affinity(number: int, size: int, *, namespaces: bool = False, node: str = "") -> Json:
    term: Json = {"topologyKey": "zone", "labelSelector": _selector(number, 10 if namespaces else size)}
    if namespaces:
        term["namespaces"] = _values(number, size)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(number, {"affinity": {"podAntiAffinity": required}}, node=node)


def _node_affinity(number: int, size: int, node: str = "") -> Json:
    term = {"matchExpressions": [_requirement(number, size, "NotIn")]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(number, {"affinity": {"nodeAffinity": required}}, node=node)


def _spread(number: int, size: int) -> Json:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _selector(number, 10),
        "matchLabelKeys": _values(number, size),
    }
    return pod(number, {"topologySpreadConstraints": [constraint]})


def _containers(number: int, size: int) -> Json:
    found = filled(size, lambda word: {"name": word, "image": f"{word}{number}"})
    return pod(number, {"containers": found})


def _resources(number: int, size: int, node: str = "") -> Json:
    # Extended resources have a limit that equals the request.
    amounts = {f"e.io/{name}": "1" for name in islice(words(f"r{number}"), size // 38)}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return pod(number, {"containers": [container]}, node=node)


def _ports(number: int, size: int) -> Json:
    ports = [{"containerPort": port, "hostPort": port} for port in range(1, min(65_536, 2 + size // 38))]
    return pod(number, {"containers": [{"name": f"c{number}", "image": "i", "ports": ports}]})


def _monitors(number: int, size: int, image: str = "i") -> Json:
    rbd = {"monitors": filled(size, str), "image": f"{image}{number}", "pool": "rbd"}
    return pod(number, {"volumes": [{"name": "v", "rbd": rbd}]})


def _monitors_of_an_image(number: int, size: int) -> Json:
    """Each monitor is an identity of the image, whose name is as long as all monitors together."""
    return _monitors(number, size // 2, "i" * (size // 2))


def _claims(number: int, size: int) -> Json:
    volumes = filled(
        size, lambda word: {"name": word, "persistentVolumeClaim": {"claimName": f"{word}-{number}"}}
    )
    return pod(number, {"volumes": volumes}, node="node-0")


def _wide_annotation(key: str, number: int, size: int, text: str = "") -> Json:
    room = min(size, MOST_ANNOTATIONS) - len(key) - 16
    return {"annotations": {key: text + f"{number}{_WIDE}" + "x" * (room - len(text))}}


def _config_map(number: int, data: dict[str, str], label: str = "") -> Json:
    meta = _meta(f"cm{number}") | ({"labels": {label: ""}} if label else {})
    return {"metadata": meta, "data": data}


def _group_data(number: int, **more: str) -> Json:
    data = {"name": f"g{number}", "size": "2", "constraints": "{}"} | more
    return _config_map(number, data, names.SAKKARA_GROUP_LABEL)


def _topology(number: int, size: int) -> Json:
    nodes = ",".join(f'"{word}":{{}}' for word in islice(words(f"n{number}"), min(19_000, size // 12)))
    data = {"name": "t", "level-names": '["rack","node"]', "tree": f'{{"r":{{{nodes}}}}}'}
    return _config_map(number, data, names.SAKKARA_TOPOLOGY_LABEL)


def _wide_text(number: int, size: int) -> str:
    return f"{number}{_WIDE}" + "x" * size


def _member(field: str) -> Callable[[int, int], Json]:
    """Group ConfigMaps whose field `data.FIELD` is long."""
    return lambda number, size: _group_data(number, **{field: _wide_text(number, size)})


def _pictured(number: int, size: int) -> Json:
    return {"name": "main", "image": _wide_text(number, size)}


def _fat(number: int, size: int) -> Json:
    return {"name": "main", "image": "i", "env": [{"name": "FAT", "value": f"{number}" + "x" * size}]}


def _toleration(number: int) -> Callable[[str], Json]:
    return lambda word: {"key": f"{word}{number}", "operator": "Exists"}


def _gate(number: int) -> Callable[[str], Json]:
    return lambda word: {"name": f"{word}{number}"}


def _long_owner(number: int, size: int) -> Json:
    owner = {
        "apiVersion": "v1",
        "kind": "A",
        "name": _wide_text(number, size),
        "uid": "u",
        "controller": True,
    }
    return pod(number, ownerReferences=[owner])


def _owner(word: str) -> Json:
    return {"apiVersion": "v1", "kind": "A", "name": word, "uid": word}


def _constraints(number: int, size: int) -> Json:
    return _wide_annotation(names.TOPOLOGY_CONSTRAINTS_ANNOTATION, number, size)


def _results(number: int, size: int) -> Json:
    return _wide_annotation(names.TOPOLOGY_RESULTS_ANNOTATION, number, size)


def _native(size: int) -> Json:
    topology = filled(size, lambda word: {"key": word})
    return {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": topology},
    }


SHAPES: Final = (
    Shape("pod: env, which nobody reads", PODS, lambda n, s: pod(n, {"containers": [_fat(n, s)]})),
    Shape("pod: values of an anti-affinity term", PODS, _anti_affinity),
    Shape(
        "pod: values of an anti-affinity term, with a node",
        PODS,
        lambda n, s: _anti_affinity(n, s, node="node-0"),
    ),
    Shape("pod: namespaces of a term", PODS, lambda n, s: _anti_affinity(n, s, namespaces=True)),
    Shape("pod: matchLabelKeys", PODS, _spread),
    Shape("pod: values of node affinity", PODS, _node_affinity),
    Shape("pod: values of node affinity, with a node", PODS, lambda n, s: _node_affinity(n, s, "node-0")),
    Shape("pod: labels", PODS, lambda n, s: pod(n, labels=_map(n, s))),
    Shape("pod: labels, with a node", PODS, lambda n, s: pod(n, node="node-0", labels=_map(n, s))),
    Shape("pod: annotations", PODS, lambda n, s: pod(n, annotations=_map(n, min(s, MOST_ANNOTATIONS)))),
    Shape("pod: an annotation", PODS, lambda n, s: pod(n, **_wide_annotation("note", n, s))),
    Shape("pod: tolerations", PODS, lambda n, s: pod(n, {"tolerations": filled(s, _toleration(n))})),
    Shape("pod: gates", PODS, lambda n, s: pod(n, {"schedulingGates": filled(s, _gate(n))})),
    Shape("pod: host ports", PODS, _ports),
    Shape("pod: containers", PODS, _containers),
    Shape("pod: monitors of an RBD volume", PODS, _monitors),
    Shape("pod: monitors times the name of their image", PODS, _monitors_of_an_image),
    Shape("pod: volumes with claims, with a node", PODS, _claims),
    Shape("pod: resources", PODS, _resources),
    Shape("pod: resources, with a node", PODS, lambda n, s: _resources(n, s, "node-0")),
    Shape("pod: the name of its owner", PODS, _long_owner),
    Shape("pod: the name of an image", PODS, lambda n, s: pod(n, {"containers": [_pictured(n, s)]})),
    Shape("pod: the name of its scheduler", PODS, lambda n, s: pod(n, {"schedulerName": _wide_text(n, s)})),
    Shape("pod: owners", PODS, lambda n, s: pod(n, ownerReferences=filled(s, _owner))),
    Shape(
        "budget: values",
        POD_DISRUPTION_BUDGETS,
        lambda n, s: _object(n, {"selector": _selector(n, s, "NotIn")}),
    ),
    Shape(
        "budget: labels",
        POD_DISRUPTION_BUDGETS,
        lambda n, s: _object(n, {"selector": {"matchLabels": _map(n, s)}}),
    ),
    Shape("claim: values", PERSISTENT_VOLUME_CLAIMS, lambda n, s: _claim(n, {"selector": _selector(n, s)})),
    Shape(
        "claim: an annotation",
        PERSISTENT_VOLUME_CLAIMS,
        lambda n, s: _claim(n, {}, **_wide_annotation(names.SELECTED_NODE_ANNOTATION, n, s)),
    ),
    Shape("storage pool: values", CSI_STORAGE_CAPACITIES, _pool),
    Shape("ConfigMap: data", CONFIG_MAPS, lambda n, s: _config_map(n, _map(n, s))),
    Shape("group ConfigMap: unknown keys", CONFIG_MAPS, lambda n, s: _group_data(n, **_map(n, s))),
    Shape("group ConfigMap: name", CONFIG_MAPS, _member("name")),
    Shape("group ConfigMap: constraints", CONFIG_MAPS, _member("constraints")),
    Shape("group ConfigMap: placement", CONFIG_MAPS, _member("placement")),
    Shape("topology ConfigMap", CONFIG_MAPS, _topology),
    Shape(
        "PodGroup: annotations", POD_GROUPS, lambda n, s: _object(n, {"minMembers": 2}, **_constraints(n, s))
    ),
    Shape("PodGroup: results", POD_GROUPS, lambda n, s: _object(n, {"minMembers": 2}, **_results(n, s))),
    Shape(
        "PodGroup: totalResources",
        POD_GROUPS,
        lambda n, s: _object(n, {"minMembers": 2, "totalResources": {f"e.io/{k}": "1" for k in _map(n, s)}}),
    ),
    Shape(
        "x-k8s PodGroup: annotations",
        X_POD_GROUPS,
        lambda n, s: _object(n, {"minMember": 2}, **_constraints(n, s)),
    ),
    Shape("native PodGroup: topology", NATIVE_POD_GROUPS, lambda n, s: _object(n, _native(s))),
)
