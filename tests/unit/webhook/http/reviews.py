"""Builders of reviews and of the cluster that they are judged in."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonpatch
import msgspec

from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import Resource
from tests.support.builders import copied
from webhook.http.admission_review import ReviewRequest, ReviewResponse, review
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.policy.verdict import Verdict
from webhook.view.cache import WATCHED, Cache

Obj = dict[str, Any]
_KINDS: Mapping[str, tuple[Resource, Callable[[Any], Any]]] = {
    resource.kind: (resource, parse) for resource, parse in WATCHED
}
_versions = itertools.count(100)


def quota(name: str = "eq", namespace: str = "a", version: str = "", **spec: Any) -> Obj:
    """An ElasticQuota; `meta` and `used` are taken out of `spec`."""
    meta, used = spec.pop("meta", {}), spec.pop("used", {})
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", **meta}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {**metadata, "resourceVersion": version} if version else metadata,
        "spec": spec,
        "status": {"used": used},
    }


def native(name: str = "rq", namespace: str = "a", version: str = "", **extra: Any) -> Obj:
    """A ResourceQuota with `hard` and perhaps `scopes`."""
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", **extra.pop("meta", {})}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {**meta, "resourceVersion": version} if version else meta,
        "spec": extra,
    }


def node(name: str = "n1", *, unschedulable: bool = False, **allocatable: str) -> Obj:
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": allocatable},
    }


def namespace(name: str = "a", *, terminating: bool = False, labels: dict[str, str] | None = None) -> Obj:
    meta: Obj = {"name": name, "labels": labels}
    if terminating:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"kind": "Namespace", "metadata": meta}


def pod(**spec: Any) -> Obj:
    meta: Obj = {"name": "p", "namespace": "a", **spec.pop("meta", {})}
    containers = [{"name": "main", "image": "example.com/app:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def tell(cache: Cache, obj: Obj, *, deleted: bool = False) -> None:
    """What the watch would say about an object; one without resourceVersion gets the next."""
    resource, parse = _KINDS[obj["kind"]]
    meta = {"resourceVersion": str(next(_versions)), **obj["metadata"]}
    parsed = None if deleted else parse({**obj, "metadata": meta})
    place = meta.get("namespace")
    key = f"{place}/{meta['name']}" if place else meta["name"]
    cache.sink(Event("DELETED" if deleted else "ADDED", resource, key, "", parsed))


def synced(*objects: Obj, cache: Cache | None = None) -> Cache:
    """A cache that has seen these objects and every list to its end."""
    cache = cache or Cache()
    for obj in objects:
        tell(cache, obj)
    for resource, _ in WATCHED:
        cache.sink(Event("SYNCED", resource))
    return cache


def envelope(obj: Obj | None, old: Obj | None = None, **request: Any) -> Obj:
    """An AdmissionReview; the operation follows from which objects there are."""
    some = obj or old or {}
    group, _, version = some.get("apiVersion", "v1").rpartition("/")
    operation = "CREATE" if old is None else "DELETE" if obj is None else "UPDATE"
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "operation": operation,
            "kind": {"group": group, "version": version, "kind": some.get("kind", "")},
            "resource": {"group": group, "version": version, "resource": "things"},
            "namespace": some.get("metadata", {}).get("namespace", ""),
            "name": some.get("metadata", {}).get("name", ""),
            "object": obj,
            "oldObject": old,
            "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "dryRun": False,
            **request,
        },
    }


def ask(
    decide: Callable[[ReviewRequest], Verdict], obj: Obj | None, old: Obj | None = None, **request: Any
) -> Obj:
    """The response to a review that can be answered."""
    answer = review(json.dumps(envelope(obj, old, **request)).encode(), decide)
    assert answer.status == 200, answer.body
    return response_of(answer)


def response_of(answer: ReviewResponse) -> Obj:
    decoded = msgspec.json.decode(answer.body)
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Obj = decoded["response"]
    return response


def denial(service: ReviewDispatcher, obj: Obj | None, old: Obj | None = None, **request: Any) -> str:
    """The words of a refusal, or an empty text."""
    response = ask(service.validate, obj, old, **request)
    return "" if response["allowed"] else str(response["status"]["message"])


def patch_of(response: Obj) -> list[Obj]:
    """The JSON patch of a response, empty if there is none."""
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    found: list[Obj] = json.loads(base64.b64decode(response["patch"]))
    return found


def apply_patch(obj: Obj, patch: list[Obj]) -> Obj:
    patched: Obj = jsonpatch.JsonPatch(patch).apply(copied(obj), in_place=True)
    return patched
