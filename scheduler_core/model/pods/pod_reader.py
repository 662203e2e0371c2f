"""Reader of pods that parses each spec once.

Bindings and status updates leave all of the spec but `nodeName` unchanged, and pods of one template share a
spec. For such pods only metadata and status are read, and everything derived from the spec is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from scheduler_core.decoding import decoder
from scheduler_core.errors import TooLarge
from scheduler_core.model import names
from scheduler_core.model.kept_values import MANY_VALUES, MOST_FOREIGN_TERMS, MOST_POD_VALUES, KeptValues
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import ApiObject
from scheduler_core.model.pods.limits import FEW_ENTRIES, MOST_LABELS, foreign_terms, kept_annotations
from scheduler_core.model.pods.pod import Pod, PodStatusWire, parse_pod, preemptors, without_terms
from scheduler_core.model.pods.requests import CurrentRule, ResizeRule
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
_TOKEN: Final = b'"name":"kube-api-access-'
_NODE: Final = b'"nodeName":"'
_NODE_KEY: Final = b'"nodeName"'

_light: Final = decoder(RawSpecPod)
_node: Final = decoder(_NodeWire)
# Of all templates together, in values: as much as a thousand of ordinary size.
_MOST_WEIGHT: Final = 100_000
_encoder: Final = msgspec.json.Encoder()
_T = TypeVar("_T")


class _Template(msgspec.Struct, frozen=True):
    """A parsed spec, and which other fields of a pod affect what is derived from the spec."""

    mark: int
    pod: Pod
    reads_labels: bool
    reads_name: bool


class PodReader:
    """Builds pods, for one thread.

    Stores the pod and the hash of its spec per uid until `forget`, and one pod for each of the newest
    `templates` specs, fewer where they are large. Pods of a namespace that together name more values, or have
    more terms about pods of other namespaces, than are read (`KeptValues`) are like pods with too many terms.
    `tell` gets each pod that is read in part, once. `rule` is that of the server's version, and may change.
    """

    def __init__(
        self,
        templates: int = 1000,
        tell: Callable[[Pod], None] = lambda pod: None,
        rule: CurrentRule = ResizeRule.newest,
    ) -> None:
        self._rule = rule
        self._known: dict[str, _Template] = {}
        self._templates: dict[int, _Template] = {}
        self._most_templates = templates
        self._weight = 0
        self._values = KeptValues(MOST_POD_VALUES)
        self._foreign = KeptValues(MOST_FOREIGN_TERMS, 0, "terms about pods of other namespaces")
        self._tell = tell
        self.reused = 0

    def __len__(self) -> int:
        return len(self._known)

    def parse(self, raw: bytes | msgspec.Raw) -> Pod:
        """One pod by the rule, and nothing remembered. Raises ModelError."""
        return parse_pod(raw, self._rule())

    def read(self, raw: bytes | msgspec.Raw) -> Pod:
        """The same as `parse_pod`. Raises ModelError."""
        try:
            wire = _light.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.parse(raw)  # finds the same fault, and names it
        return self.make(wire, lambda: raw)

    def make(self, wire: RawSpecPod, raw: Callable[[], bytes | msgspec.Raw]) -> Pod:
        """The pod of a decoded object, of which `raw` gives the JSON. Raises ModelError."""
        uid = wire.metadata.uid
        if not uid:
            return self.parse(raw())
        spec, node = _without_node(bytes(wire.spec))
        mark, rule = hash(_without_token(spec)), self._rule()
        if wire.status.changes_requests:
            mark = hash((mark, _held(wire.status), rule))
        labels, annotations = wire.metadata.labels or {}, wire.metadata.annotations or {}
        if len(labels) > MOST_LABELS:
            mark = hash((mark, uid))
        elif len(labels) > FEW_ENTRIES or len(annotations) > FEW_ENTRIES:
            mark = hash((mark, frozenset(labels.items()), frozenset(annotations.items())))
        like = known = self._known.get(uid)
        if like is None or like.mark != mark:
            like = self._templates.get(mark)
        pod = _renewed(like, wire, node) if like is not None else None
        if pod is None or like is None:
            pod = self._within_namespace(parse_pod(raw(), rule), mark)
            like = self._remember(mark, pod, spec)
        else:
            if pod.values > MANY_VALUES or _foreign(pod):
                pod = self._within_namespace(pod, mark)
            self.reused += 1
        self._known[uid] = _Template(mark, pod, like.reads_labels, like.reads_name)
        if pod.left_out and (known is None or known.mark != mark):
            self._tell(pod)
        return pod

    def _within_namespace(self, pod: Pod, mark: int) -> Pod:
        """The pod, without terms where its namespace has no room for them. Raises TooLarge if it waits."""
        try:
            self._values.take(pod.uid, pod.namespace, mark, pod.values)
            self._foreign.take(pod.uid, pod.namespace, mark, _foreign(pod))
        except TooLarge as error:
            self._values.forget(pod.uid)
            if not pod.assigned:
                raise error.within(PODS.kind, pod.namespace, pod.name, pod.uid) from None
            return without_terms(pod, f"Pod {pod.key}: {error}")
        return pod

    def _remember(self, mark: int, pod: Pod, spec: bytes) -> _Template:
        reads_labels = any(word in spec for word in _READ_LABELS)
        made = _Template(mark, pod, reads_labels, _READ_NAME in spec)
        if pod.left_out:
            # Others with this spec may wait, and then it is an error.
            return made
        old = self._templates.pop(mark, None)
        self._weight += _weight(pod) - (_weight(old.pod) if old is not None else 0)
        self._templates[mark] = made
        while len(self._templates) > self._most_templates or self._weight > _MOST_WEIGHT:
            self._weight -= _weight(self._templates.pop(next(iter(self._templates))).pod)
        return made

    def forget(self, uid: str) -> None:
        """Forget a deleted pod."""
        self._known.pop(uid, None)
        self._values.forget(uid)
        self._foreign.forget(uid)


def _foreign(pod: Pod) -> int:
    return foreign_terms(pod.namespace, pod.pod_affinity, pod.pod_anti_affinity)


def _weight(pod: Pod) -> int:
    """What a template keeps, in values; each has many fields of its own."""
    return 64 + pod.values + sum(map(len, pod.annotations.values())) // 64


def _without_node(spec: bytes) -> tuple[bytes, str]:
    """The spec's bytes without `nodeName`, in the form that servers write it, and the node's name."""
    start = spec.find(_NODE)
    if start < 0:
        # Other programs put a space after the colon.
        return spec, _node.decode(spec).node_name if _NODE_KEY in spec else ""
    # Labels may have the same key, so the name is decoded, not cut out.
    node = _node.decode(spec).node_name
    end = start + len(_NODE) + len(node)
    if spec[start + len(_NODE) : end + 2] != f'{node}",'.encode():
        return spec, node
    return spec[:start] + spec[end + 2 :], node


def _without_token(spec: bytes) -> bytes:
    """The spec's bytes without the name of the token's volume.

    A generic ephemeral volume of such a name stays: its claim has that name too.
    """
    start = spec.find(_TOKEN)
    if start < 0 or _READ_NAME in spec:
        return spec
    end = start + len(_TOKEN)
    suffix = spec[end : end + 8]
    return spec.replace(_TOKEN + suffix, b"") if suffix[5:] == b'","' and suffix[:5].isalnum() else spec


def _held(status: PodStatusWire) -> bytes:
    """All of a status that has a say in the requests (see `effective_requests`)."""
    reporting = [status.container_statuses, status.init_container_statuses]
    return _encoder.encode([reporting, status.allocated_resources, status.resources, status.infeasible])


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
    annotations = _shared(kept_annotations(meta.annotations or {}), like.annotations)
    if len(labels) > FEW_ENTRIES and labels is not like.labels:
        return None
    # One loop each, not a question per field: a cluster has tens of thousands of pods.
    conditions, leaves = status.conditions, meta.deletion_timestamp
    controller, of_daemon_set = None, False
    for owner in meta.owner_references or ():
        if owner.controller and controller is None:
            controller = owner
        of_daemon_set = of_daemon_set or owner.kind == "DaemonSet"
    scheduled = initialized = None
    for item in conditions or ():
        if item.type == names.POD_SCHEDULED:
            scheduled = scheduled or item
        elif item.type == names.POD_INITIALIZED:
            initialized = initialized or item
    if controller is not None and not controller.readable:
        controller = None
    done = initialized is not None and initialized.status == "True"
    return structs.replace(
        like,
        namespace=_shared(meta.namespace or "default", like.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=labels,
        annotations=annotations,
        created=epoch(meta.creation_timestamp) or 0.0,
        deleted=epoch(leaves),
        preemptors=preemptors(conditions) if leaves is not None else (),
        ending_grace=meta.deletion_grace_period_seconds,
        controller=controller,
        of_daemon_set=of_daemon_set,
        node_name=node,
        nominated_node=status.nominated_node_name,
        phase=status.phase,
        reason=status.reason,
        start_time=epoch(status.start_time),
        scheduled_condition=scheduled,
        initialized_time=epoch(initialized.last_transition_time)
        if initialized is not None and done
        else None,
    )


def _shared(value: _T, known: _T) -> _T:
    """The known object where both are equal, else the value."""
    return known if value == known else value
