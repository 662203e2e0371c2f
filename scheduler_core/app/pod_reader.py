"""Pods from the API, where most news of a pod is not about its spec.

A binding and a status update leave all but `nodeName` of the spec as it was. Such news costs a look at the
status instead of working out requests, affinity and the rest again.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import structs

from scheduler_core.kube.tracker import Event
from scheduler_core.model import names
from scheduler_core.model.conditions import find
from scheduler_core.model.meta import Wire, epoch
from scheduler_core.model.pod import Pod, PodStatusWire, parse_pod


class _NewsWire(Wire, frozen=True, rename="camel"):
    """A pod whose spec is left as it came."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatusWire = PodStatusWire()


class _NodeWire(msgspec.Struct, rename="camel"):
    node_name: str = ""


# Parts of a spec that are read together with the pod's own labels.
_READ_LABELS: Final = (b"abelKeys", b"opologySpread", b"odAffinity", b"odAntiAffinity")

_news: Final = msgspec.json.Decoder(_NewsWire)
_node: Final = msgspec.json.Decoder(_NodeWire)


class PodReader:
    """`parse` for a reflector of pods, whose events pass through `forget_deleted`; on the reflector's thread.

    Keeps the pod and the hash of its spec per uid, as long as the pod exists.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Pod]] = {}
        self.reused = 0

    def __len__(self) -> int:
        return len(self._known)

    def parse(self, raw: msgspec.Raw) -> Pod:
        """The same as `parse_pod`. Raises ModelError."""
        try:
            wire = _news.decode(raw)
        except msgspec.MsgspecError:
            return parse_pod(raw)
        uid = wire.metadata.uid
        if not uid or _resizes(wire.status):
            self._known.pop(uid, None)
            return parse_pod(raw)
        spec, node = _without_node(bytes(wire.spec))
        mark = hash(spec)
        known = self._known.get(uid)
        pod = _renewed(known[1], wire, spec, node) if known is not None and known[0] == mark else None
        if pod is None:
            pod = parse_pod(raw)
        else:
            self.reused += 1
        self._known[uid] = (mark, pod)
        return pod

    def forget_deleted(self, event: Event) -> None:
        """A pod that is gone will not be heard of again."""
        if event.type == "DELETED":
            self._known.pop(event.uid, None)


def _without_node(spec: bytes) -> tuple[bytes, str]:
    """The spec's bytes with `nodeName` cut out where servers write it, and its value."""
    if b'"nodeName":"' not in spec:
        return spec, ""
    node = _node.decode(spec).node_name
    return spec.replace(f'"nodeName":"{node}",'.encode(), b"", 1), node


def _resizes(status: PodStatusWire) -> bool:
    """Whether the status has a say in what the pod's containers request."""
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    reported = any(item.resources is not None or item.allocated_resources is not None for item in statuses)
    return reported or bool(status.resize)


def _renewed(old: Pod, wire: _NewsWire, spec: bytes, node: str) -> Pod | None:
    """`old` with what metadata and status say; None where they change what follows from the spec."""
    meta, status = wire.metadata, wire.status
    labels = meta.labels or {}
    # API servers add the node's topology labels with the binding; few specs depend on labels.
    if labels != old.labels and any(word in spec for word in _READ_LABELS):
        return None
    initialized = find(status.conditions, names.POD_INITIALIZED)
    done = initialized is not None and initialized.status == "True"
    return structs.replace(
        old,
        resource_version=meta.resource_version,
        labels=labels,
        annotations=meta.annotations or {},
        deleted=epoch(meta.deletion_timestamp),
        controller=meta.controller,
        node_name=node,
        nominated_node=status.nominated_node_name,
        phase=status.phase,
        reason=status.reason,
        start_time=epoch(status.start_time),
        scheduled_condition=find(status.conditions, names.POD_SCHEDULED),
        initialized_time=epoch(initialized.last_transition_time)
        if initialized is not None and done
        else None,
    )
