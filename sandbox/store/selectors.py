"""Label and field selectors of list and watch requests, parsed into predicates on objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sandbox import errors
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, at

Predicate = Callable[[Obj], bool]
LabelRule = Callable[[Mapping[str, str]], bool]

_REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<absent_key>[\w./-]+)"
    r"|(?P<key>[\w./-]+)\s*(?:(?P<op>==|=|!=|<|>)\s*(?P<value>[\w.-]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


def label_rules(text: str) -> list[LabelRule]:
    """The requirements of a label selector; all of them must hold. Raises BadRequest."""
    rules: list[LabelRule] = []
    position = 0
    while position < len(text.rstrip()):
        match = _REQUIREMENT.match(text, position)
        if not match or match.end() == position:
            raise errors.bad_request(
                f'unable to parse requirement: found "{text[position:]}", expected: identifier'
            )
        rules.append(_label_rule(match))
        position = match.end()
    return rules


def _label_rule(match: re.Match[str]) -> LabelRule:
    if match["absent"]:
        absent = match["absent_key"]
        return lambda labels: absent not in labels
    key = match["key"]
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        if match["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    op, value = match["op"], match["value"]
    if op is None:
        return lambda labels: key in labels
    if op in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if op == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: _ordered(labels.get(key), op, value)


def _ordered(found: str | None, op: str, value: str) -> bool:
    try:
        left, right = int(found or ""), int(value)
    except ValueError:
        return False
    return left < right if op == "<" else left > right


_COMMON = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase", "name"),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "jobs.batch": ("status.successful",),
    "replicasets.apps": ("status.replicas",),
    "replicationcontrollers": ("status.replicas",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}
_EVENTS_V1 = {"involvedObject": "regarding", "reportingComponent": "reportingController"}
_BOOLEANS = frozenset({"spec.unschedulable", "spec.hostNetwork"})
_SPLIT = re.compile(r"(?<!\\),")


def field_rules(kind: ApiKind, text: str) -> list[Predicate]:
    """The requirements of a field selector. Raises BadRequest for a field that the kind does not support."""
    rules = []
    for part in _SPLIT.split(text):
        if not part.strip():
            continue
        match = re.fullmatch(r"\s*([\w.\[\]'/-]+?)\s*(!=|==|=)\s*(.*?)\s*", part)
        if not match:
            raise errors.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        field, op, value = match.groups()
        rules.append(_field_rule(kind, field, op != "!=", re.sub(r"\\([\\,=])", r"\1", value)))
    return rules


def _field_rule(kind: ApiKind, field: str, equal: bool, value: str) -> Predicate:
    supported = [*_COMMON, *_FIELDS.get(kind.storage, ())]
    if kind.custom:
        supported += [path.lstrip(".") for path in kind.custom.selectable_fields]
    if kind.storage == "events" and kind.group:
        first, _, rest = field.partition(".")
        inverse = {new: old for old, new in _EVENTS_V1.items()}
        field = ".".join(filter(None, (inverse.get(first, first), rest)))
    if field not in supported:
        if kind.custom or kind.storage not in _FIELDS:
            raise errors.bad_request(
                f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
        raise errors.bad_request(f"field label not supported: {field}")
    path = tuple({"name": "metadata.name", "source": "source.component"}.get(field, field).split("."))
    if kind.storage == "events" and kind.group:
        path = (_EVENTS_V1.get(path[0], path[0]), *path[1:])
    unset = "false" if field in _BOOLEANS else ""
    return lambda obj: (_text(at(obj, *path), unset) == value) is equal


def _text(value: Any, unset: str) -> str:
    if value is None:
        return unset
    return str(value).lower() if isinstance(value, bool) else str(value)


def predicate(kind: ApiKind, labels: str, fields: str) -> Predicate | None:
    """One predicate for both selectors; None if they match all objects."""
    by_label = label_rules(labels)
    by_field = field_rules(kind, fields)
    if not by_label and not by_field:
        return None

    def matches(obj: Obj) -> bool:
        found = obj["metadata"].get("labels") or {}
        return all(rule(found) for rule in by_label) and all(rule(obj) for rule in by_field)

    return matches


def only_name(fields: str) -> str | None:
    """The name in a field selector that is exactly `metadata.name=x`, for which a list is a lookup."""
    match = re.fullmatch(r"metadata\.name==?([a-z0-9.-]+)", fields)
    return match[1] if match else None
