"""Computes the effective requests and limits of a pod, and its quality of service.

Source: Kubernetes' pod resource rules (KEP-753 sidecars, KEP-2837 pod-level resources, KEP-1287 in-place
resize, KEP-688 overhead). Containers add up; init containers count with the sidecars started before them;
the larger of both is taken; pod-level requests replace the sum per resource; overhead comes on top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from scheduler_core.model import names
from scheduler_core.model.conditions import ObjectCondition, find
from scheduler_core.model.meta import decode
from scheduler_core.model.quantity import INT64_MAX, parse_resource
from scheduler_core.model.resources import (
    ResourceList,
    add,
    add_to,
    first_resources,
    maximum,
    parse_resource_list,
)

# What kube-scheduler scores a container with that names no cpu or memory (milli-cores, bytes).
NONZERO_DEFAULTS: Final = {names.CPU: 100, names.MEMORY: 200 * 1024 * 1024}

_NO_REQUESTS: Final[dict[str, int]] = {}
_COMPUTE: Final = (names.CPU, names.MEMORY)


class ResizeRule(Enum):
    """What a pod counts for while its containers are resized: asked for, allocated or actuated.

    It follows the version of the server, as kube-scheduler and ResourceQuotas of that version do.
    """

    # The largest of the three sums over all containers: since 1.37.
    LARGEST_SUM = "the largest sum"
    # The sum of what is largest for each container: up to 1.36.
    SUM_OF_LARGEST = "the sum of the largest"

    @classmethod
    def of(cls, version: tuple[int, int] | None) -> ResizeRule:
        """The rule of a server of a major and minor version; the newest for one that is not known."""
        return cls.SUM_OF_LARGEST if version is not None and version < (1, 37) else cls.LARGEST_SUM

    @classmethod
    def newest(cls) -> ResizeRule:
        """The rule where no server has told its version."""
        return cls.of(None)

    @property
    def version(self) -> str:
        """The minor version that it is called by: that of the newest servers that have it."""
        return "1.36" if self is ResizeRule.SUM_OF_LARGEST else "1.37"


# What resized pods count for now: the server may be upgraded while a program runs.
CurrentRule = Callable[[], ResizeRule]


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


Spec = TypeVar("Spec", bound=PodResourcesWire)


def longest_list(spec: PodResourcesWire) -> int:
    """How many resources the longest list of a pod names."""
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    most = _longest(spec.resources) if spec.resources is not None else 0
    for container in containers:
        if container.resources is not None:
            most = max(most, _longest(container.resources))
    return most


def _longest(resources: ResourcesWire) -> int:
    return max(len(resources.requests or ()), len(resources.limits or ()))


def with_few_resources(spec: Spec) -> Spec:
    """A spec of whose lists of resources the first ones stay."""
    return msgspec.structs.replace(
        spec,
        containers=tuple(map(_with_few, spec.containers or ())),
        init_containers=tuple(map(_with_few, spec.init_containers or ())),
        resources=_few(spec.resources),
    )


def _with_few(container: ContainerWire) -> ContainerWire:
    return msgspec.structs.replace(container, resources=_few(container.resources))


def _few(resources: ResourcesWire | None) -> ResourcesWire | None:
    if resources is None:
        return None
    return ResourcesWire(first_resources(resources.requests or {}), first_resources(resources.limits or {}))


class ContainerStatusWire(msgspec.Struct, frozen=True, rename="camel"):
    """The resources that the kubelet has allocated and actuated for a container (in-place resize)."""

    name: str = ""
    allocated_resources: dict[str, Any] | None = None
    resources: ResourcesWire | None = None


class ResizeStatusWire(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a pod's status that have a say in its requests: what the kubelet says of a resize."""

    conditions: tuple[ObjectCondition, ...] | None = None
    container_statuses: tuple[ContainerStatusWire, ...] | None = None
    init_container_statuses: tuple[ContainerStatusWire, ...] | None = None
    allocated_resources: dict[str, Any] | None = None
    resources: ResourcesWire | None = None
    resize: str = ""

    @property
    def reporting(self) -> dict[str, ContainerStatusWire]:
        """The containers, by name, of which the kubelet says what they have."""
        if self.container_statuses is None and self.init_container_statuses is None:
            return {}
        both = (*(self.container_statuses or ()), *(self.init_container_statuses or ()))
        return {
            item.name: item
            for item in both
            if item.allocated_resources is not None or item.resources is not None
        }

    @property
    def reports_pod_level(self) -> bool:
        """Whether the kubelet says what the pod level has."""
        return self.allocated_resources is not None or self.resources is not None

    @property
    def changes_requests(self) -> bool:
        """Whether the pod may count as anything else than what its spec asks for."""
        if self.reports_pod_level:
            return True
        # Asked of every pod that is read: no dict is made for the answer.
        for statuses in (self.container_statuses, self.init_container_statuses):
            for item in statuses or ():
                if item.allocated_resources is not None or item.resources is not None:
                    return True
        return False

    @property
    def infeasible(self) -> bool:
        """Whether the node can never give what the spec asks for now (`resize` is how old servers say it)."""
        pending = find(self.conditions, names.POD_RESIZE_PENDING)
        return (pending.reason if pending is not None else self.resize) == names.REASON_INFEASIBLE


