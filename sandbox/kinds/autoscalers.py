"""Conversion of HorizontalPodAutoscalers between autoscaling/v2, which is stored, and autoscaling/v1.

Version 1 has one metric only. Annotations carry the other fields, so that a client that reads and writes
version 1 loses nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sandbox import errors
from sandbox.objects import Obj
from scheduler_core.decoding import decode

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
_TARGET, _CURRENT = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"


def shown_as_v1(obj: Obj) -> Obj:
    """An `autoscaling/v2` object as `autoscaling/v1` shows it."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    cpu = next((metric for metric in metrics if _utilization(metric, "target") is not None), None)
    if cpu is not None:
        spec[_TARGET] = _utilization(cpu, "target")
    for metric in status.pop("currentMetrics", None) or ():
        current = _utilization(metric, "current")
        if current is not None:
            status[_CURRENT] = current
    carried = {_METRICS: [metric for metric in metrics if metric is not cpu], _BEHAVIOR: behavior}
    texts = {name: msgspec.json.encode(value).decode() for name, value in carried.items() if value}
    annotations = {**(obj["metadata"].get("annotations") or {}), **texts}
    return _put_together(obj, "autoscaling/v1", spec, status, annotations)


def stored_from_v1(obj: Obj) -> Obj:
    """An `autoscaling/v1` object in version 2, as stored. Raises BadRequest for invalid annotations."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations = dict(obj["metadata"].get("annotations") or {})
    try:
        metrics = decode(annotations.pop(_METRICS, "[]"), list[dict[str, Any]])
        behavior = decode(annotations.pop(_BEHAVIOR, "{}"), dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise errors.bad_request(f"metadata.annotations: {error}") from None
    target, current = spec.pop(_TARGET, None), status.pop(_CURRENT, None)
    if target is not None:
        metrics = [_cpu("target", {"type": "Utilization", "averageUtilization": target}), *metrics]
    spec |= {key: value for key, value in (("metrics", metrics), ("behavior", behavior)) if value}
    if current is not None:
        status["currentMetrics"] = [_cpu("current", {"averageUtilization": current})]
    return _put_together(obj, "autoscaling/v2", spec, status, annotations)


def _put_together(obj: Obj, version: str, spec: Obj, status: Obj, annotations: Obj) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    if annotations:
        meta["annotations"] = annotations
    parts = {"spec": spec, "status": status}
    return {
        **{key: value for key, value in obj.items() if key not in parts},
        "apiVersion": version,
        "metadata": meta,
        **{key: part for key, part in parts.items() if part or key in obj},
    }


def _cpu(what: str, value: Obj) -> Obj:
    return {"type": "Resource", "resource": {"name": "cpu", what: value}}


def _utilization(metric: Obj, what: str) -> int | None:
    """Average CPU utilization of a metric in percent of requests; None for other metrics."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get(what) or {}).get("averageUtilization")
    return found
