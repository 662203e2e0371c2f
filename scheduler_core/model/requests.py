"""What a pod asks for: the one computation of effective requests and limits.

Source: Kubernetes' pod resource rules (KEP-753 sidecars, KEP-2837 pod-level resources, KEP-1287 in-place
resize, KEP-688 overhead). Containers add up; init containers count with the sidecars started before them;
the larger of both is taken; pod-level requests replace the sum per resource; overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_core.model import names
from scheduler_core.model.meta import decode
from scheduler_core.model.resources import ResourceList, add, maximum, parse_resource_list

# What kube-scheduler scores a container with that names no cpu or memory (milli-cores, bytes).
NONZERO_DEFAULTS: Final = {names.CPU: 100, names.MEMORY: 200 * 1024 * 1024}

_NO_REQUESTS: Final[dict[str, int]] = {}


class ResourcesWire(msgspec.Struct, frozen=True, rename="camel"):
    """`resources` of a container or a pod."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    claims: tuple[Any, ...] | None = None


class PortWire(msgspec.Struct, frozen=True, rename="camel"):
    """One container port; only host ports matter to a scheduler."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerWire(msgspec.Struct, frozen=True, rename="camel"):
    """A container, as far as scheduling reads it."""

    name: str = ""
    image: str = ""
    resources: ResourcesWire | None = None
    restart_policy: str | None = None
    ports: tuple[PortWire, ...] | None = None


class PodResourcesWire(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a pod spec that decide its requests."""

    containers: tuple[ContainerWire, ...] | None = None
    init_containers: tuple[ContainerWire, ...] | None = None
    overhead: dict[str, Any] | None = None
    resources: ResourcesWire | None = None


class ContainerStatusWire(msgspec.Struct, frozen=True, rename="camel"):
    """What the kubelet has allocated and actuated for a container (in-place resize)."""

    name: str = ""
    allocated_resources: dict[str, Any] | None = None
    resources: ResourcesWire | None = None


def _requests(resources: ResourcesWire | None, path: str) -> dict[str, int]:
    """Requests, with limits standing in for what is not requested: the API server's own defaulting."""
    if resources is None or not (resources.requests or resources.limits):
        return _NO_REQUESTS
    limits = parse_resource_list(resources.limits, f"{path}.resources.limits")
    return limits | parse_resource_list(resources.requests, f"{path}.resources.requests")


def _limits(resources: ResourcesWire | None, path: str) -> dict[str, int]:
    return parse_resource_list(resources.limits if resources else None, f"{path}.resources.limits")


def _aggregate(
    spec: PodResourcesWire,
    containers: list[Mapping[str, int]],
    init: list[Mapping[str, int]],
) -> dict[str, int]:
    """Sum of containers and sidecars, or the worst moment of initialisation where that is larger."""
    total: Mapping[str, int] = containers[0] if containers else {}
    for values in containers[1:]:
        total = add(total, values)
    worst: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for wire, values in zip(spec.init_containers or (), init, strict=True):
        if wire.restart_policy == "Always":
            total = add(total, values)
            sidecars = add(sidecars, values)
            worst = maximum(worst, sidecars)
        else:
            worst = maximum(worst, add(sidecars, values))
    return maximum(total, worst) if worst else dict(total)


def _pod_level(total: dict[str, int], declared: Mapping[str, int]) -> dict[str, int]:
    """Pod-level values replace the sums for the resources that may be set there."""
    for name, value in declared.items():
        if name in (names.CPU, names.MEMORY) or name.startswith(names.HUGEPAGES_PREFIX):
            total[name] = value
    return total


def _resized(
    wire: ContainerWire,
    asked: Mapping[str, int],
    statuses: Mapping[str, ContainerStatusWire],
    infeasible: bool,
) -> Mapping[str, int]:
    """The larger of what is asked, allocated and actuated; an infeasible resize asks for nothing more."""
    status = statuses.get(wire.name)
    if status is None:
        return asked
    allocated = parse_resource_list(status.allocated_resources, f"status[{wire.name}].allocatedResources")
    actuated = parse_resource_list(
        status.resources.requests if status.resources else None, f"status[{wire.name}].resources.requests"
    )
    if not allocated and not actuated:
        return asked
    held = maximum(allocated, actuated)
    return held if infeasible else maximum(asked, held)


def effective_requests(
    spec: PodResourcesWire,
    statuses: Mapping[str, ContainerStatusWire] | None = None,
    *,
    infeasible_resize: bool = False,
    missing: ResourceList | None = None,
) -> dict[str, int]:
    """Requests of a whole pod: exact integers, CPU in milli. `pods` is not in it (one pod is one pod).

    `statuses` by container name carry the in-place resize; `missing` gives values for containers that
    request none of a resource (scoring). Raises ModelError with the path of a malformed quantity.
    """

    def one(wire: ContainerWire, path: str) -> Mapping[str, int]:
        asked: Mapping[str, int] = _requests(wire.resources, path)
        if statuses:
            asked = _resized(wire, asked, statuses, infeasible_resize)
        return {**missing, **asked} if missing else asked

    containers = [one(c, f"spec.containers[{i}]") for i, c in enumerate(spec.containers or ())]
    init = [one(c, f"spec.initContainers[{i}]") for i, c in enumerate(spec.init_containers or ())]
    total = _aggregate(spec, containers, init)
    if spec.resources is not None:
        total = _pod_level(total, _requests(spec.resources, "spec"))
    if spec.overhead:
        total = add(total, parse_resource_list(spec.overhead, "spec.overhead"))
    return total


def effective_limits(spec: PodResourcesWire) -> dict[str, int]:
    """Limits of a whole pod, aggregated as requests are: a resource is present if any container limits it.

    Overhead is added to the limits that exist.
    """
    containers = [_limits(c.resources, f"spec.containers[{i}]") for i, c in enumerate(spec.containers or ())]
    init = [
        _limits(c.resources, f"spec.initContainers[{i}]") for i, c in enumerate(spec.init_containers or ())
    ]
    total = _aggregate(spec, list(containers), list(init))
    if spec.resources is not None:
        total = _pod_level(total, _limits(spec.resources, "spec"))
    overhead = parse_resource_list(spec.overhead, "spec.overhead")
    return {name: value + overhead.get(name, 0) for name, value in total.items()}


def requests_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Effective requests of a raw pod spec (a dict as the API server holds it)."""
    return effective_requests(decode(spec, PodResourcesWire, "Pod"))
