"""ConfigMaps as the console keeps them: what Muster reads of groups and topologies, and nothing else.

A tenant labels what it likes, and a ConfigMap holds a megabyte.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from scheduler_core.model.config_map import GROUP, ConfigMap, data_of, parse_config_map
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.meta import MAX_NAME, identity_of
from scheduler_core.model.names import (
    HOLD_QUOTA_ANNOTATION,
    SAKKARA_GROUP_LABEL,
    SAKKARA_TOPOLOGY_LABEL,
)
from scheduler_core.model.timestamps import format_time
from scheduler_core.simulate.objects import Object


class KeptConfigMap(msgspec.Struct, frozen=True):
    """What is kept of a ConfigMap's JSON. `data` is that of its value where it is a group."""

    value: ConfigMap
    labels: tuple[str, ...]
    hold: str | None
    data: Mapping[str, str]

    def read(self) -> Object:
        """The object as a dict."""
        value = self.value
        meta = {
            "name": value.name,
            "namespace": value.namespace,
            "uid": value.uid,
            "resourceVersion": value.resource_version,
            "creationTimestamp": format_time(value.created),
            "labels": dict.fromkeys(self.labels, ""),
        }
        if self.hold is not None:
            meta["annotations"] = {HOLD_QUOTA_ANNOTATION: self.hold}
        head = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": meta}
        return head | {"data": dict(self.data)}


def read_config_map(raw: msgspec.Raw, topologies: Container[str] | None) -> tuple[ConfigMap, KeptConfigMap]:
    """The value of a labelled ConfigMap and what is kept of its JSON. Raises ModelError.

    `topologies` are the namespaces whose topologies are read, None for all. Of the topologies of others
    nothing is kept but the name.
    """
    value, meta = parse_config_map(raw, topologies=topologies), identity_of(raw)
    unread = value.role != GROUP and value.content is None and value.fault is None
    if unread:
        value = msgspec.structs.replace(value, role="")
    known = meta.labels or {}
    labels = tuple(label for label in (SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL) if label in known)
    hold = (meta.annotations or {}).get(HOLD_QUOTA_ANNOTATION)
    hold = hold if hold is not None and len(hold) <= MAX_NAME else None
    data = value.data if unread or value.role == GROUP else data_of(raw)
    return value, KeptConfigMap(value, () if unread else labels, hold, data)
