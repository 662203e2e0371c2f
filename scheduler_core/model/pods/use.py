"""The use of one pod in a quota: the few fields of a pod that reservations read.

More lenient than `model.pods.pod`: a pod whose affinity cannot be read still counts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from scheduler_core.errors import TooLarge
from scheduler_core.model import names
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import LONGEST_KEPT_NAME, ApiObject, Raw, parse
from scheduler_core.model.pods.charging import charged_at_creation
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.requests import (
    ContainerStatusWire,
    PodResourcesWire,
    ResizeRule,
    ResizeStatusWire,
    effective_requests,
    is_best_effort,
    longest_list,
    with_few_resources,
)
from scheduler_core.model.resources import MOST_READ, first_resources
from scheduler_core.model.timestamps import epoch

# Limits for a pod in an admission request. Nodes run some hundred containers at most.
MAX_CONTAINERS: Final = 1_000
MAX_AMOUNTS: Final = 5_000


class _StatusWire(ResizeStatusWire, frozen=True, rename="camel"):
    phase: str = ""
    start_time: datetime | None = None


class _SpecWire(PodResourcesWire, frozen=True, rename="camel"):
    node_name: str | None = None
    scheduler_name: str | None = None


class _PodWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class PodUse(msgspec.Struct, frozen=True):
    """A pod's share of a quota while it lives: its effective requests and one of `pods`.

    `group` is the value of the group annotation, empty without. `best_effort` by Kubernetes' QoS rules.
    `started` is when its node took it, or else its creation, in seconds since the epoch. `node` and
    `scheduler` are empty where the pod names none; `charged`: it counts in its ElasticQuota without a node.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    group: str
    usage: dict[str, int]
    best_effort: bool
    phase: str
    started: float = 0.0
    node: str = ""
    scheduler: str = ""
    charged: bool = False

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: it counts in no quota any more."""
        return self.phase in names.FINISHED_PHASES

    @property
    def succeeded(self) -> bool:
        """It ended well and will not come back."""
        return self.phase == names.SUCCEEDED


def parse_pod_use(raw: Raw, rule: ResizeRule = ResizeRule.LARGEST_SUM) -> PodUse:
    """Read a pod from JSON bytes or a dict; `rule` is that of the server's version.

    Of more resources than a pod can use, the first ones count: many such pods are kept. Raises ModelError
    naming the pod and the field.
    """
    return parse(raw, _PodWire, PODS, lambda wire: _stored(wire, rule))


def parse_proposed_use(raw: Raw, rule: ResizeRule = ResizeRule.LARGEST_SUM) -> PodUse:
    """The use of a pod if the admission request with it were carried out. Raises ModelError.

    The status of an earlier resize (infeasible) does not apply to this one. Raises TooLarge
    for a pod that no node could run and that would take long to add up.
    """
    return parse(raw, _PodWire, PODS, lambda wire: _proposed(wire, rule))


def _stored(wire: _PodWire, rule: ResizeRule) -> PodUse:
    if longest_list(wire.spec) > MOST_READ:
        wire = msgspec.structs.replace(wire, spec=with_few_resources(wire.spec))
    use = _use(wire, rule)
    if len(use.usage) <= MOST_READ:
        return use
    return msgspec.structs.replace(use, usage=first_resources(use.usage))


def _proposed(wire: _PodWire, rule: ResizeRule) -> PodUse:
    _check_size(wire.spec, wire.status)
    status = msgspec.structs.replace(wire.status, conditions=None, resize="")
    return _use(msgspec.structs.replace(wire, status=status), rule)


def _check_size(spec: PodResourcesWire, status: ResizeStatusWire) -> None:
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if len(containers) > MAX_CONTAINERS:
        problem = f"{len(containers)} containers are too many (at most {MAX_CONTAINERS})"
        raise TooLarge("spec.containers and spec.initContainers", problem)
    reports: tuple[ResizeStatusWire | ContainerStatusWire, ...]
    reports = (status, *(status.container_statuses or ()), *(status.init_container_statuses or ()))
    named = [spec.overhead or {}, *(report.allocated_resources or {} for report in reports)]
    for resources in (spec.resources, *(part.resources for part in (*containers, *reports))):
        if resources is not None:
            named += [resources.requests or {}, resources.limits or {}]
    amounts = sum(map(len, named))
    if amounts > MAX_AMOUNTS:
        problem = f"{amounts} requests, limits and allocated resources are too many (at most {MAX_AMOUNTS})"
        raise TooLarge("spec and status", problem)


def use_of(pod: Pod) -> PodUse:
    """The use of a pod that was parsed as a whole."""
    return PodUse(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        group=pod.annotations.get(names.GROUP_NAME_ANNOTATION, ""),
        usage={**pod.requests, names.PODS: 1},
        best_effort=pod.best_effort,
        phase=pod.phase,
        started=pod.start_time or pod.created,
        node=pod.node_name or "",
        scheduler=pod.scheduler_name,
        charged=charged_at_creation(pod.annotations),
    )


def _use(wire: _PodWire, rule: ResizeRule) -> PodUse:
    meta, spec, status = wire.metadata, wire.spec, wire.status
    annotations = meta.annotations or {}
    return PodUse(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        group=annotations.get(names.GROUP_NAME_ANNOTATION, "")[:LONGEST_KEPT_NAME],
        usage={**effective_requests(spec, status, rule=rule), names.PODS: 1},
        best_effort=is_best_effort(spec),
        phase=status.phase,
        started=epoch(status.start_time) or meta.created,
        node=(spec.node_name or "")[:LONGEST_KEPT_NAME],
        scheduler=(spec.scheduler_name or "")[:LONGEST_KEPT_NAME],
        charged=charged_at_creation(annotations),
    )
