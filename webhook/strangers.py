"""Pods of the cluster's own scheduler that have not ended, from one watch with a field selector.

The API server sends no others: what goes to Muster costs nothing here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler_core.kube.tracker import Event
from scheduler_core.model.adoption import Way, way_back
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import OwnerReference, Wire, decode
from scheduler_core.model.names import (
    CHARGED_ANNOTATION,
    DEFAULT_SCHEDULER,
    GROUP_NAME_ANNOTATION,
    MIRROR_ANNOTATION,
    SAKKARA_GROUP_NAME_LABEL,
    X_POD_GROUP_LABEL,
)
from webhook.membership import NewPod, PodMeta, PodSpec

SELECTOR: Final = f"spec.schedulerName={DEFAULT_SCHEDULER},status.phase!=Succeeded,status.phase!=Failed"


class _PodWire(Wire, frozen=True, rename="camel"):
    spec: PodSpec = PodSpec()


class Stranger(msgspec.Struct, frozen=True):
    """A pod of the default scheduler, with what says which group it belongs to (`pod`).

    `settled` pods are no concern of the audit: on their way out, a node agent's own, or judged by the webhook
    as what they are. `created` is in seconds since the epoch; `way` is how it could be made anew, `named` the
    group of its own annotation, empty without.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: float
    settled: bool
    way: Way
    named: str
    pod: NewPod

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def node(self) -> str:
        """Its node, empty while it waits."""
        return (self.pod.spec.node_name or "") if self.pod.spec is not None else ""

    @property
    def controller(self) -> OwnerReference | None:
        """Who would make another one in its place."""
        return self.pod.metadata.controller


def read_stranger(raw: msgspec.Raw) -> Stranger:
    """A pod, as far as the audit reads it. Raises ModelError."""
    wire = decode(raw, _PodWire, PODS.kind)
    meta = wire.metadata
    annotations, labels = meta.annotations or {}, meta.labels or {}
    named = annotations.get(GROUP_NAME_ANNOTATION, "")
    kept = PodMeta(
        meta.name,
        {GROUP_NAME_ANNOTATION: named},
        {key: labels[key] for key in (X_POD_GROUP_LABEL, SAKKARA_GROUP_NAME_LABEL) if key in labels},
        owner_references=meta.owner_references,
    )
    settled = meta.deletion_timestamp is not None or not annotations.keys().isdisjoint(
        (MIRROR_ANNOTATION, CHARGED_ANNOTATION)
    )
    return Stranger(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        meta.created,
        settled,
        way_back(meta.controller, labels, annotations),
        named,
        NewPod(kept, wire.spec),
    )


class Strangers:
    """The strangers of all namespaces. Written by a reflector's thread, read by the auditor's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, dict[str, Stranger]] = {}

    def sink(self, event: Event) -> None:
        """Take one change; only pods that concern the audit are kept."""
        namespace, _, name = event.key.partition("/")
        if not namespace:
            return
        with self._lock:
            pods = self._pods.setdefault(namespace, {})
            if event.obj is None or event.obj.settled:
                pods.pop(name, None)
            else:
                pods[name] = event.obj
            if not pods:
                del self._pods[namespace]

    def by_namespace(self) -> Iterator[tuple[str, tuple[Stranger, ...]]]:
        """Every namespace that has strangers, with them."""
        with self._lock:
            found = [(namespace, tuple(pods.values())) for namespace, pods in self._pods.items()]
        return iter(found)
