"""An API server with the owners of pods, and a webhook that makes gangs of them."""

from __future__ import annotations

import json
from typing import Any, cast

from scheduler_core.decoding import shallow
from scheduler_core.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, ServerError
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.groups.pod_group import PodGroup, parse_pod_group
from scheduler_core.model.kinds import POD_GROUPS, PODS, Resource
from scheduler_core.model.writes import Create, Delete, Patch
from tests.unit.webhook.http.reviews import Obj, apply_patch, ask, namespace, patch_of, pod, synced
from webhook.owner_gangs.automatic_groups import AutomaticGroups
from webhook.owner_gangs.finder import GangFinder
from webhook.owner_gangs.groups import GangGroups
from webhook.owner_gangs.made_groups import MadeGroups
from webhook.owner_gangs.stored_gangs import StoredGangs
from webhook.owner_gangs.stored_pods import StoredPods, stored_pod_parser
from webhook.owner_gangs.table import built_in
from webhook.owner_gangs.upkeep import GangUpkeep
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.view.owners import OwnerCache

KEY = "scheduling.k8s.io/group-name"
KOORDINATOR = {
    "gang.scheduling.koordinator.sh/name": "k",
    "gang.scheduling.koordinator.sh/min-available": "3",
}


class Store:
    """An API server: objects by kind and name, the writes, and errors for requests to come.

    `unserved` are versions that it does not serve, `preferred` is the one that it serves instead;
    `hidden` are kinds that may not be read, and `failing` is the call that fails.
    """

    def __init__(self, *objects: Obj) -> None:
        self.objects = {(one["kind"], one["metadata"]["name"]): one for one in objects}
        self.calls: list[str] = []
        self.error: ApiError | None = None
        self.unserved: set[str] = set()
        self.preferred = ""
        self.hidden: set[str] = set()
        self.failing = ""

    def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        self._call(f"get {resource.kind} {name}")
        found = self.objects.get((resource.kind, name))
        if resource.version in self.unserved:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if found is None:
            raise NotFound(404, "NotFound", name, {"name": name})
        if resource.kind in self.hidden:
            raise Forbidden(403, "Forbidden", f"{resource.kind} {name}")
        return json.dumps(found).encode()

    def call(self, method: str, path: str) -> bytes:
        """Discovery of an API group."""
        self._call(f"{method} {path}")
        return json.dumps({"preferredVersion": {"version": self.preferred}}).encode()

    def create(self, write: Create) -> bytes:
        body = cast(Obj, json.loads(json.dumps(write.body)))
        name = body["metadata"]["name"]
        self._call(f"create {name} {body['spec']['minMembers']}")
        if ("PodGroup", name) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", name)
        body["metadata"] |= {"uid": f"uid-{len(self.calls)}", "resourceVersion": "1"}
        self.objects["PodGroup", name] = body
        return b""

    def patch(self, write: Patch) -> bytes:
        assert isinstance(write.body, dict)
        stored = self.objects["PodGroup", write.name]
        spec, meta = write.body.get("spec", {}), write.body.get("metadata", {})
        self._call(f"patch {write.name} {spec.get('minMembers', sorted(meta))}")
        assert write.uid == stored["metadata"]["uid"]
        if write.resource_version != stored["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", write.name)
        stored["spec"] |= spec
        stored["metadata"] |= meta
        return b""

    def delete(self, write: Delete) -> bytes:
        self._call(f"delete {write.name}")
        stored = self.objects["PodGroup", write.name]["metadata"]
        assert write.uid == stored["uid"]
        if write.resource_version not in ("", stored["resourceVersion"]):
            raise Conflict(409, "Conflict", write.name)
        del self.objects["PodGroup", write.name]
        return b""

    def watched(self) -> dict[str, bytes]:
        """The automatic groups that a watch shows which is not behind, by namespace and name."""
        return {_key(one): json.dumps(one).encode() for one in self._automatic()}

    def _automatic(self) -> list[Obj]:
        return [
            one
            for (kind, _), one in self.objects.items()
            if kind == "PodGroup" and one["metadata"].get("labels") == {"muster.dev/gang": "auto"}
        ]

    def has_group(self, namespace: str, name: str) -> bool:
        """What a watch shows that is not behind."""
        return ("PodGroup", name) in self.objects

    def group(self, namespace: str, name: str) -> PodGroup | None:
        found = self.objects.get(("PodGroup", name))
        return parse_pod_group(found) if found is not None else None

    def automatic_groups(self, namespace: str) -> int:
        return len(self._automatic())

    def _call(self, text: str) -> None:
        self.calls.append(text)
        if text == self.failing:
            raise ServerError(500, "InternalError", text)
        if self.error is not None:
            raise self.error


def reference(kind: str, name: str, api: str = "batch/v1") -> Obj:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def owner(kind: str, name: str, spec: Obj, above: Obj | None = None) -> Obj:
    meta: Obj = {"name": name, "namespace": "a", "uid": f"uid-{name}"}
    if above:
        meta["ownerReferences"] = [above]
    return {"kind": kind, "metadata": meta, "spec": spec}


