"""What the console watches: the kinds, and of each as much as its identity may list."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from kubectl_plugin.cluster.reading import ListClient, ListScope, kind_name, kind_outside
from kubectl_plugin.console.cluster.config_maps import read_config_map
from kubectl_plugin.console.cluster.packed import ObjectPacker
from kubectl_plugin.live.lists import BESIDE
from kubectl_plugin.live.run_times import finished_pod, job_times
from scheduler_core.kube.errors import Forbidden, NotFound
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    JOBS,
    NATIVE_POD_GROUPS,
    NODES,
    PODS,
    QUOTA_FLAVORS,
    QUOTA_GROUPS,
    Resource,
)
from scheduler_core.model.names import SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.pod_reader import PodReader
from scheduler_core.model.pods.requests import CurrentRule, ResizeRule
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.model.watched import COMPOSITES, WATCHED
from scheduler_core.simulate.objects import StoredObject, Unread

_THREADS: Final = 8


class Seen(msgspec.Struct, frozen=True):
    """An object that was watched: its value (None for kinds that are only stored) and its JSON.

    `ended`: when a pod that has succeeded ended, in seconds since the epoch.
    """

    value: Any
    stored: StoredObject
    ended: float | None = None


class Feed(msgspec.Struct, frozen=True):
    """A kind of object, how it is read, and its scope. `denied`: it may not be listed, and is not watched."""

    name: str
    resource: Resource
    parse: Callable[..., Seen]
    scope: ListScope
    denied: bool = False

    @property
    def missing(self) -> str:
        """What of the kind is not known, for people; empty if all objects of the cluster are."""
        if self.denied:
            return kind_name(self.resource)
        return kind_outside(self.resource, self.scope.namespace) if self.scope.namespace else ""


def feeds(
    client: ListClient,
    namespace: str,
    *,
    composites: bool,
    topologies: Container[str] | None = None,
    rule: CurrentRule = ResizeRule.newest,
) -> list[Feed]:
    """The feeds of all kinds, each as wide as the user may list it: the cluster, else `namespace`.

    `topologies`, `rule`: see `wanted_feeds`. A kind that the server does not serve may come later, and has a
    feed.
    Raises the ApiError tree.
    """
    wanted = list(wanted_feeds(composites=composites, topologies=topologies, rule=rule))
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda feed: _widest(client, feed, namespace), wanted))


def blind(found: Sequence[Feed], named: Collection[str] = ()) -> tuple[str, ...]:
    """What no run of the scheduler can do without, and the user may not list.

    `named`: kinds, by plural name, that quotas name objects of.
    """
    needed = {"nodes", PODS.plural, ELASTIC_QUOTAS.plural, *named}
    return unread([feed for feed in found if feed.resource.plural in needed])


def unread(found: Sequence[Feed]) -> tuple[str, ...]:
    """All that the user may not list; a kind of several feeds is named once."""
    return tuple(dict.fromkeys(feed.missing for feed in found if feed.missing))


def unread_limits(lists: Callable[[str], bool]) -> frozenset[str]:
    """What a view lacks of the kinds that quotas name; `lists` tells which, by plural name, are read."""
    flavors = all(map(lists, (NODES.plural, QUOTA_FLAVORS.plural)))
    return frozenset(
        (set() if lists(QUOTA_GROUPS.plural) else {QUOTA_GROUPS.plural})
        | (set() if flavors else {QUOTA_FLAVORS.plural})
    )


def wanted_feeds(
    *,
    composites: bool,
    topologies: Container[str] | None = None,
    rule: CurrentRule = ResizeRule.newest,
) -> Iterator[Feed]:
    """The feeds of all kinds in the whole cluster. `composites`: CompositePodGroups, too.

    `topologies`: the namespaces whose topologies are read, None for all. `rule`: what resized pods count for.
    """
    for resource, parse in (*WATCHED, *([COMPOSITES] if composites else [])):
        if resource == CONFIG_MAPS:
            for label in (SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL):
                yield Feed(label, resource, _config_maps(topologies), ListScope(labels=label))
        elif resource == PODS:
            yield Feed(PODS.plural, PODS, _pods(rule), ListScope())
        else:
            yield Feed(kind_name(resource), resource, _read(resource, parse), ListScope())
    for resource in BESIDE:
        value = parse_resource_quota if resource.plural == "resourcequotas" else _nothing
        yield Feed(kind_name(resource), resource, _read(resource, value), ListScope())
    yield Feed(kind_name(JOBS), JOBS, _read(JOBS, job_times), ListScope())


def _widest(client: ListClient, feed: Feed, namespace: str) -> Feed:
    """The feed with the widest scope that the user may list."""
    scopes = [feed.scope]
    if feed.resource.namespaced and namespace:
        scopes.append(msgspec.structs.replace(feed.scope, namespace=namespace))
    for scope in scopes:
        try:
            # Rights are looked at before the kind: a kind that is not served may be listed, too.
            with contextlib.suppress(NotFound):
                client.get_page(feed.resource, scope.namespace, label_selector=scope.labels, limit=1)
        except Forbidden:
            continue
        return msgspec.structs.replace(feed, scope=scope)
    return msgspec.structs.replace(feed, denied=True)


def _nothing(raw: Any) -> None:
    """The value of a kind that nothing is computed from."""


def _read(resource: Resource, parse: Callable[..., Any]) -> Callable[..., Seen]:
    """Objects of namespaces are packed: tenants write them, a megabyte each."""
    packers: dict[str, ObjectPacker] = {}

    def read(raw: msgspec.Raw, version: str = resource.version) -> Seen:
        api_version = f"{resource.group}/{version}" if resource.group else version
        # The raw object is part of a page of the list, which must not stay for its sake.
        stored: StoredObject = Unread(bytes(raw), resource.kind, api_version)
        if resource.namespaced:
            if version not in packers:
                packers[version] = ObjectPacker(resource.kind, api_version)
            stored = packers[version].pack(raw)
        return Seen(parse(raw, version) if resource == NATIVE_POD_GROUPS else parse(raw), stored)

    return read


def _config_maps(topologies: Container[str] | None) -> Callable[..., Seen]:
    return lambda raw: Seen(*read_config_map(raw, topologies))


def _pods(rule: CurrentRule) -> Callable[..., Seen]:
    reader, packer = PodReader(rule=rule), ObjectPacker(PODS.kind, PODS.api_version)

    def read(raw: msgspec.Raw) -> Seen:
        pod: Pod = reader.read(raw)
        finished = finished_pod(raw) if pod.finished else None
        return Seen(pod, packer.pack(raw), finished.ended if finished is not None else None)

    return read
