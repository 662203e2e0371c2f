"""Pods, typed: parsed once, when they arrive, into what scheduling reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.errors import TooLarge
from scheduler_core.model import names, older_texts
from scheduler_core.model.conditions import ObjectCondition, find
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import MAX_NAME, ApiObject, NamespacedObject, OwnerReference, Raw, parse
from scheduler_core.model.pods.affinity import (
    AffinityWire,
    PodAffinity,
    PodNodeAffinity,
    SpreadConstraint,
    SpreadWire,
    Toleration,
    parse_node_affinity,
    parse_pod_affinity,
    parse_spread,
)
from scheduler_core.model.pods.charging import charged_at_creation, counts_in_quota
from scheduler_core.model.pods.limits import (
    FEW_ENTRIES,
    MOST_GATES,
    MOST_HOST_PORTS,
    MOST_LABELS,
    MOST_TOLERATIONS,
    MOST_VOLUMES,
    at_most,
    check_neighbour_terms,
    check_node_terms,
    first_labels,
    kept_annotations,
    kept_images,
)
from scheduler_core.model.pods.requests import (
    PodResourcesWire,
    ResizeRule,
    ResizeStatusWire,
    effective_limits,
    effective_requests,
    is_best_effort,
    longest_list,
    nonzero_requests,
    with_few_resources,
)
from scheduler_core.model.pods.volumes import PodVolume, VolumeWire, parse_volumes
from scheduler_core.model.resources import MOST_READ, first_resources
from scheduler_core.model.timestamps import epoch

NEVER: Final = "Never"
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
_NO_LABELS: Final[dict[str, str]] = {}


class _GateWire(msgspec.Struct, frozen=True, rename="camel"):
    name: str


class _SchedulingGroupWire(msgspec.Struct, frozen=True, rename="camel"):
    pod_group_name: str = ""


class PodSpecWire(PodResourcesWire, frozen=True, rename="camel"):
    """`spec` of a pod as scheduling reads it."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: AffinityWire | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[SpreadWire, ...] | None = None
    scheduling_gates: tuple[_GateWire, ...] | None = None
    volumes: tuple[VolumeWire, ...] | None = None
    resource_claims: tuple[Any, ...] | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    scheduling_group: _SchedulingGroupWire | None = None


class PodStatusWire(ResizeStatusWire, frozen=True, rename="camel"):
    """`status` of a pod as scheduling reads it."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: datetime | None = None


class _PodWire(ApiObject, frozen=True, rename="camel"):
    spec: PodSpecWire = PodSpecWire()
    status: PodStatusWire = PodStatusWire()


class HostPort(msgspec.Struct, frozen=True):
    """A port that a pod takes on its node; `0.0.0.0` conflicts with every address."""

    ip: str
    protocol: str
    port: int


class Pod(NamespacedObject, frozen=True, eq=False):
    """A pod as the core sees it. Times are seconds since the epoch; requests are exact integers.

    `preemptors`: `namespace/name` of the pod for which this pod is being evicted, and the group if the whole
    group preempted, or their uids; empty otherwise. `lasts` is the longest
    time that the pod may run, in seconds (spec.activeDeadlineSeconds), None without limit. `grace`:
    seconds that it has to end once it is told to (spec.terminationGracePeriodSeconds). `ending_grace`: those
    that its deletion gave it, None without a deletion, or where that does not say. `values` is how many
    values of terms are kept of it, and of a pod with many labels, volumes and the like how many of these;
    `left_out` says what of it is too large to be read, "" for nothing: such a pod has a node.

    Compared by identity: a new version of the object is a new Pod.
    """

    uid: str
    resource_version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    created: float
    deleted: float | None
    preemptors: tuple[str, ...]
    controller: OwnerReference | None
    of_daemon_set: bool
    scheduler_name: str
    node_name: str
    nominated_node: str
    priority: int
    preemption_policy: str
    phase: str
    reason: str
    start_time: float | None
    scheduled_condition: ObjectCondition | None
    initialized_time: float | None
    requests: dict[str, int]
    nonzero: tuple[int, int]
    limits: dict[str, int]
    best_effort: bool
    node_selector: tuple[tuple[str, str], ...]
    node_affinity: PodNodeAffinity
    pod_affinity: PodAffinity
    pod_anti_affinity: PodAffinity
    tolerations: tuple[Toleration, ...]
    spread: tuple[SpreadConstraint, ...]
    gates: tuple[str, ...]
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    volumes: tuple[PodVolume, ...]
    needs_claims: bool
    native_group: str
    lasts: int | None
    grace: int
    ending_grace: int | None
    values: int = 0
    left_out: str = ""

    @property
    def assigned(self) -> bool:
        """Whether the pod has a node."""
        return bool(self.node_name)

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: it holds no node resources and no quota any more."""
        return self.phase in names.FINISHED_PHASES

    @property
    def counts(self) -> bool:
        """Whether the API says that the pod counts in its quota."""
        return counts_in_quota(
            node=self.node_name, charged=charged_at_creation(self.annotations), phase=self.phase
        )

    @property
    def terminating(self) -> bool:
        """Deletion was requested; the resources count until the pod is gone."""
        return self.deleted is not None