def indexed(size: int) -> Obj:
    return {"completionMode": "Indexed", "parallelism": size, "completions": size}


def of(reference: Obj, labels: Obj | None = None, **more: Any) -> Obj:
    meta: Obj = {"ownerReferences": [reference], "labels": labels or {}}
    return pod(meta={**meta, **more.pop("meta", {})}, **more)


def service(
    store: Store,
    label: str = "auto",
    *known: Obj,
    clock: Any = None,
    gangs: GangGroups | None = None,
    owners: OwnerCache | None = None,
) -> ReviewDispatcher:
    finder = GangFinder(cast(Any, store), built_in(), lambda reference: None, clock or (lambda: 0.0))
    cache = synced(namespace("a", labels={"muster.dev/gang": label}), *known)
    gangs = gangs or groups(store, finder, clock=clock)
    return ReviewDispatcher(cache, gangs=gangs, owners=owners)


def groups(store: Store, finder: GangFinder, *, clock: Any = None) -> GangGroups:
    """What reviews make of the gangs that `finder` finds: on this server, or on another one than it reads."""
    clock = clock or (lambda: 0.0)
    return GangGroups(MadeGroups(cast(Any, store), finder, store, clock), finder, clock)


class Stored:
    """The webhook's view of the stored pods of namespace `a`, and the part that makes their groups."""

    def __init__(self, store: Store, *, clock: Any = None, asks: bool = True) -> None:
        clock = clock or (lambda: 0.0)
        self.pods, self._store = StoredPods(), store
        finder = GangFinder(cast(Any, store), built_in(), lambda reference: None, clock)
        self._parse = stored_pod_parser(finder)
        made = MadeGroups(cast(Any, store), finder, store, clock)
        self.gangs = StoredGangs(cast(Any, store), finder, made, self.pods, lambda namespace: asks, clock)

    def put(self, new: Obj, at: int = 0, name: str = "p") -> None:
        """Store a pod as it is after admission, and have its group."""
        created = f"2026-01-01T00:00:{at:02}Z"
        meta = {**new["metadata"], "name": name, "uid": f"uid-{name}", "creationTimestamp": created}
        stored = {**new, "metadata": meta}
        self._store.objects["Pod", name] = stored
        self.pods.sink(Event("ADDED", PODS, f"a/{name}", "", self._parse(json.dumps(stored).encode())))
        self.gangs.turn()

    def remove(self, name: str) -> None:
        del self._store.objects["Pod", name]
        self.pods.sink(Event("DELETED", PODS, f"a/{name}"))
        self.gangs.turn()


def stored(hook: ReviewDispatcher, view: Stored, new: Obj, at: int = 0, name: str = "p") -> str:
    """The group of a pod that is admitted and stored."""
    response = ask(hook.mutate, new)
    assert response["allowed"], response
    after = apply_patch(new, patch_of(response))
    view.put(after, at, name)
    return str((after["metadata"].get("annotations") or {}).get(KEY, ""))


def joined(hook: ReviewDispatcher, new: Obj, **request: Any) -> str:
    """The group that the pod has after admission."""
    response = ask(hook.mutate, new, **request)
    assert response["allowed"], response
    return str((apply_patch(new, patch_of(response))["metadata"].get("annotations") or {}).get(KEY, ""))


def made(store: Store) -> dict[str, int]:
    return {name: o["spec"]["minMembers"] for (kind, name), o in store.objects.items() if kind == "PodGroup"}


def refusal(hook: ReviewDispatcher, new: Obj) -> tuple[int, str]:
    response = ask(hook.mutate, new)
    assert not response["allowed"]
    return response["status"]["code"], response["status"]["message"]


def _key(group: Obj) -> str:
    return f"{group['metadata'].get('namespace', 'a')}/{group['metadata']['name']}"


class Upkeep:
    """The rounds of a webhook whose watch is behind only where a test says so."""

    def __init__(self, store: Store, asks: bool, clock: Any, take_changed: Any) -> None:
        self._store, self._groups = store, AutomaticGroups()
        self._shown: dict[str, bytes] = {}
        finder = GangFinder(cast(Any, store), built_in(), lambda reference: None)
        self._rounds = GangUpkeep(
            cast(Any, store), finder, self._groups, lambda _: asks, take_changed, clock or (lambda: 0.0)
        )

    def show(self) -> None:
        """The watch shows what changed since."""
        now = self._store.watched()
        for key in self._shown.keys() - now.keys():
            self._groups.sink(Event("DELETED", POD_GROUPS, key))
        for key, raw in now.items():
            if self._shown.get(key) != raw:
                self._groups.sink(Event("MODIFIED", POD_GROUPS, key, "", parse_pod_group(shallow(raw))))
        self._shown = now

    def round(self, *, behind: bool = False) -> None:
        if not behind:
            self.show()
        self._rounds.round()


def upkeep(store: Store, *, asks: bool = True, clock: Any = None, take_changed: Any = set) -> Upkeep:
    return Upkeep(store, asks, clock, take_changed)


JOB = owner("Job", "j", indexed(4))
