"""What one pod takes from a quota: the few fields of a pod that reservations read.

Smaller than `model.pod`, and lenient where that is strict: a pod whose affinity cannot be read still counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model import names
from scheduler_core.model.meta import Wire, decode, epoch
from scheduler_core.model.requests import ContainerStatusWire, PodResourcesWire, effective_requests

_FINISHED = frozenset({names.SUCCEEDED, names.FAILED})


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatusWire, ...] | None = None
    init_container_statuses: tuple[ContainerStatusWire, ...] | None = None


class _PodWire(Wire, frozen=True, rename="camel"):
    spec: PodResourcesWire = PodResourcesWire()
    status: _StatusWire = _StatusWire()


class PodUse(msgspec.Struct, frozen=True):
    """A pod's share of a quota while it lives: its effective requests and one of `pods`.

    `group` is the value of the group annotation, empty without. `best_effort` by Kubernetes' QoS rules.
    `started` is when its node took it, or else its creation, in seconds since the epoch.
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

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: it counts in no quota any more."""
        return self.phase in _FINISHED

    @property
    def succeeded(self) -> bool:
        """It ended well and will not come back."""
        return self.phase == names.SUCCEEDED


def parse_pod_use(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> PodUse:
    """Read a pod from JSON bytes or a dict. Raises ModelError naming the pod and the field."""
    wire = decode(raw, _PodWire, "Pod")
    meta, status = wire.metadata, wire.status
    both = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    try:
        requests = effective_requests(wire.spec, {item.name: item for item in both})
        started = epoch(status.start_time) or meta.created
    except ModelError as error:
        raise error.within("Pod", meta.namespace, meta.name, meta.uid) from None
    return PodUse(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        group=(meta.annotations or {}).get(names.GROUP_NAME_ANNOTATION, ""),
        usage={**requests, names.PODS: 1},
        best_effort=_best_effort(wire.spec),
        phase=status.phase,
        started=started,
    )


def _best_effort(spec: PodResourcesWire) -> bool:
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    holders = (spec.resources, *(container.resources for container in containers))
    return not any(
        name in (names.CPU, names.MEMORY) and str(value) != "0"
        for holder in holders
        if holder is not None
        for part in (holder.requests, holder.limits)
        for name, value in (part or {}).items()
    )
