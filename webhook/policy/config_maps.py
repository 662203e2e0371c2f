"""Decides changes of ConfigMaps that describe a topology or a group of pods."""

from __future__ import annotations

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import GROUP, ConfigMap, parse_config_map
from scheduler_core.model.groups.topology import parse_group
from scheduler_core.model.names import SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL
from scheduler_core.topology.admission import TopologyRequest
from webhook.policy.topology_constraints import Labels, Topologies, judge_constraints
from webhook.policy.verdict import ALLOW, Verdict, refuse_malformed


def judge_config_map(
    raw: msgspec.Raw, old: msgspec.Raw | None, topologies: Topologies, labels: Labels = frozenset
) -> Verdict:
    """The verdict on a new or changed ConfigMap of a topology or group; changed results are allowed."""
    try:
        found = parse_config_map(raw)
        before = parse_config_map(old) if old is not None and found.role == GROUP else None
    except ModelError as error:
        return refuse_malformed(error)
    if before is not None and _same(found, before):
        return ALLOW
    if found.fault is not None:
        return refuse_malformed(found.fault)
    if found.role != GROUP:
        return ALLOW
    spec = found.content.group
    request = TopologyRequest(spec.constraints, spec.size, "data.constraints")
    return judge_constraints(f"ConfigMap {found.key}", request, topologies, labels)


def _same(new: ConfigMap, old: ConfigMap) -> bool:
    """Whether an update leaves the fields of the group alone that users write."""
    fields = ("name", "size", "priority", "constraints")
    return old.role == GROUP and all(new.data.get(name) == old.data.get(name) for name in fields)


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    data: dict[str, str] | None = None


_decoder = decoder(_ConfigMap)


def warn_of_missing_label(raw: msgspec.Raw, namespace: str) -> tuple[str, ...]:
    """The warning about a ConfigMap with the data, but not the label, of a group or a topology."""
    try:
        found = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError):
        return ()
    data, labels = found.data or {}, found.metadata.labels or {}
    if SAKKARA_GROUP_LABEL in labels or SAKKARA_TOPOLOGY_LABEL in labels:
        return ()
    name = found.metadata.name
    if "tree" in data and "level-names" in data:
        return (_lacking("topology", SAKKARA_TOPOLOGY_LABEL, namespace, name),)
    if "size" not in data or not {"constraints", "priority"} & data.keys():
        return ()
    try:
        parse_group(data)
    except ModelError:
        return ()
    return (_lacking("group of pods", SAKKARA_GROUP_LABEL, namespace, name),)


def _lacking(what: str, label: str, namespace: str, name: str) -> str:
    return (
        f"ConfigMap {namespace}/{name} has the data of a {what} and lacks the label {label} "
        f'(kubectl apply drops a label without a value; write "{label}": ""); '
        f"`kubectl label configmap -n {namespace} {name} {label}=` adds it"
    )
