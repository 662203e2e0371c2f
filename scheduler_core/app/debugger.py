"""Cache debugger: dumps queue and state as JSON, and compares the cache with the API server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.kube.watch.reading import is_older, object_key, read_metadata
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NODES, PODS, Resource
from scheduler_core.model.quantity import format_resource
from scheduler_core.state.cluster import ClusterState

# A watch is always slightly behind: only differences that remain after these comparisons count.
_LOOKS: Final = 4
_BETWEEN_SECONDS: Final = 0.5
_COMPARED: Final = (NODES, PODS, ELASTIC_QUOTAS)

# Kind and key to resourceVersion.
Versions = dict[tuple[str, str], str]


def dump(scheduler: Scheduler) -> dict[str, Any]:
    """The queue and the state: names and amounts, no object bodies. Runs on the loop's thread."""
    state = scheduler.state
    return {
        "queue": [_unit(unit) for unit in scheduler.queue.units.values()],
        "nodes": [_node(state, slot) for slot, node in enumerate(state.nodes.nodes) if node is not None],
        "assumed": {
            placement.pod.key: {"node": state.nodes.names[placement.slot], "since": placement.assumed_at}
            for placement in state.placed.values()
            if placement.assumed
        },
        "quotas": [
            {
                "quota": quota.key,
                "min": _amounts(quota.min),
                "max": _amounts(quota.max),
                "used": _amounts(state.ledger.status_used(quota)),
            }
            for quota in state.ledger.quotas()
        ],
        "broken": state.check(),
    }


def _unit(unit: QueuedUnit) -> dict[str, Any]:
    return {
        "unit": unit.key,
        "queue": unit.part.value,
        "pods": [pod.key for pod in unit.pods.values()],
        "priority": unit.priority,
        "attempts": unit.attempts,
        "since": unit.entered,
        "rejectedBy": sorted(unit.plugins),
    }


def _node(state: ClusterState, slot: int) -> dict[str, Any]:
    nodes, names = state.nodes, state.index.names
    return {
        "node": nodes.names[slot],
        "schedulable": bool(nodes.alive[slot]) and not bool(nodes.unschedulable[slot]),
        "allocatable": _amounts(dict(zip(names, nodes.allocatable[:, slot].tolist(), strict=True))),
        "requested": _amounts(dict(zip(names, nodes.requested[:, slot].tolist(), strict=True))),
        "pods": sorted(pod.key for pod in nodes.pods[slot].values()),
    }


def _amounts(values: dict[str, int]) -> dict[str, str]:
    return {name: format_resource(name, value) for name, value in values.items() if value}


def cached_versions(scheduler: Scheduler) -> Versions:
    """The versions of the cached objects, by kind and key. Runs on the loop's thread."""
    state = scheduler.state
    found: Versions = {("Pod", pod.key): pod.resource_version for pod in state.pods.values()}
    for node in state.nodes.nodes:
        if node is not None:
            found["Node", node.name] = node.resource_version
    for quota in state.objects.get("ElasticQuota", {}).values():
        found["ElasticQuota", quota.key] = quota.resource_version
    return found


def listed_versions(client: Client, resources: tuple[Resource, ...] = _COMPARED) -> Versions:
    """The versions in the API server, by kind and key; none of a kind that it does not serve. Raises
    ApiError.
    """
    found: Versions = {}
    for resource in resources:
        with suppress(NotFound):
            for raw in client.list_raw(resource):
                metadata = read_metadata(raw)
                found[resource.kind, object_key(metadata)] = metadata.resource_version
    return found


def differences(cached: Versions, listed: Versions) -> set[str]:
    """One line per object that only one side has, or that is older in the cache."""
    found = {f"{kind} {key}: not in the cache" for kind, key in listed.keys() - cached.keys()}
    found |= {f"{kind} {key}: not in the API" for kind, key in cached.keys() - listed.keys()}
    for place in cached.keys() & listed.keys():
        if is_older(cached[place], listed[place]):
            kind, key = place
            found.add(f"{kind} {key}: version {cached[place]} in the cache, {listed[place]} in the API")
    return found


def compare(
    client: Client,
    ask: Callable[[Callable[[Scheduler], Any]], Any],
    sleep: Callable[[float], object] = time.sleep,
) -> list[str]:
    """Differences that remain. `ask` runs a function on the loop's thread. Raises ApiError."""
    lasting: set[str] | None = None
    for look in range(_LOOKS):
        if look:
            sleep(_BETWEEN_SECONDS)
        listed = listed_versions(client)
        found = differences(ask(cached_versions), listed)
        # The text contains versions: an object that changes all the time is late, not different.
        lasting = found if lasting is None else lasting & found
        if not lasting:
            break
    return sorted(lasting or ())


def report(client: Client, ask: Callable[[Callable[[Scheduler], Any]], Any]) -> bytes:
    """The report of the debugger as JSON. Raises ApiError."""
    found = {"differences": compare(client, ask), **ask(dump)}
    return msgspec.json.format(msgspec.json.encode(found), indent=2)
