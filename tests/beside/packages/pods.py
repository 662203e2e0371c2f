"""Random pods: their requests, limits, scored requests, QoS class and what a ResourceQuota charges."""

from __future__ import annotations

import random
from typing import Any, Final

from sandbox.admission.quota_evaluators import usage_of
from sandbox.kinds.pods import qos_class
from scheduler_core.decoding import convert
from scheduler_core.model.pods.requests import (
    PodResourcesWire,
    ResizeStatusWire,
    effective_limits,
    effective_requests,
    nonzero_requests,
)
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw

_AMOUNTS: Final = {
    "cpu": ("0", "1m", "100m", "0.5", "1", "1500m", "2", "3e0", "1k"),
    "memory": ("0", "64Mi", "128M", "1Gi", "1.5Gi", "2e9", "1000000k", "3Ti"),
    "ephemeral-storage": ("1Gi", "5G"),
    "hugepages-2Mi": ("2Mi", "64Mi"),
    "example.com/gpu": ("1", "2", "8"),
}
_LEVEL: Final = ("cpu", "memory", "hugepages-2Mi")


def question(dice: random.Random) -> Raw:
    """A pod as a user may write it; a third of them are being resized."""
    spec: Raw = {"containers": [_container(dice, f"c{i}") for i in range(dice.choice((1, 1, 2, 3)))]}
    if dice.random() < 0.4:
        spec["initContainers"] = [_container(dice, f"i{i}", init=True) for i in range(dice.choice((1, 2, 3)))]
    if dice.random() < 0.3:
        spec["overhead"] = {
            name: dice.choice(_AMOUNTS[name][1:4]) for name in ("cpu", "memory")[: dice.randint(1, 2)]
        }
    if dice.random() < 0.35:
        spec["resources"] = _resources(dice, _LEVEL)
    pod: Raw = {"metadata": {"name": "p", "namespace": "t"}, "spec": spec, "status": {}}
    if dice.random() < 0.1:
        pod["status"]["phase"] = dice.choice(("Succeeded", "Failed", "Running"))
    if dice.random() < 0.3:
        _resize(dice, pod)
    return pod


def _container(dice: random.Random, name: str, *, init: bool = False) -> Raw:
    found: Raw = {"name": name, "image": "i", "resources": _resources(dice, tuple(_AMOUNTS))}
    if init and dice.random() < 0.5:
        found["restartPolicy"] = "Always"
    return found


def _resources(dice: random.Random, names: tuple[str, ...]) -> Raw:
    found: Raw = {}
    for part in ("requests", "limits"):
        if dice.random() < 0.6:
            chosen = [name for name in names if dice.random() < (0.7 if name in ("cpu", "memory") else 0.15)]
            found[part] = {name: dice.choice(_AMOUNTS[name]) for name in chosen}
    return found


def _resize(dice: random.Random, pod: Raw) -> None:
    """The kubelet says what it has allocated and actuated; sometimes that it cannot give more."""
    for part, where in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        statuses = []
        for container in pod["spec"].get(part, ()):
            status: Raw = {"name": container["name"]}
            if dice.random() < 0.7:
                status["allocatedResources"] = _resources(dice, ("cpu", "memory")).get("requests", {})
            if dice.random() < 0.7:
                status["resources"] = _resources(dice, ("cpu", "memory"))
            statuses.append(status)
        if statuses and dice.random() < 0.9:
            pod["status"][where] = statuses
    if dice.random() < 0.4:
        reason = dice.choice(("Infeasible", "Deferred"))
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        pod["status"]["conditions"] = [condition]


def compare(pod: Raw, theirs: dict[str, Any]) -> list[Difference]:
    """What differs for a pod as it was written, and for what an API server makes of it."""
    if "error" in theirs:
        return [Difference("a pod is refused", pod, theirs["error"], "taken")]
    stored = theirs["stored"]
    return [*_compared("as written", pod, pod, theirs), *_compared("as stored", pod, stored, theirs)]


def _compared(form: str, asked: Raw, pod: Raw, theirs: dict[str, Any]) -> list[Difference]:
    spec = convert(pod["spec"], PodResourcesWire)
    status = convert(pod.get("status") or {}, ResizeStatusWire)
    requests = effective_requests(spec, status)
    ours: dict[str, Any] = {
        "requests": requests,
        "limits": effective_limits(spec),
        "scored": list(nonzero_requests(spec, status, requests)),
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
