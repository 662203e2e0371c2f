"""Reader of pods that parses each spec once.

Bindings and status updates leave all of the spec but `nodeName` unchanged, and pods of one template share a
spec. For such pods only metadata and status are read, and everything derived from the spec is shared.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from scheduler_core.decoding import decoder
from scheduler_core.kube.watch.reading import ReadObject
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model import names
from scheduler_core.model.conditions import find
from scheduler_core.model.meta import ApiObject
from scheduler_core.model.pods.pod import Pod, PodStatusWire, parse_pod, preempted_for
from scheduler_core.model.timestamps import epoch


class RawSpecPod(ApiObject, frozen=True, rename="camel"):
    """A pod with a raw spec."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatusWire = PodStatusWire()


class _NodeWire(msgspec.Struct, rename="camel"):
    node_name: str = ""


# Fields of a spec that are interpreted together with the pod's labels.
_READ_LABELS: Final = (b"abelKeys", b"opologySpread", b"odAffinity", b"odAntiAffinity")
# Generic ephemeral volumes have claims named after their pod.
_READ_NAME: Final = b'"ephemeral"'
# The volume of the service account's token. Its name differs from pod to pod and has no meaning.
_TOKEN: Final = b'"kube-api-access-'
_TOKEN_VOLUME: Final = re.compile(rb'(?<="name":"kube-api-access-)[a-z0-9]{5}(?=",")')

_node: Final = decoder(_NodeWire)
_T = TypeVar("_T")


class _Template(msgspec.Struct, frozen=True):
    """A parsed spec, and which other fields of a pod affect what is derived from the spec."""

    mark: int
    pod: Pod
    reads_labels: bool
    reads_name: bool


class PodReader:
    """Builds pods for a reflector, on the reflector's thread; its events pass through `forget_deleted`.

    Stores the pod and the hash of its spec per uid, as long as the pod exists, and one pod for each of the
    newest `templates` specs.
    """

    def __init__(self, templates: int = 1000) -> None:
        self._known: dict[str, _Template] = {}
        self._templates: dict[int, _Template] = {}
        self._most_templates = templates
        self.reused = 0

    def __len__(self) -> int:
        return len(self._known)

    def make(self, read_object: ReadObject) -> Pod:
        """The same as `parse_pod`. Raises ModelError."""
        wire: RawSpecPod | None = read_object.wire
        if wire is None:
            return parse_pod(read_object.raw())
        uid = wire.metadata.uid
        if not uid or wire.status.changes_requests:
            self._known.pop(uid, None)
            return parse_pod(read_object.raw())
        spec, node = _without_node(bytes(wire.spec))
        mark = hash(_TOKEN_VOLUME.sub(b"", spec) if _TOKEN in spec else spec)
        like = self._known.get(uid)
        if like is None or like.mark != mark:
            like = self._templates.get(mark)
        pod = _renewed(like, wire, node) if like is not None else None
        if pod is None or like is None:
            pod = parse_pod(read_object.raw())
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
        """Forget a deleted pod."""
        if event.type == "DELETED":
            self._known.pop(event.uid, None)


def _without_node(spec: bytes) -> tuple[bytes, str]:
    """The spec's bytes without `nodeName`, in the form that servers write it, and the node's name."""
    if b'"nodeName":"' not in spec:
        return spec, ""
    node = _node.decode(spec).node_name
    return spec.replace(f'"nodeName":"{node}",'.encode(), b"", 1), node


def _renewed(known: _Template, wire: RawSpecPod, node: str) -> Pod | None:
    """The pod with new metadata and status; None where they affect what is derived from the spec."""
    like, meta, status = known.pod, wire.metadata, wire.status
    # Values equal to the template's are shared; with thousands of waiting pods they would take most of the
    # memory.
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
    """The known object where both are equal, else the value."""
    return known if value == known else value
