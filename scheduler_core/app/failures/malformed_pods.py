"""Reports pods that cannot be parsed, with a condition and an event, once per problem."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.kube.watch.reading import ReadObject, plain_reader
from scheduler_core.kube.writes.correlator import ObjectReference, Occurrence
from scheduler_core.model import names
from scheduler_core.model.conditions import condition
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.writes import Write, pod_status_patch

_PLAIN: Final = plain_reader(parse_pod).make


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: Any = None
    node_name: Any = None


class _StatusWire(msgspec.Struct, frozen=True):
    conditions: Any = None


class _PodWire(msgspec.Struct, frozen=True):
    """What a notice needs of a pod that is at fault, and may be large: whatever types its fields have."""

    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class MalformedPodNotice(msgspec.Struct, frozen=True):
    """A report about a pod, by the profile that should schedule it."""

    namespace: str
    name: str
    uid: str
    profile: str
    message: str


class MalformedPods:
    """Parses pods for a reflector. A malformed pod of our profiles gets a condition and an event.

    `make` runs on the reflector's thread, `lead` on any thread. Notices are kept until `lead`, because only
    the leader writes. `write` and `record` must not block.
    """

    def __init__(
        self,
        profiles: Collection[str],
        write: Callable[[Write], None],
        record: Callable[[Occurrence], object],
        identity: str,
        wall: Callable[[], float] = time.time,
        read: Callable[[ReadObject], Pod] = _PLAIN,
    ) -> None:
        self._profiles = frozenset(profiles)
        self._write = write
        self._record = record
        self._identity = identity
        self._wall = wall
        self._read = read
        self._leading = False
        self._kept: dict[str, MalformedPodNotice] = {}
        self._lock = threading.Lock()

    def make(self, read_object: ReadObject) -> Pod:
        """The pod. Raises ModelError as `parse_pod` does."""
        try:
            pod = self._read(read_object)
        except ModelError as error:
            notice = self._notice(read_object.raw(), error)
            if notice is not None:
                self._take(notice)
            raise
        if self._kept:
            with self._lock:
                self._kept.pop(pod.uid, None)
        return pod

    def lead(self) -> None:
        """This process leads from now on; writes the notices that were kept."""
        with self._lock:
            self._leading = True
            kept, self._kept = list(self._kept.values()), {}
        for notice in kept:
            self._tell(notice)

    def _take(self, notice: MalformedPodNotice) -> None:
        with self._lock:
            if not self._leading:
                self._kept[notice.uid] = notice
                return
        self._tell(notice)

    def _notice(self, raw: msgspec.Raw, error: ModelError) -> MalformedPodNotice | None:
        """The notice; None for pods of other schedulers, bound pods, and pods that have this condition.

        The last case also ends the cycle in which our own write creates a new version of the pod.
        """
        pod, message = _head(raw), str(error)
        profile = pod.spec.scheduler_name or names.DEFAULT_SCHEDULER
        known = isinstance(profile, str) and profile in self._profiles
        if not known or pod.spec.node_name or not error.uid or _says(pod, message):
            return None
        return MalformedPodNotice(error.namespace, error.name, error.uid, profile, message)

    def _tell(self, notice: MalformedPodNotice) -> None:
        now, reason = self._wall(), names.REASON_SCHEDULER_ERROR
        scheduled = condition(names.POD_SCHEDULED, False, reason, notice.message, now)
        pod = notice.namespace, notice.name, notice.uid
        self._write(pod_status_patch(*pod, {"conditions": [scheduled]}))
        reference = ObjectReference("v1", "Pod", *pod)
        kind, why = names.EVENT_WARNING, names.EVENT_FAILED_SCHEDULING
        self._record(
            Occurrence(
                reference, kind, why, "Scheduling", notice.message, notice.profile, self._identity, now
            )
        )


def _head(raw: msgspec.Raw) -> _PodWire:
    try:
        return decode(raw, _PodWire)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _PodWire()


def _says(pod: _PodWire, message: str) -> bool:
    conditions = pod.status.conditions
    return isinstance(conditions, list) and any(
        isinstance(item, dict)
        and (item.get("type"), item.get("reason"), item.get("message"))
        == (names.POD_SCHEDULED, names.REASON_SCHEDULER_ERROR, message)
        for item in conditions
    )
