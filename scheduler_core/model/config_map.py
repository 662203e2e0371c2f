"""ConfigMaps that Muster reads; of all others only the name is kept.

A ConfigMap with faulty text is not refused: `fault` is set, so that the caller can keep what it read before
and report the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model import names
from scheduler_core.model.collect_policy import parse_collect_config
from scheduler_core.model.groups.gang import faulty_group, gang_of_group
from scheduler_core.model.groups.topology import (
    GROUP_FIELDS,
    parse_group,
    parse_topology,
    takes_much,
)
from scheduler_core.model.meta import (
    MAX_NAME,
    ApiObject,
    NamespacedObject,
    ObjectMeta,
    Raw,
    decode,
    identity_of,
)
from scheduler_core.model.quotas.quota_history import BINARY_KEY, TEXT_KEY, Payload, day_of_name

TOPOLOGY: Final = "topology"
GROUP: Final = "group"
COLLECT_POLICY: Final = "collect-policy"
HISTORY: Final = "history"


class ConfigMap(NamespacedObject, frozen=True, eq=False):
    """A ConfigMap. `role` says what it is for Muster, empty for all others.

    `content` is what its data says: a TopologySpec, a Gang for a group, a CollectConfig, the Payload of a
    day of history; None where `problem` says what is wrong (a faulty group is a Gang all the same, with the
    problem in it). `data` is kept of groups only, without keys that nobody reads.
    """

    uid: str = ""
    resource_version: str = ""
    created: float = 0.0
    role: str = ""
    content: Any = None
    fault: ModelError | None = None
    data: Mapping[str, str] = {}


class _DataWire(ApiObject, frozen=True, rename="camel"):
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class ConfigMapReader(msgspec.Struct, frozen=True):
    """Recognises and reads ConfigMaps of one role; `read` raises ModelError with a path."""

    role: str
    wants: Callable[[ObjectMeta], bool]
    read: Callable[[ObjectMeta, Mapping[str, str]], Any]


def unlabelled_group(namespace: str, name: str) -> str:
    """The fault of a ConfigMap that pods name as their group, and the remedy."""
    label = names.SAKKARA_GROUP_LABEL
    return (
        f"ConfigMap {namespace}/{name} lacks the label {label}, without which it is no group; "
        f"`kubectl label configmap -n {namespace} {name} {label}=` adds it"
    )


def _kept(data: Mapping[str, str]) -> dict[str, str]:
    """The fields of a group's data that somebody reads."""
    return {
        field: text
        for field in GROUP_FIELDS
        if (text := data.get(field)) is not None and not takes_much(text)
    }


def _labelled(label: str) -> Callable[[ObjectMeta], bool]:
    return lambda meta: label in (meta.labels or {})


def _is_slo_config(meta: ObjectMeta) -> bool:
    return (meta.namespace, meta.name) == (names.SLO_CONFIG_NAMESPACE, names.SLO_CONFIG_NAME)


READERS: Final = (
    ConfigMapReader(
        TOPOLOGY, _labelled(names.SAKKARA_TOPOLOGY_LABEL), lambda meta, data: parse_topology(data)
    ),
    ConfigMapReader(
        GROUP, _labelled(names.SAKKARA_GROUP_LABEL), lambda meta, data: gang_of_group(meta, parse_group(data))
    ),
    ConfigMapReader(COLLECT_POLICY, _is_slo_config, lambda meta, data: parse_collect_config(data)),
)


def history_payload(raw: Raw) -> Payload:
    """What the ConfigMap of a day of history holds, unread. Raises ModelError."""
    wire = decode(raw, _DataWire, "ConfigMap")
    return Payload((wire.data or {}).get(TEXT_KEY, ""), (wire.binary_data or {}).get(BINARY_KEY, ""))


def data_of(raw: Raw) -> Mapping[str, str]:
    """The texts of a ConfigMap by key. Raises ModelError."""
    return decode(raw, _DataWire, "ConfigMap").data or {}


def parse_config_map(
    raw: Raw, history_namespace: str = "", topologies: Container[str] | None = None
) -> ConfigMap:
    """Read a ConfigMap. Raises ModelError only where the object itself is malformed.

    `history_namespace` is where the history of quotas is kept. There the name makes it, whatever the labels.
    `topologies` are the namespaces whose topologies are read (None: all); of others there is no `content`.
    """
    meta = identity_of(raw)
    if meta.namespace == history_namespace and day_of_name(meta.name) is not None:
        return ConfigMap(
            meta.namespace,
            meta.name,
            meta.uid,
            meta.resource_version,
            meta.created,
            HISTORY,
            history_payload(raw),
        )
    reader = next((reader for reader in READERS if reader.wants(meta)), None)
    role = reader.role if reader is not None else ""
    found = ConfigMap(
        meta.namespace or "default", meta.name, meta.uid, meta.resource_version, meta.created, role
    )
    if reader is None or (role == TOPOLOGY and topologies is not None and found.namespace not in topologies):
        return found
    data = data_of(raw)
    kept = _kept(data) if role == GROUP else {}
    try:
        content = reader.read(meta, data)
    except ModelError as error:
        fault = error.shortened().within("ConfigMap", meta.namespace, meta.name, meta.uid)
        name = data.get("name", "").strip()
        name = name if 0 < len(name) <= MAX_NAME else meta.name
        content = faulty_group(meta, name, str(fault)) if role == GROUP else None
        return msgspec.structs.replace(found, content=content, fault=fault, data=kept)
    return msgspec.structs.replace(found, content=content, data=kept)