def _host_ports(spec: PodSpecWire) -> tuple[HostPort, ...]:
    sidecars = (c for c in spec.init_containers or () if c.restart_policy == "Always")
    ports = (
        HostPort(port.host_ip or "0.0.0.0", sys.intern(port.protocol or "TCP"), port.host_port)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port > 0
    )
    return tuple(dict.fromkeys(ports))


def preemptors(conditions: Iterable[ObjectCondition] | None) -> tuple[str, ...]:
    """The pod, or the member and its group, for which this scheduler evicted a pod; empty if it did not."""
    disrupted = find(conditions, names.DISRUPTION_TARGET)
    if disrupted is None or disrupted.status != "True" or disrupted.reason != names.REASON_PREEMPTION:
        return ()
    found = find(conditions, names.PREEMPTED_FOR)
    if found is None or found.status != "True":
        return older_texts.preemptors(disrupted.message)
    return tuple(filter(None, found.message.split(",")))


def _grace(seconds: int | None) -> int:
    """The seconds that a pod has to end, as the API server reads them: 30 by default, 1 if negative."""
    if seconds is None:
        return names.DEFAULT_GRACE_SECONDS
    return seconds if seconds >= 0 else 1


def _initialized(status: PodStatusWire) -> float | None:
    found = find(status.conditions, names.POD_INITIALIZED)
    return epoch(found.last_transition_time) if found is not None and found.status == "True" else None


def _pod_from(wire: _PodWire, rule: ResizeRule) -> Pod:
    """The typed pod of a decoded object. Raises ModelError with the path of what is malformed.

    One with more terms or values than are read is an error while it waits. With a node it counts, without
    what is too much.
    """
    named = longest_list(wire.spec)
    if named > MOST_READ:
        # Before they are read, as each quantity is read several times.
        problem = f"has {named} resources, at most {MOST_READ} are read"
        if not wire.spec.node_name:
            raise TooLarge("spec", problem)
        pod = _as_written(msgspec.structs.replace(wire, spec=with_few_resources(wire.spec)), rule)
        pod = msgspec.structs.replace(pod, left_out=f"Pod {pod.key}: spec: {problem}")
    else:
        pod = _as_written(wire, rule)
    others = len(pod.labels) + len(pod.annotations) + len(pod.tolerations) + len(pod.gates)
    others += len(pod.host_ports) + len(pod.volumes) + len(pod.requests) + len(pod.limits)
    values = 0
    for part in _TERMS if others <= FEW_ENTRIES else _PARTS:
        try:
            values += part.count(pod)
        except TooLarge as error:
            if not pod.assigned:
                raise
            pod = msgspec.structs.replace(pod, left_out=f"Pod {pod.key}: {error}", **part.less(pod))
    return msgspec.structs.replace(pod, values=values) if values else pod


def without_terms(pod: Pod, problem: str) -> Pod:
    """A pod with a node whose terms are not read, with few labels and the like; `problem` says why."""
    return msgspec.structs.replace(
        pod,
        left_out=problem,
        values=0,
        labels=first_labels(pod.labels, FEW_ENTRIES),
        annotations=kept_annotations(pod.annotations, FEW_ENTRIES),
        tolerations=pod.tolerations[:FEW_ENTRIES],
        gates=(),
        **_NO_NODE_TERMS,
        **_NO_NEIGHBOUR_TERMS,
    )


class _Part(NamedTuple):
    """A part of a pod with a limit: `count` raises TooLarge beyond it, `less` is what stays then."""

    count: Callable[[Pod], int]
    less: Callable[[Pod], dict[str, Any]]


_NO_AFFINITY: Final = PodAffinity()
_NO_NODE_TERMS: Final[dict[str, Any]] = {"node_selector": (), "node_affinity": PodNodeAffinity()}
_NO_NEIGHBOUR_TERMS: Final[dict[str, Any]] = {
    "pod_affinity": _NO_AFFINITY,
    "pod_anti_affinity": _NO_AFFINITY,
    "spread": (),
}


