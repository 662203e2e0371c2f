"""Notes on pods whose schedulerName belongs to no running scheduler."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kubectl_plugin.cluster.reading import ListClient, ListScope, list_or_none
from scheduler_core.decoding import decoder
from scheduler_core.kube.errors import Forbidden, NotFound
from scheduler_core.kube.schedulers import is_served
from scheduler_core.model.kinds import PODS, Resource
from scheduler_core.model.names import DEFAULT_SCHEDULER, POD_SCHEDULED

UNKNOWN_SCHEDULERS: Final = (
    "note: the schedulers that pods wait for are not checked: "
    "you may not list leases, deployments, events and pods of all namespaces"
)
_WAITING: Final = "spec.nodeName=,status.phase=Pending"
_GATED: Final = "SchedulingGated"
# Number of scheduler names that are checked, most waiting pods first; number of pods that a note names.
MOST_NAMES: Final = 20
MOST_PODS: Final = 3


class _Meta(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = DEFAULT_SCHEDULER
    node_name: str = ""
    scheduling_gates: list[object] | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    reason: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: tuple[_Condition, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decoder = decoder(_Pod)


def unattempted_pods(pods: Iterable[msgspec.Raw]) -> dict[str, list[str]]:
    """Pods that no scheduler has tried, as namespace/name, by their schedulerName."""
    found = defaultdict(list)
    for pod in _readable(pods):
        waits = not (pod.spec.node_name or pod.spec.scheduling_gates) and pod.status.phase == "Pending"
        told = any(
            each.type == POD_SCHEDULED and each.reason != _GATED for each in pod.status.conditions or ()
        )
        if waits and not told:
            found[pod.spec.scheduler_name].append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    return found


def _readable(pods: Iterable[msgspec.Raw]) -> Iterator[_Pod]:
    for raw in pods:
        try:
            yield _decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeError):
            continue


def missing_scheduler_notes(client: ListClient, namespace: str) -> list[str] | None:
    """A note for each schedulerName of waiting pods in the namespace that no scheduler serves.

    None if the user may not list what shows a running scheduler. Raises the ApiError tree.
    """
    waiting = unattempted_pods(list_or_none(client, PODS, ListScope(namespace, fields=_WAITING)) or ())

    def ask(resource: Resource, selector: str, most: int) -> Sequence[msgspec.Raw]:
        try:
            return client.get_page(resource, field_selector=selector, limit=most).items or ()
        except NotFound:
            return ()

    notes = []
    now = time.time()
    names = sorted(waiting, key=lambda name: (-len(waiting[name]), name))
    try:
        for name in names[:MOST_NAMES]:
            if not is_served(name, ask, now):
                notes.append(_note(name, sorted(waiting[name])))
    except Forbidden:
        return None
    if names[MOST_NAMES:]:
        more = len(names) - MOST_NAMES
        notes.append(f"pods wait for {more} more scheduler names, which are not checked")
    return notes


def _note(name: str, pods: list[str]) -> str:
    named = ", ".join(pods[:MOST_PODS]) + (f" and {len(pods) - MOST_PODS} more" if pods[MOST_PODS:] else "")
    return (
        f"spec.schedulerName={name}: no running scheduler of that name was found, so these pods wait: {named}"
    )
