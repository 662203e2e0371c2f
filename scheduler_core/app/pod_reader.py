"""Pods from the API, most of whose specs are known already.

A binding and a status update leave all but `nodeName` of the spec as it was, and pods of one template have
one spec. Such news costs a look at metadata and status instead of working out requests, affinity and the rest
again, and such pods share what follows from the spec.
"""

from __future__ import annotations

import re
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
# Generic ephemeral volumes have claims named after their pod.
_READ_NAME: Final = b'"ephemeral"'
# The volume with the service account's token, whose name differs from pod to pod and says nothing.
_TOKEN: Final = b'"kube-api-access-'
_TOKEN_VOLUME: Final = re.compile(rb'(?<="name":"kube-api-access-)[a-z0-9]{5}(?=",")')

_news: Final = msgspec.json.Decoder(_NewsWire)
_node: Final = msgspec.json.Decoder(_NodeWire)


class PodReader:
    """`parse` for a reflector of pods, whose events pass through `forget_deleted`; on the reflector's thread.

    Keeps the pod and the hash of its spec per uid, as long as the pod exists, and one pod for each of the
    newest `templates` specs.
    """

    def __init__(self, templates: int = 1000) -> None:
        self._known: dict[str, tuple[int, Pod]] = {}
        self._templates: dict[int, Pod] = {}
        self._most_templates = templates
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
        mark = hash(_TOKEN_VOLUME.sub(b"", spec) if _TOKEN in spec else spec)
        known = self._known.get(uid)
        like = known[1] if known is not None and known[0] == mark else self._templates.get(mark)
        pod = _renewed(like, wire, spec, node) if like is not None else None
        if pod is None:
            pod = parse_pod(raw)
            self._remember(mark, pod)
        else:
            self.reused += 1
        self._known[uid] = (mark, pod)
        return pod

    def _remember(self, mark: int, pod: Pod) -> None:
        self._templates[mark] = pod
        if len(self._templates) > self._most_templates:
            del self._templates[next(iter(self._templates))]

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


def _renewed(like: Pod, wire: _NewsWire, spec: bytes, node: str) -> Pod | None:
    """`like` with what metadata and status say; None where they change what follows from the spec."""
    meta, status = wire.metadata, wire.status
    labels = meta.labels or {}
    # API servers add the node's topology labels with the binding; few specs depend on labels.
    if labels != like.labels and any(word in spec for word in _READ_LABELS):
        return None
    if meta.name != like.name and _READ_NAME in spec:
        return None
    initialized = find(status.conditions, names.POD_INITIALIZED)
    done = initialized is not None and initialized.status == "True"
    return structs.replace(
        like,
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=labels,
        annotations=meta.annotations or {},
        created=meta.created,
        deleted=epoch(meta.deletion_timestamp),
        controller=meta.controller,
        of_daemon_set=any(owner.kind == "DaemonSet" for owner in meta.owner_references or ()),
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
