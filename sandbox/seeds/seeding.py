"""Creates the objects of a seed in an empty cluster, with their uids, times and status."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from sandbox.admission.priority import PriorityResolution
from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.kinds.builtin import NAMESPACES, NODES
from sandbox.nodes.initial_nodes import node
from sandbox.nodes.pod_status import FINISHED
from sandbox.objects import Obj, at, copy_json
from sandbox.seeds.seed import Seed
from sandbox.store.object_store import ObjectStore
from sandbox.store.registry import Registry
from sandbox.store.requests import AdmissionRequest, OpenAdmission
from scheduler_core.errors import ConfigError

# They describe the life of another cluster, or would call its webhooks.
LEFT_OUT: Final = frozenset(
    {
        *("APIService", "Endpoints", "EndpointSlice", "Event", "Lease"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    }
)
_FIRST: Final = (
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "RuntimeClass",
    "Node",
    "ConfigMap",
)
_KEPT_META: Final = ("uid", "creationTimestamp")


@dataclass(frozen=True)
class Seeded:
    """Number of created objects; `left_out` counts the others by kind, and those whose deletion had begun."""

    created: int
    left_out: Counter[str]

    def __str__(self) -> str:
        text = f"{self.created} object{'' if self.created == 1 else 's'}"
        if self.left_out:
            counts = (f"{count} {what}" for what, count in sorted(self.left_out.items()))
            text += f"; left out: {', '.join(counts)}"
        return text


class _SeedAdmission(OpenAdmission):
    """Resolves the priority of pods that have none; what ran elsewhere is not judged again."""

    def __init__(self, store: ObjectStore) -> None:
        self._priority = PriorityResolution(store)

    async def mutate(self, req: AdmissionRequest) -> tuple[Obj | None, list[str]]:
        if req.kind.storage == "pods" and at(req.obj, "spec", "priority") is None:
            self._priority.mutate(req)
        return req.obj, []


class Seeder:
    """Fills one store. No controller may run meanwhile: it would act on a part of the objects."""

    def __init__(self, store: ObjectStore, kinds: KindTable, seed: Seed) -> None:
        self._store = store
        self._kinds = kinds
        self._seed = seed
        self._registry = Registry(store, kinds, _SeedAdmission(store))
        self._uids = {at(obj, "metadata", "uid") for _, obj in seed.objects} - {None}
        self._nodes = 0

    async def run(self) -> Seeded:
        """Create all objects. Raises ConfigError with file, place, object and rule."""
        left_out: Counter[str] = Counter()
        chosen = []
        for place, obj in self._seed.objects:
            if obj["kind"] in LEFT_OUT:
                left_out[obj["kind"]] += 1
            elif at(obj, "metadata", "deletionTimestamp"):
                left_out["objects being deleted"] += 1
            else:
                chosen.append((place, obj))
        for place, obj in sorted(chosen, key=lambda item: _rank(item[1])):
            await self._create(place, obj)
        return Seeded(len(chosen), left_out)

    async def _create(self, place: str, given: Obj) -> None:
        kind = self._kinds.of(given)
        if kind is None:
            what = f"{given['apiVersion']} {given['kind']}"
            raise self._error(place, given, "is not served by the sandbox", what)
        obj = self._prepared(kind, given)
        namespace = obj["metadata"].get("namespace") or "default" if kind.namespaced else ""
        name = str(obj["metadata"].get("name") or "")
        try:
            await self._ensure_namespace(namespace)
            if kind is NAMESPACES and self._store.get(kind, "", name) is not None:
                return
            status = obj.get("status")
            made = await self._registry.create(kind, obj, namespace=namespace)
            if kind.storage == "pods":
                status = self._pod_status(place, given, made)
            if status and kind.has_status and kind is not NODES:
                made = await self._registry.modify(
                    kind, namespace, name, lambda seen: {**seen, "status": status}, subresource="status"
                )
        except StatusError as error:
            raise self._error(place, given, str(error)) from None
        meta = {key: given["metadata"][key] for key in _KEPT_META if given["metadata"].get(key)}
        if meta:
            stored = self._store.current(kind, namespace, name).obj
            self._store.update(kind, {**stored, "metadata": {**stored["metadata"], **meta}})

    def _prepared(self, kind: ApiKind, given: Obj) -> Obj:
        obj: Obj = copy_json(given)
        meta = obj["metadata"] = obj.get("metadata") or {}
        for field in ("labels", "annotations"):
            if isinstance(meta.get(field), dict):
                meta[field] = {key: "" if text is None else text for key, text in meta[field].items()}
        meta.pop("managedFields", None)
        meta.pop("finalizers", None)
        # The garbage collector would delete the dependents of owners that the file lacks.
        owners = [ref for ref in meta.pop("ownerReferences", None) or () if ref.get("uid") in self._uids]
        if owners:
            meta["ownerReferences"] = owners
        if kind is NODES:
            obj = _complete_node(obj, self._nodes)
            self._nodes += 1
        return obj

    def _pod_status(self, place: str, given: Obj, made: Obj) -> Obj | None:
        """Status to write: that of a finished pod, or the start time of a pod that the kubelet will start."""
        status = given.get("status") or {}
        if status.get("phase") in FINISHED:
            return {**made["status"], **status}
        name = made["spec"].get("nodeName")
        if not name:
            return None
        if self._store.get(NODES, "", name) is None:
            raise self._error(place, given, f"spec.nodeName: there is no node {name!r}")
        start = status.get("startTime")
        return {**made["status"], "startTime": start} if start else None

    async def _ensure_namespace(self, namespace: str) -> None:
        if namespace and self._store.get(NAMESPACES, "", namespace) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await self._registry.create(NAMESPACES, body)

    def _error(self, place: str, obj: Obj, problem: str, what: str = "") -> ConfigError:
        meta: Any = obj.get("metadata") or {}
        name = "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))
        where = " ".join(filter(None, (place, what or obj["kind"], name)))
        return ConfigError(where, problem, file=self._seed.file)


def _rank(obj: Obj) -> int:
    """Pods are last: their admission and the kubelet read all other objects."""
    if obj["kind"] == "Pod":
        return len(_FIRST) + 1
    return _FIRST.index(obj["kind"]) if obj["kind"] in _FIRST else len(_FIRST)


def _complete_node(obj: Obj, number: int) -> Obj:
    """The node with what a kubelet reports, where the file does not say it: ready, addresses, allocatable."""
    meta, status = obj["metadata"], obj.get("status") or {}
    capacity = status.get("capacity") or status.get("allocatable") or {}
    whole = node(str(meta.get("name") or ""), capacity, {}, number)
    labels = {**whole["metadata"]["labels"], **(meta.get("labels") or {})}
    return {**whole, **obj, "metadata": {**meta, "labels": labels}, "status": {**whole["status"], **status}}