def _list(field: str, most: int, path: str, what: str) -> _Part:
    """A list, of which the first `most` items stay."""
    read = attrgetter(field)
    return _Part(lambda pod: at_most(most, len(read(pod)), path, what), lambda pod: {field: read(pod)[:most]})


_TERMS: Final = (
    _Part(lambda pod: check_node_terms(pod.node_selector, pod.node_affinity), lambda pod: _NO_NODE_TERMS),
    _Part(
        lambda pod: check_neighbour_terms(pod.pod_affinity, pod.pod_anti_affinity, pod.spread),
        lambda pod: _NO_NEIGHBOUR_TERMS,
    ),
)
_PARTS: Final = (
    *_TERMS,
    _Part(
        lambda pod: at_most(MOST_LABELS, len(pod.labels), "metadata.labels", "labels"),
        lambda pod: {"labels": first_labels(pod.labels)},
    ),
    _Part(
        lambda pod: at_most(MOST_READ, max(len(pod.requests), len(pod.limits)), "spec", "resources"),
        lambda pod: {"requests": first_resources(pod.requests), "limits": first_resources(pod.limits)},
    ),
    _list("tolerations", MOST_TOLERATIONS, "spec.tolerations", "tolerations"),
    _list("gates", MOST_GATES, "spec.schedulingGates", "gates"),
    _list("host_ports", MOST_HOST_PORTS, "spec.containers", "host ports"),
    _list("volumes", MOST_VOLUMES, "spec.volumes", "volumes with claims or disks"),
    _Part(lambda pod: len(pod.annotations), lambda pod: {}),
)


def _as_written(wire: _PodWire, rule: ResizeRule) -> Pod:
    meta, spec, status = wire.metadata, wire.spec, wire.status
    labels = meta.labels or _NO_LABELS
    affinity = spec.affinity or AffinityWire()
    requests = effective_requests(spec, status, rule=rule)
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    return Pod(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or f"{meta.namespace}/{meta.name}",
        resource_version=meta.resource_version,
        labels=labels,
        annotations=kept_annotations(meta.annotations or _NO_LABELS),
        created=meta.created,
        deleted=epoch(meta.deletion_timestamp),
        preemptors=preemptors(status.conditions) if meta.deletion_timestamp is not None else (),
        controller=meta.controller,
        of_daemon_set=any(owner.kind == "DaemonSet" for owner in meta.owner_references or ()),
        scheduler_name=spec.scheduler_name[:MAX_NAME] or names.DEFAULT_SCHEDULER,
        node_name=spec.node_name,
        nominated_node=status.nominated_node_name,
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy or "",
        phase=status.phase,
        reason=status.reason,
        start_time=epoch(status.start_time),
        scheduled_condition=find(status.conditions, names.POD_SCHEDULED),
        initialized_time=_initialized(status),
        requests=requests,
        nonzero=nonzero_requests(spec, status, requests, rule),
        limits=effective_limits(spec),
        best_effort=is_best_effort(spec),
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=parse_node_affinity(affinity.node_affinity, "spec.affinity.nodeAffinity"),
        pod_affinity=parse_pod_affinity(affinity.pod_affinity, "spec.affinity.podAffinity", labels),
        pod_anti_affinity=parse_pod_affinity(
            affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity", labels
        ),
        tolerations=spec.tolerations or (),
        spread=tuple(
            parse_spread(item, f"spec.topologySpreadConstraints[{i}]", labels)
            for i, item in enumerate(spec.topology_spread_constraints or ())
        ),
        gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        host_ports=_host_ports(spec),
        images=kept_images(tuple(container.image for container in containers)),
        volumes=parse_volumes(spec.volumes or (), meta.name, MOST_VOLUMES + 1),
        needs_claims=bool(spec.resource_claims),
        native_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        lasts=spec.active_deadline_seconds,
        grace=_grace(spec.termination_grace_period_seconds),
        ending_grace=meta.deletion_grace_period_seconds,
    )


def parse_pod(raw: Raw, rule: ResizeRule = ResizeRule.LARGEST_SUM) -> Pod:
    """Read a pod from JSON bytes or a dict; `rule` is that of the server's version.

    Raises ModelError naming the pod and the field.
    """
    return parse(raw, _PodWire, PODS, lambda wire: _pod_from(wire, rule))
