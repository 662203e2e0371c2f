"""Random pods: their requests, limits, scored requests, QoS class and what a ResourceQuota charges."""

from __future__ import annotations

import random
from typing import Any, Final

from sandbox.admission.quota_evaluators import usage_of
from sandbox.kinds.pods import qos_class
from scheduler_core.decoding import convert
from scheduler_core.model.pods.requests import (
    PodResourcesWire,
    ResizeRule,
    ResizeStatusWire,
    effective_requests,
    nonzero_requests,
)
from scheduler_core.model.quantity import format_resource, parse_resource
from tests.beside.minors import resize_rule
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw

_AMOUNTS: Final = {
    "cpu": ("0", "1m", "100m", "0.5", "1", "1500m", "2", "3e0", "1k"),
    "memory": ("0", "64Mi", "128M", "1Gi", "1.5Gi", "2e9", "1000000k", "3Ti"),
    "ephemeral-storage": ("1Gi", "5G"),
    "hugepages-2Mi": ("2Mi", "64Mi"),
    "example.com/gpu": ("1", "2", "8"),
}
# Of these, what is requested is the limit.
_EXACT: Final = ("hugepages-2Mi", "example.com/gpu")
_COMPUTE: Final = ("cpu", "memory")


def question(dice: random.Random) -> Raw:
    """A valid pod as a user may write it; a third of them are being resized."""
    spec: Raw = {"containers": [_container(dice, f"c{i}") for i in range(dice.choice((1, 1, 2, 3)))]}
    if dice.random() < 0.4:
        spec["initContainers"] = [_container(dice, f"i{i}", init=True) for i in range(dice.choice((1, 2, 3)))]
    if dice.random() < 0.3:
        names = _COMPUTE[: dice.randint(1, 2)]
        spec["overhead"] = {name: dice.choice(_AMOUNTS[name][1:4]) for name in names}
    if dice.random() < 0.35 and (level := _level(dice, spec)):
        spec["resources"] = level
    pod: Raw = {"metadata": {"name": "p", "namespace": "t"}, "spec": spec, "status": {}}
    if dice.random() < 0.1:
        pod["status"]["phase"] = dice.choice(("Succeeded", "Failed", "Running"))
    if dice.random() < 0.3:
        _resize(dice, pod)
    return pod


def _container(dice: random.Random, name: str, *, init: bool = False) -> Raw:
    found: Raw = {"name": name, "image": "i", "resources": _resources(dice)}
    if init and dice.random() < 0.5:
        found["restartPolicy"] = "Always"
    return found


def _resources(dice: random.Random) -> Raw:
    """Requests and limits of which no request is above its limit."""
    requests: Raw = {}
    limits: Raw = {}
    for name, amounts in _AMOUNTS.items():
        if dice.random() > (0.7 if name in _COMPUTE else 0.12):
            continue
        if name in _EXACT:
            limits[name] = dice.choice(amounts)
            if dice.random() < 0.5:
                requests[name] = limits[name]
            continue
        ordered = sorted(dice.sample(amounts, 2), key=lambda text: parse_resource(name, text))
        which = dice.choice(("request", "limit", "both", "both"))
        if which != "limit":
            requests[name] = ordered[0]
        if which != "request":
            limits[name] = ordered[1]
    return {part: found for part, found in (("requests", requests), ("limits", limits)) if found}


def _level(dice: random.Random, spec: Raw) -> Raw:
    """Requests and limits of the pod as a whole: no less than its containers ask for."""
    asked = effective_requests(convert({**spec, "overhead": {}}, PodResourcesWire))
    requests: Raw = {}
    limits: Raw = {}
    for name in _COMPUTE:
        least = format_resource(name, asked.get(name, 0) + dice.choice((0, 0, 1000)))
        most = format_resource(name, asked.get(name, 0) + 1000 * dice.choice((1, 5)))
        if dice.random() < 0.5:
            requests[name] = least
        if dice.random() < 0.5:
            limits[name] = most
    return {part: found for part, found in (("requests", requests), ("limits", limits)) if found}


def _resize(dice: random.Random, pod: Raw) -> None:
    """The kubelet says what it has allocated and actuated; sometimes that it cannot give more."""
    for part, where in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        pod["status"][where] = [_reported(dice, container) for container in pod["spec"].get(part, ())]
    if dice.random() < 0.4:
        reason = dice.choice(("Infeasible", "Deferred"))
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        pod["status"]["conditions"] = [condition]


def _reported(dice: random.Random, container: Raw) -> Raw:
    """What the kubelet says of a container: other amounts of what it asks for."""
    asked = container["resources"]
    status: Raw = {"name": container["name"]}
    requests = {**asked.get("limits", {}), **asked.get("requests", {})}
    if requests:
        status["allocatedResources"] = _others(dice, requests)
        status["resources"] = {"requests": _others(dice, requests)}
    if asked.get("limits"):
        status["resources"]["limits"] = _others(dice, asked["limits"])
    return status


def _others(dice: random.Random, amounts: Raw) -> Raw:
    return {
        name: dice.choice(_AMOUNTS[name]) if name in _COMPUTE else amount for name, amount in amounts.items()
    }


def compare(pod: Raw, theirs: dict[str, Any], minor: str) -> list[Difference]:
    """What differs for a pod as it was written, and for what an API server makes of it."""
    if "error" in theirs:
        return [Difference("a pod is refused", pod, theirs["error"], "taken")]
    # A pod that a kubelet speaks of was stored before.
    rule = resize_rule(minor)
    new = [] if pod["status"] else _compared("as written", pod, pod, theirs, rule)
    return [*new, *_compared("as stored", pod, theirs["stored"], theirs, rule)]


def _compared(form: str, asked: Raw, pod: Raw, theirs: dict[str, Any], rule: ResizeRule) -> list[Difference]:
    spec = convert(pod["spec"], PodResourcesWire)
    status = convert(pod.get("status") or {}, ResizeStatusWire)
    requests = effective_requests(spec, status, rule=rule)
    ours: dict[str, Any] = {
        "requests": requests,
        "scored": list(nonzero_requests(spec, status, requests, rule)),
    }
    if form == "as stored":
        # Only a server asks for these.
        ours["qos"] = qos_class(pod["spec"])
        ours["quota"] = usage_of("pods", pod)
    return [
        Difference(f"{name} of a pod {form}", asked, str(_sorted(theirs[name])), str(_sorted(value)))
        for name, value in ours.items()
        if _sorted(value) != _sorted(theirs[name])
    ]


def _sorted(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value
