"""Load-aware settings in a node's annotations: thresholds, and the capacity that use is compared with."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.config.args.muster import AGGREGATION_TYPES
from scheduler_core.errors import ModelError
from scheduler_core.load.estimate import Report, percentages, read_json
from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.load.spec import LoadSpec, Percentile, Thresholds, aligned
from scheduler_core.model import names
from scheduler_core.model.duration import parse_duration
from scheduler_core.model.node import Node
from scheduler_core.model.node_metric import MAX_AMOUNT
from scheduler_core.model.quantity import parse_resource


def capacity_of(node: Node, spec: LoadSpec, report: Report) -> tuple[int, ...]:
    """Allocatable per resource, overridden by the raw-allocatable annotation."""
    values = dict(node.allocatable)
    text = node.annotations.get(names.RAW_ALLOCATABLE_ANNOTATION)
    if text is not None:
        raw = _quantities(text)
        if isinstance(raw, str):
            report(_of_node(node, names.RAW_ALLOCATABLE_ANNOTATION, text, raw))
        else:
            values |= raw
    return tuple(min(values.get(resource, 0), MAX_AMOUNT) for resource in spec.resources)


def _quantities(text: str) -> dict[str, int] | str:
    parsed = read_json(text)
    if not isinstance(parsed, dict):
        return "must be a JSON map of resource to quantity"
    out: dict[str, int] = {}
    for resource, value in parsed.items():
        try:
            out[resource] = parse_resource(resource, value, rounding="down")
        except ModelError as error:
            return f"{resource}: {error.problem}"
        if out[resource] < 0:
            return f"{resource} must be 0 or more"
    return out


def thresholds_of(node: Node, spec: LoadSpec, report: Report) -> Thresholds:
    """The configured thresholds, each part replaced whole by that of the node's annotation."""
    text = node.annotations.get(names.USAGE_THRESHOLDS_ANNOTATION)
    if text is None:
        return spec.thresholds
    found = read_thresholds(text, spec)
    if isinstance(found, str):
        report(_of_node(node, names.USAGE_THRESHOLDS_ANNOTATION, text, found))
        return spec.thresholds
    return found


def read_thresholds(text: str, spec: LoadSpec) -> Thresholds | str:
    """The annotation laid over the configured thresholds, or the rule that it breaks."""
    parsed = read_json(text)
    if not isinstance(parsed, dict):
        return "must be a JSON map"
    parts: dict[str, Any] = {}
    for field, key in (("plain", "usageThresholds"), ("prod", "prodUsageThresholds")):
        values = percentages(parsed.get(key) or {})
        if isinstance(values, str):
            return f"{key}: {values}"
        if values:
            parts[field] = aligned(values, spec.resources)
    aggregated = _aggregated(parsed.get("aggregatedUsage") or {}, spec)
    if isinstance(aggregated, str):
        return f"aggregatedUsage: {aggregated}"
    return msgspec.structs.replace(spec.thresholds, **parts, **aggregated)


def _aggregated(part: Any, spec: LoadSpec) -> dict[str, Any] | str:
    """The aggregated part; it needs thresholds and a type to count."""
    if not isinstance(part, dict):
        return "must be a map"
    values = percentages(part.get("usageThresholds") or {})
    if isinstance(values, str):
        return f"usageThresholds: {values}"
    kind, text = part.get("usageAggregationType") or "", part.get("usageAggregatedDuration") or "0s"
    seconds = parse_duration(text) if isinstance(text, str) else None
    if seconds is None or seconds < 0:
        return f"usageAggregatedDuration={text!r} must be a duration such as 5m, 0s or more"
    if kind and kind not in AGGREGATION_TYPES:
        return f"usageAggregationType={kind!r} must be one of {', '.join(AGGREGATION_TYPES)}"
    if not values or not kind:
        return {}
    return {"aggregated": aligned(values, spec.resources), "percentile": Percentile(kind, seconds)}


def _of_node(node: Node, annotation: str, value: str, rule: str) -> AnnotationProblem:
    return AnnotationProblem("Node", "", node.name, annotation, value, rule)