_NO_STATUSES: Final[dict[str, ContainerStatusWire]] = {}


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
    total = dict(containers[0]) if containers else {}
    for values in containers[1:]:
        add_to(total, values)
    worst: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for wire, values in zip(spec.init_containers or (), init, strict=True):
        stays = wire.restart_policy == "Always"
        # Only what this container asks for can become worse: the rest is in `worst` already.
        for name, value in values.items():
            at_once = min(INT64_MAX, sidecars.get(name, 0) + value)
            worst[name] = max(worst.get(name, 0), at_once)
            if stays:
                sidecars[name] = at_once
        if stays:
            add_to(total, values)
    return maximum(total, worst) if worst else total


def _pod_level(total: dict[str, int], declared: Mapping[str, int]) -> dict[str, int]:
    """Pod-level values replace the sums for the resources that may be set there."""
    for name, value in declared.items():
        if name in _COMPUTE or name.startswith(names.HUGEPAGES_PREFIX):
            total[name] = value
    return total


class _Amounts(NamedTuple):
    """What one container, or the pod level, asks for, and what the kubelet has allocated and actuated."""

    asked: Mapping[str, int]
    allocated: Mapping[str, int]
    actuated: Mapping[str, int]


def _unchanged(asked: Mapping[str, int]) -> _Amounts:
    return _Amounts(asked, asked, asked)


def _amounts(
    asked: Mapping[str, int],
    allocated: Mapping[str, Any] | None,
    actuated: ResourcesWire | None,
    path: str,
    *,
    infeasible: bool,
) -> _Amounts:
    """Where the kubelet tells of no allocation, that is what is asked for, unless the node refused it."""
    given: Mapping[str, int] = _NO_REQUESTS if infeasible else asked
    if allocated is not None:
        given = parse_resource_list(allocated, f"{path}.allocatedResources")
    real = given
    if actuated is not None and actuated.requests is not None:
        real = parse_resource_list(actuated.requests, f"{path}.resources.requests")
    return _Amounts(asked, given, real)


def _one_alone(
    asked: Mapping[str, int], found: ContainerStatusWire, path: str, *, infeasible: bool
) -> Mapping[str, int]:
    """The largest for one container; up to 1.36, what is not actuated is not read as allocated either."""
    if found.resources is None:
        return asked
    allocated = parse_resource_list(found.allocated_resources, f"{path}.allocatedResources")
    actuated = parse_resource_list(found.resources.requests, f"{path}.resources.requests")
    return _largest(_Amounts(asked, allocated, actuated), infeasible=infeasible)


def _largest(amounts: _Amounts, *, infeasible: bool) -> dict[str, int]:
    """The largest of the three; a resize that the node can never give asks for nothing more."""
    held = maximum(amounts.allocated, amounts.actuated)
    return held if infeasible else maximum(amounts.asked, held)


