"""Nodes that the scheduler keeps for the waiting pods of groups, and since and until when.

The nodes are `status.nominatedNodeName` of the pods. The times are in the condition NodesKept of PodGroups of
incubator.scheduling.k8s.io; for groups of other kinds they are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubectl_plugin.cluster.held_quota import HeldQuota, held_for
from scheduler_core.model.conditions import find
from scheduler_core.model.groups.gang import Dialect, Gang, GroupRef, group_of
from scheduler_core.model.names import NODES_KEPT_CONDITION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import to_strings
from scheduler_core.model.timestamps import format_time
from scheduler_core.printing.counts import counted
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.reservations.usage import amounts_text

# The end of the condition's message.
_UNTIL: Final = re.compile(r"; until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) at the latest\Z", re.ASCII)
_TAIL: Final = 60
# Number of nodes that one line names.
_NODES: Final = 8


class NominatedNodes(msgspec.Struct, frozen=True):
    """The nodes that are kept for a group's waiting pods, and the requests of these pods.

    `since` and `until` are RFC 3339 times; empty if unknown.
    """

    group: str
    nodes: tuple[str, ...]
    pods: int
    requests: dict[str, int]
    since: str = ""
    until: str = ""

    @property
    def times(self) -> str:
        """`since ... until ...`, without unknown times."""
        parts = (("since", self.since), ("until", self.until))
        return " ".join(f"{word} {text}" for word, text in parts if text)

    @property
    def short(self) -> str:
        """`2 nodes since ... until ...`."""
        return f"{counted(len(self.nodes), 'node')} {self.times}".rstrip()

    @property
    def long(self) -> str:
        """The names of the nodes, the number of pods, and their requests."""
        names = ", ".join(self.nodes[:_NODES])
        more = f" and {len(self.nodes) - _NODES} more" if len(self.nodes) > _NODES else ""
        asked = {name: value for name, value in self.requests.items() if name != "pods"}
        text = f"{names}{more} for {counted(self.pods, 'pod')} ({amounts_text(asked)})"
        return f"{text} {self.times}".rstrip()

    def document(self) -> dict[str, Any]:
        """The fields for JSON and YAML, with exact quantities."""
        return {
            "nodes": list(self.nodes),
            "pods": self.pods,
            "requests": to_strings(self.requests),
            "since": self.since,
            "until": self.until,
        }


def nominated_for(group: str, pods: Iterable[Pod], gang: Gang | None) -> NominatedNodes | None:
    """The nodes that are kept for these pods of one group; None for none."""
    waiting = [pod for pod in pods if _waits(pod)]
    if not waiting:
        return None
    total: dict[str, int] = {}
    for pod in waiting:
        shift(total, charged(pod.requests))
    nodes = tuple(sorted({pod.nominated_node for pod in waiting}))
    since, until = _times(gang) if gang is not None else ("", "")
    return NominatedNodes(group, nodes, len(waiting), total, since, until)


def _waits(pod: Pod) -> bool:
    return bool(pod.nominated_node) and not (pod.assigned or pod.finished or pod.terminating)


def _times(gang: Gang) -> tuple[str, str]:
    told = find(gang.status.conditions, NODES_KEPT_CONDITION)
    if told is None or told.status != "True" or told.last_transition_time is None:
        return "", ""
    found = _UNTIL.search(told.message[-_TAIL:])
    return format_time(told.last_transition_time.timestamp()), found[1] if found is not None else ""


class NominationView:
    """The nominated nodes of all namespaces, updated object by object."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._groups: dict[str, Gang] = {}

    def put_pod(self, pod: Pod) -> None:
        """Add or replace a pod."""
        self.remove_pod(pod.namespace, pod.name)
        if _waits(pod) and group_of(pod) is not None:
            self._pods.setdefault(pod.namespace, {})[pod.name] = pod

    def remove_pod(self, namespace: str, name: str) -> None:
        """Remove a pod."""
        self._pods.get(namespace, {}).pop(name, None)

    def put_group(self, gang: Gang) -> None:
        """Add or replace a PodGroup."""
        self._groups[gang.key] = gang

    def remove_group(self, dialect: Dialect, namespace: str, name: str) -> None:
        """Remove a PodGroup."""
        self._groups.pop(GroupRef(dialect, namespace, name).key, None)

    def held(self, namespace: str) -> tuple[HeldQuota, ...]:
        """The quota that is held for each group of a namespace, sorted by group."""
        own = [gang for key, gang in sorted(self._groups.items()) if gang.ref.namespace == namespace]
        return tuple(item for item in map(held_for, own) if item is not None)

    def of(self, namespace: str) -> tuple[NominatedNodes, ...]:
        """The nominated nodes of each group of a namespace, sorted by group."""
        by_group: dict[str, list[Pod]] = {}
        names: dict[str, str] = {}
        for pod in self._pods.get(namespace, {}).values():
            ref = group_of(pod)
            if ref is not None:
                by_group.setdefault(ref.key, []).append(pod)
                names[ref.key] = ref.name
        made = (nominated_for(names[key], by_group[key], self._groups.get(key)) for key in sorted(by_group))
        return tuple(item for item in made if item is not None)
