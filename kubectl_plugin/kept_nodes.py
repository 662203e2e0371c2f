"""What is kept for groups whose pods wait: their nominated nodes, and what the PodGroup says of the time.

The scheduler writes the nodes into the status of pods, and since when and until when they are kept into the
condition NodesKept of PodGroups of its own kind. Of groups of other kinds the time is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler_core.model.conditions import find, rfc3339
from scheduler_core.model.gang import Gang, GroupRef, group_of
from scheduler_core.model.names import NODES_KEPT_CONDITION
from scheduler_core.model.pod import Pod
from scheduler_core.model.resources import to_strings
from scheduler_core.quota.holds import amounts_text
from scheduler_core.quota.ledger import charged, shift

# A strict form at the end of the text; whatever else stands there is nobody's time.
_UNTIL: Final = re.compile(r"; until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) at the latest\Z", re.ASCII)
_TAIL: Final = 60
# So many groups are named in one cell, and so many nodes in a line.
_GROUPS: Final = 2
_NODES: Final = 8


class KeptNodes(msgspec.Struct, frozen=True):
    """The nodes kept for a group's waiting pods, and what these ask for.

    Times are texts, empty where they are not known.
    """

    group: str
    nodes: tuple[str, ...]
    pods: int
    requests: dict[str, int]
    since: str = ""
    until: str = ""

    @property
    def times(self) -> str:
        """`since ... until ...`, as far as known."""
        parts = (("since", self.since), ("until", self.until))
        return " ".join(f"{word} {text}" for word, text in parts if text)

    @property
    def short(self) -> str:
        """`2 nodes since ... until ...`."""
        count = "1 node" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes"
        return f"{count} {self.times}".rstrip()

    @property
    def long(self) -> str:
        """The nodes by name, for how many pods, with the amounts."""
        names = ", ".join(self.nodes[:_NODES])
        more = f" and {len(self.nodes) - _NODES} more" if len(self.nodes) > _NODES else ""
        asked = {name: value for name, value in self.requests.items() if name != "pods"}
        text = f"{names}{more} for {self.pods} pods ({amounts_text(asked)})"
        return f"{text} {self.times}".rstrip()

    def document(self) -> dict[str, Any]:
        """The same as data, quantities exact."""
        return {
            "nodes": list(self.nodes),
            "pods": self.pods,
            "requests": to_strings(self.requests),
            "since": self.since,
            "until": self.until,
        }


def kept_for(group: str, pods: Iterable[Pod], gang: Gang | None) -> KeptNodes | None:
    """What is kept for these pods of one group; None for nothing."""
    waiting = [pod for pod in pods if _waits(pod)]
    if not waiting:
        return None
    total: dict[str, int] = {}
    for pod in waiting:
        shift(total, charged(pod.requests))
    nodes = tuple(sorted({pod.nominated_node for pod in waiting}))
    since, until = _times(gang) if gang is not None else ("", "")
    return KeptNodes(group, nodes, len(waiting), total, since, until)


def _waits(pod: Pod) -> bool:
    return bool(pod.nominated_node) and not (pod.assigned or pod.finished or pod.terminating)


def _times(gang: Gang) -> tuple[str, str]:
    told = find(gang.status.conditions, NODES_KEPT_CONDITION)
    if told is None or told.status != "True" or told.last_transition_time is None:
        return "", ""
    found = _UNTIL.search(told.message[-_TAIL:])
    return rfc3339(told.last_transition_time.timestamp()), found[1] if found is not None else ""


def kept_text(amount: str, keepers: Iterable[KeptNodes]) -> str:
    """The cell of a quota and resource: `6 (train: 2 nodes since ... until ...)`."""
    found = list(keepers)
    if not found:
        return amount
    texts = [f"{item.group}: {item.short}" for item in found[:_GROUPS]]
    more = [f"{len(found) - _GROUPS} more"] if len(found) > _GROUPS else []
    return f"{amount} ({'; '.join([*texts, *more])})"


class KeptView:
    """What is kept in every namespace, followed object by object."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._groups: dict[str, Gang] = {}

    def put_pod(self, pod: Pod) -> None:
        """A pod exists in this version."""
        self.remove_pod(pod.namespace, pod.name)
        if _waits(pod) and group_of(pod) is not None:
            self._pods.setdefault(pod.namespace, {})[pod.name] = pod

    def remove_pod(self, namespace: str, name: str) -> None:
        """A pod is gone."""
        self._pods.get(namespace, {}).pop(name, None)

    def put_group(self, gang: Gang) -> None:
        """A PodGroup exists in this version."""
        self._groups[gang.key] = gang

    def remove_group(self, namespace: str, name: str) -> None:
        """A PodGroup is gone."""
        self._groups.pop(GroupRef("PodGroup", namespace, name).key, None)

    def of(self, namespace: str) -> tuple[KeptNodes, ...]:
        """What is kept for groups of a namespace, by name."""
        by_group: dict[str, list[Pod]] = {}
        names: dict[str, str] = {}
        for pod in self._pods.get(namespace, {}).values():
            ref = group_of(pod)
            if ref is not None:
                by_group.setdefault(ref.key, []).append(pod)
                names[ref.key] = ref.name
        made = (kept_for(names[key], by_group[key], self._groups.get(key)) for key in sorted(by_group))
        return tuple(item for item in made if item is not None)


def amount_of(name: str, keepers: Iterable[KeptNodes]) -> int:
    """How much of a resource is kept."""
    return sum(item.requests.get(name, 0) for item in keepers)