def _declared(
    spec: PodResourcesWire,
    status: ResizeStatusWire | None,
    total: Mapping[str, int],
    overhead: ResourceList,
    *,
    infeasible: bool,
) -> Mapping[str, int]:
    """Requests of the pod level, filled in as an API server does; `total` has what containers ask for.

    A resource that the pod level only limits is requested as the containers request it, and up to the limit
    only where none does. Huge pages cannot be promised twice, so their limit is always the request. What the
    kubelet reports of the pod level has the overhead in it, the spec has not.
    """
    limits = _limits(spec.resources, "spec")
    requests = spec.resources.requests if spec.resources is not None else None
    asked = {
        name: value
        for name, value in limits.items()
        if name not in total or name.startswith(names.HUGEPAGES_PREFIX)
    } | parse_resource_list(requests, "spec.resources.requests")
    if status is None or not status.reports_pod_level:
        return asked
    found = _amounts(asked, status.allocated_resources, status.resources, "status", infeasible=infeasible)

    def own(reported: Mapping[str, int]) -> dict[str, int]:
        return {name: max(0, reported.get(name, 0) - overhead.get(name, 0)) for name in asked}

    return _largest(_Amounts(asked, own(found.allocated), own(found.actuated)), infeasible=infeasible)


def effective_requests(
    spec: PodResourcesWire,
    status: ResizeStatusWire | None = None,
    *,
    missing: ResourceList | None = None,
    rule: ResizeRule = ResizeRule.LARGEST_SUM,
) -> dict[str, int]:
    """Requests of a whole pod: exact integers, CPU in milli. `pods` is not in it (one pod is one pod).

    During an in-place resize, of which `status` tells, the largest of what is asked for, allocated and
    actuated counts, by the `rule` of the server's version; only of the last two if the resize is infeasible.
    `missing` gives values for containers that request none of a resource (scoring). Raises ModelError with
    the path of a malformed quantity.
    """
    statuses, infeasible = _NO_STATUSES, False
    if status is not None and status.changes_requests:
        statuses, infeasible = status.reporting, status.infeasible

    each = rule is ResizeRule.SUM_OF_LARGEST

    def one(wire: ContainerWire, path: str, *, ends: bool = False) -> _Amounts:
        asked = _requests(wire.resources, path)
        found = statuses.get(wire.name)
        # Up to 1.36 what ends before the pod runs counts as it is written.
        if found is None or (each and ends):
            return _unchanged(asked)
        inside = f"status[{wire.name}]"
        if each:
            return _unchanged(_one_alone(asked, found, inside, infeasible=infeasible))
        return _amounts(asked, found.allocated_resources, found.resources, inside, infeasible=infeasible)

    containers = [one(c, f"spec.containers[{i}]") for i, c in enumerate(spec.containers or ())]
    init = [
        one(c, f"spec.initContainers[{i}]", ends=c.restart_policy != "Always")
        for i, c in enumerate(spec.init_containers or ())
    ]

    def summed(which: int) -> dict[str, int]:
        parts = [[one[which] for one in those] for those in (containers, init)]
        if missing:
            parts = [[{**missing, **values} for values in those] for those in parts]
        return _aggregate(spec, *parts)

    if statuses:
        total = _largest(_Amounts(summed(0), summed(1), summed(2)), infeasible=infeasible)
    else:
        total = summed(0)
    overhead = parse_resource_list(spec.overhead, "spec.overhead") if spec.overhead else _NO_REQUESTS
    if spec.resources is not None:
        total = _pod_level(total, _declared(spec, status, total, overhead, infeasible=infeasible))
    return _of_nodes(add(total, overhead) if overhead else total)


def _of_nodes(asked: dict[str, int]) -> dict[str, int]:
    """Without flavors, which only a node gives to what runs there: who asks for one by its name asks for no
    device, and would use up the flavor.
    """
    if not any(name.startswith(names.FLAVOR_PREFIX) for name in asked):
        return asked
    return {name: value for name, value in asked.items() if not name.startswith(names.FLAVOR_PREFIX)}


