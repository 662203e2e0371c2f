"""Finds the controllers of pods: Jobs, ReplicaSets, Deployments and StatefulSets by watch, others by request.

Only the group annotation and the controller of each are kept.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    ApiError,
    KubeconfigError,
    ServerError,
    TooManyRequests,
    Unreachable,
    decode_answer,
)
from scheduler_core.kube.paths import api_root
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS, Resource
from scheduler_core.model.meta import LONGEST_KEPT_NAME, ApiObject, ObjectMeta, OwnerReference, decode
from scheduler_core.model.names import GROUP_NAME_ANNOTATION
from webhook.policy.pod_group_membership import Owner

WORKLOADS: Final = (JOBS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS)
# The pods of one workload are created within seconds; a later annotation is seen after this time.
KEEP_SECONDS: Final = 10.0
KEEP_KINDS_SECONDS: Final = 300.0
MANY: Final = 10_000
# An owner that cannot exist is not asked for: the author of a pod writes the reference, which becomes part of
# a path and is kept with its answer. The API server bounds none of these texts.
_API_VERSION: Final = re.compile(r"([a-z0-9][-a-z0-9.]{0,252}/)?v[a-z0-9]{1,62}")
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NAME: Final = re.compile(r"(?!\.\.?$)[^/%]{1,253}")
_MOST_UID: Final = 253
_KINDS: Final = {(resource.api_version, resource.kind): resource for resource in WORKLOADS}


class _Served(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _ServedList(msgspec.Struct):
    resources: list[_Served] | None = None


_served = decoder(_ServedList)


def is_possible(reference: OwnerReference) -> bool:
    """Whether an object can have this apiVersion, kind, name and uid; an empty uid stands for any."""
    return (
        _API_VERSION.fullmatch(reference.api_version) is not None
        and _KIND.fullmatch(reference.kind) is not None
        and _NAME.fullmatch(reference.name) is not None
        and len(reference.uid) <= _MOST_UID
    )


def owner_from(meta: ObjectMeta) -> Owner:
    """The owner with this metadata; texts that users choose are kept only as long as they can matter."""
    group = (meta.annotations or {}).get(GROUP_NAME_ANNOTATION, "")[:LONGEST_KEPT_NAME]
    return Owner(meta.uid, group, possible_controller(meta))


def possible_controller(meta: ObjectMeta) -> OwnerReference | None:
    """The controller, if an object can be it."""
    found = meta.controller
    return found if found is not None and is_possible(found) else None


def parse_owner(raw: Any) -> Owner:
    """Parse the metadata of any object as an owner. Raises ModelError."""
    return owner_from(decode(raw, ApiObject, "owner").metadata)


class OwnerCache:
    """`Owners` by watches and requests. Thread-safe.

    Without a client only watched kinds are found. Owners that a watch does not have are requested, because
    the watch may be behind.
    """

    def __init__(self, client: Client | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._watched: dict[tuple[str, str], Owner] = {}
        self._asked: dict[tuple[str, OwnerReference], tuple[float, Owner | None]] = {}
        self._plurals: dict[str, tuple[float, dict[str, Resource]]] = {}

    def sink(self, event: Event) -> None:
        """Take one change of a watched workload."""
        key = (event.resource.kind, event.key)
        with self._lock:
            if event.obj is not None:
                self._watched[key] = event.obj
            else:
                self._watched.pop(key, None)

    def find(self, namespace: str, reference: OwnerReference, *, ask: bool) -> Owner | None:
        """The owner of that uid in the namespace, or None where it cannot be read.

        Without `ask` only watched kinds are looked up. Answers are cached for KEEP_SECONDS; failures are not.
        """
        found = self._watched.get((reference.kind, f"{namespace}/{reference.name}"))
        if found is not None and found.uid == reference.uid:
            return found
        if not ask and (reference.api_version, reference.kind) not in _KINDS:
            return None
        if not is_possible(reference):
            return None
        # Not by the uid alone: the author of a pod writes its owner references, and could hide another owner.
        now, key = self._monotonic(), (namespace, reference)
        with self._lock:
            asked, owner = self._asked.get(key, (float("-inf"), None))
        if now - asked < KEEP_SECONDS:
            return owner
        try:
            owner = self._ask(namespace, reference)
        except (Unreachable, ServerError, TooManyRequests):
            return None
        with self._lock:
            if len(self._asked) >= MANY:
                self._asked.clear()
            self._asked[key] = (now, owner)
        return owner

    def _ask(self, namespace: str, reference: OwnerReference) -> Owner | None:
        """Request an owner. Raises Unreachable, ServerError and TooManyRequests."""
        if self._client is None:
            return None
        try:
            resource = self.resource(reference)
            if resource is None or not resource.namespaced:
                return None
            owner = parse_owner(self._client.get(resource, namespace, reference.name))
        except (Unreachable, ServerError, TooManyRequests):
            raise
        except (ApiError, KubeconfigError, ModelError):
            return None
        return owner if owner.uid == reference.uid else None

    def resource(self, reference: OwnerReference) -> Resource | None:
        """The resource of the reference's kind, by discovery. Raises ApiError."""
        known = _KINDS.get((reference.api_version, reference.kind))
        if known is not None or self._client is None:
            return known
        now = self._monotonic()
        asked, kinds = self._plurals.get(reference.api_version, (float("-inf"), {}))
        if now - asked > KEEP_KINDS_SECONDS or reference.kind not in kinds:
            kinds = self._kinds(self._client, reference.api_version)
            self._plurals[reference.api_version] = (now, kinds)
        return kinds.get(reference.kind)

    @staticmethod
    def _kinds(client: Client, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        path = api_root(Resource(group, version, "", ""))
        answer = decode_answer(client.call("GET", path), _served, method="GET", path=path)
        return {
            item.kind: Resource(group, version, item.name, item.kind, item.namespaced)
            for item in answer.resources or ()
            if "/" not in item.name
        }
