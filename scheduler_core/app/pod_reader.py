"""Pods from the API, most of whose specs are known already.

A binding and a status update leave all but `nodeName` of the spec as it was, and pods of one template have
one spec. Such news costs a look at metadata and status instead of working out requests, affinity and the rest
again, and such pods share what follows from the spec.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from scheduler_core.decoding import decoder
from scheduler_core.kube.reading import Sight
from scheduler_core.kube.tracker import Event
from scheduler_core.model import names
from scheduler_core.model.conditions import find
from scheduler_core.model.meta import Wire, epoch
from scheduler_core.model.pod import Pod, PodStatusWire, parse_pod, preempted_for


class PodNews(Wire, frozen=True, rename="camel"):
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

_node: Final = decoder(_NodeWire)
_T = TypeVar("_T")


class _Template(msgspec.Struct, frozen=True):
    """A spec, and what of a pod beyond it has a say in what follows from it."""

    mark: int
    pod: Pod
    reads_labels: bool
    reads_name: bool


class PodReader:
    """Makes pods for a reflector, whose events pass through `forget_deleted`; on the reflector's thread.

    Keeps the pod and the hash of its spec per uid, as long as the pod exists, and one pod for each of the
    newest `templates` specs.
    """

    def __init__(self, templates: int = 1000) -> None:
        self._known: dict[str, _Template] = {}
        self._templates: dict[int, _Template] = {}
        self._most_templates = templates
        self.reused = 0

    def __len__(self) -> int:
        return len(self._known)

    def make(self, sight: Sight) -> Pod:
        """The same as `parse_pod`. Raises ModelError."""
        wire: PodNews | None = sight.wire
        if wire is None:
            return parse_pod(sight.raw())
        uid = wire.metadata.uid
        if not uid or wire.status.changes_requests:
            self._known.pop(uid, None)
            return parse_pod(sight.raw())
        spec, node = _without_node(bytes(wire.spec))
        mark = hash(_TOKEN_VOLUME.sub(b"", spec) if _TOKEN in spec else spec)
        like = self._known.get(uid)
        if like is None or like.mark != mark:
            like = self._templates.get(mark)
        pod = _renewed(like, wire, node) if like is not None else None
        if pod is None or like is None:
            pod = parse_pod(sight.raw())
            like = self._remember(mark, pod, spec)
        else:
            self.reused += 1
        self._known[uid] = _Template(mark, pod, like.reads_labels, like.reads_name)
        return pod

    def _remember(self, mark: int, pod: Pod, spec: bytes) -> _Template:
        reads_labels = any(word in spec for word in _READ_LABELS)
        made = self._templates[mark] = _Template(mark, pod, reads_labels, _READ_NAME in spec)
        if len(self._templates) > self._most_templates:
            del self._templates[next(iter(self._templates))]
        return made

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


def _renewed(known: _Template, wire: PodNews, node: str) -> Pod | None:
    """A pod with what metadata and status say; None where they change what follows from the spec."""
    like, meta, status = known.pod, wire.metadata, wire.status
    # What equals the template's is kept once: of thousands of waiting pods it would be most of the memory.
    labels = _shared(meta.labels or {}, like.labels)
    # API servers add the node's topology labels with the binding; few specs depend on labels.
    if known.reads_labels and labels is not like.labels:
        return None
    if known.reads_name and meta.name != like.name:
        return None
    owners, conditions = meta.owner_references, status.conditions
    initialized = find(conditions, names.POD_INITIALIZED) if conditions else None
    done = initialized is not None and initialized.status == "True"
    return structs.replace(
        like,
        namespace=_shared(meta.namespace or "default", like.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=labels,
        annotations=_shared(meta.annotations or {}, like.annotations),
        created=meta.created,
        deleted=epoch(meta.deletion_timestamp),
        preempted_for=preempted_for(conditions) if meta.deletion_timestamp is not None else "",
        controller=meta.controller if owners else None,
        of_daemon_set=any(owner.kind == "DaemonSet" for owner in owners) if owners else False,
        node_name=node,
        nominated_node=status.nominated_node_name,
        phase=status.phase,
        reason=status.reason,
        start_time=epoch(status.start_time),
        scheduled_condition=find(conditions, names.POD_SCHEDULED) if conditions else None,
        initialized_time=epoch(initialized.last_transition_time)
        if initialized is not None and done
        else None,
    )


def _shared(value: _T, known: _T) -> _T:
    """The value, as the object that is there already where both are equal."""
    return known if value == known else value
