"""Estimates of what a pod uses, and of how long an estimate takes precedence over measurements."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from scheduler_core.decoding import is_deep
from scheduler_core.load.priority import BATCH, NONE, PROD, band_of, requested_name
from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.load.spec import Estimation, LoadSpec
from scheduler_core.model import names
from scheduler_core.model.node_metric import MAX_AMOUNT
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.timestamps import epoch

# Estimates for pods without requests: milli-cores and bytes.
DEFAULTS: Final = {names.CPU: 250, names.MEMORY: 200 * 1024 * 1024}
_WITH_DEFAULTS: Final = frozenset({PROD, BATCH, NONE})

Report = Callable[[AnnotationProblem], None]


def scaled(top: int, factor: int) -> int:
    """`top * factor / 100`, rounded half away from zero. Both are at least 0."""
    return (2 * top * factor + 100) // 200


def estimate_resource(pod: Pod, band: str, resource: str, factor: int, *, capped: bool = True) -> int:
    """The estimated use of a resource by a pod of a band: the larger of request and limit, scaled.

    Nothing asked for gives the default of the resource. `capped`: a limit, where there is one, is never
    exceeded.
    """
    name = requested_name(band, resource)
    limit = pod.limits.get(name, 0)
    top = max(pod.requests.get(name, 0), limit)
    if top == 0:
        return DEFAULTS.get(resource, 0) if band in _WITH_DEFAULTS else 0
    amount = scaled(top, factor)
    return min(amount, limit if capped and limit > 0 else MAX_AMOUNT, MAX_AMOUNT)


def estimate_pod(pod: Pod, spec: LoadSpec, report: Report) -> tuple[int, ...]:
    """Amounts in the order of `spec.resources`; 0 for resources that have no factor."""
    band = band_of(pod)
    factors = factors_of(pod, spec, report)
    return tuple(
        0 if factor is None else estimate_resource(pod, band, resource, factor, capped=spec.estimation.capped)
        for resource, factor in zip(spec.resources, factors, strict=True)
    )


def factors_of(pod: Pod, spec: LoadSpec, report: Report) -> tuple[int | None, ...]:
    """Percent per resource; the pod's annotation overrides configured values where that is allowed."""
    estimation = spec.estimation
    text = pod.annotations.get(names.SCALING_FACTORS_ANNOTATION)
    if text is None or not estimation.customizable:
        return estimation.factors
    custom = percentages(read_json(text))
    if isinstance(custom, str):
        report(_of_pod(pod, names.SCALING_FACTORS_ANNOTATION, text, custom))
        return estimation.factors
    return tuple(
        custom.get(resource, factor)
        for resource, factor in zip(spec.resources, estimation.factors, strict=True)
    )


def scheduled_at(pod: Pod, learned: float) -> float:
    """When the pod got its node: the transition of PodScheduled, else when the state learned of it."""
    condition = pod.scheduled_condition
    if condition is None or condition.status != "True":
        return learned
    moment = epoch(condition.last_transition_time)
    return learned if moment is None else moment


def deadline(pod: Pod, estimation: Estimation, scheduled: float, report: Report) -> float:
    """Until when the estimate replaces what is measured; minus infinity for never.

    Once the pod is initialized, the seconds after that alone decide.
    """
    after_scheduled, after_initialized = estimation.after_scheduled, estimation.after_initialized
    if estimation.customizable and pod.annotations:
        after_scheduled = _seconds(pod, names.SECONDS_AFTER_SCHEDULED_ANNOTATION, after_scheduled, report)
        after_initialized = _seconds(
            pod, names.SECONDS_AFTER_INITIALIZED_ANNOTATION, after_initialized, report
        )
    if after_initialized > 0 and pod.initialized_time is not None:
        return pod.initialized_time + after_initialized
    return scheduled + after_scheduled if after_scheduled > 0 else float("-inf")


def _seconds(pod: Pod, annotation: str, configured: int, report: Report) -> int:
    text = pod.annotations.get(annotation)
    if text is None:
        return configured
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        report(_of_pod(pod, annotation, text, "must be a whole number of seconds, 0 or more"))
        return configured
    return int(text)


def percentages(value: Any) -> dict[str, int] | str:
    """A map of resource to whole percent, 0 or more, as it is, or the rule that it breaks."""
    if not isinstance(value, dict):
        return "must be a JSON map of resource to percent"
    for resource, percent in value.items():
        if isinstance(percent, bool) or not isinstance(percent, int) or percent < 0:
            return f"{resource} must be a whole number of percent, 0 or more"
    return value


def read_json(text: str) -> Any:
    """The value of a JSON text, None if it is not JSON, or deep."""
    if is_deep(text.encode(errors="replace")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _of_pod(pod: Pod, annotation: str, value: str, rule: str) -> AnnotationProblem:
    return AnnotationProblem("Pod", pod.namespace, pod.name, annotation, value, rule)