def nonzero_requests(
    spec: PodResourcesWire,
    status: ResizeStatusWire,
    requests: ResourceList,
    rule: ResizeRule = ResizeRule.LARGEST_SUM,
) -> tuple[int, int]:
    """What kube-scheduler scores a pod with: cpu and memory with NONZERO_DEFAULTS, `requests` effective.

    In a pod with requests or limits of its own, only what nobody asks for has a default. Raises ModelError.
    """
    found = requests
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        missing = {name: value for name, value in NONZERO_DEFAULTS.items() if name not in requests}
        if missing:
            found = effective_requests(spec, status, missing=missing, rule=rule)
    # What a kubelet reports need not name what the containers name.
    elif status.changes_requests or not all(_names_compute(container.resources) for container in containers):
        found = effective_requests(spec, status, missing=NONZERO_DEFAULTS, rule=rule)
    return found.get(names.CPU, 0), found.get(names.MEMORY, 0)


def _names_compute(resources: ResourcesWire | None) -> bool:
    """Whether a container names both cpu and memory, so that it takes no default of them."""
    if resources is None:
        return False
    named = (resources.requests or {}).keys() | (resources.limits or {}).keys()
    return names.CPU in named and names.MEMORY in named


def is_best_effort(spec: PodResourcesWire) -> bool:
    """QoS class BestEffort: neither cpu nor memory is asked for or limited; other resources do not count.

    The pod level, where it is set, speaks for all containers. With limits there, an API server fills in its
    requests from those of the containers. Raises ModelError for a malformed quantity.
    """
    level = spec.resources
    if level is not None and (_asks_compute(level) or not level.limits):
        return not _asks_compute(level)
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    return not any(_asks_compute(container.resources) for container in containers)


def _asks_compute(resources: ResourcesWire | None) -> bool:
    """Whether more than nothing of cpu or memory is requested or limited."""
    if resources is None:
        return False
    for amounts in (resources.requests, resources.limits):
        for name in _COMPUTE:
            value = amounts.get(name) if amounts else None
            if value is not None and parse_resource(name, value) > 0:
                return True
    return False


def effective_limits(spec: PodResourcesWire, status: ResizeStatusWire | None = None) -> dict[str, int]:
    """Limits of a whole pod, aggregated as requests are: a resource is present if any container limits it.

    Overhead is added to the limits that exist and are more than nothing. During an in-place resize, of which
    `status` tells, the larger of what is written and what is actuated counts; only the latter if the resize
    is infeasible. Raises ModelError.
    """
    statuses, infeasible = _NO_STATUSES, False
    if status is not None and status.changes_requests:
        statuses, infeasible = status.reporting, status.infeasible

    def summed(*, actuated: bool) -> dict[str, int]:
        containers, init = (
            [
                _actuated_limits(c, statuses, path=f"spec.{part}[{i}]", infeasible=infeasible)
                if actuated
                else _limits(c.resources, f"spec.{part}[{i}]")
                for i, c in enumerate(those or ())
            ]
            for part, those in (("containers", spec.containers), ("initContainers", spec.init_containers))
        )
        return _aggregate(spec, list(containers), list(init))

    if statuses:
        total = summed(actuated=True)
        total = total if infeasible else maximum(summed(actuated=False), total)
    else:
        total = summed(actuated=False)
    if spec.resources is not None:
        total = _pod_level(total, _limits(spec.resources, "spec"))
    overhead = parse_resource_list(spec.overhead, "spec.overhead")
    return {name: value + overhead.get(name, 0) if value else value for name, value in total.items()}


def _actuated_limits(
    wire: ContainerWire, statuses: Mapping[str, ContainerStatusWire], *, path: str, infeasible: bool
) -> Mapping[str, int]:
    """What the kubelet has set for a container; where it does not say, what is written, unless refused."""
    found = statuses.get(wire.name)
    if found is not None and found.resources is not None and found.resources.limits is not None:
        return parse_resource_list(found.resources.limits, f"status[{wire.name}].resources.limits")
    return _NO_REQUESTS if infeasible else _limits(wire.resources, path)


class _PodWire(msgspec.Struct, frozen=True, rename="camel"):
    spec: PodResourcesWire = PodResourcesWire()
    status: ResizeStatusWire | None = None


def requests_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """Effective requests of a raw pod (a dict as the API server holds it). Raises ModelError."""
    wire = decode(pod, _PodWire, "Pod")
    return effective_requests(wire.spec, wire.status)
