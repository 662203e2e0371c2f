"""Assigned pods by node, laid out for matching with the node's load report."""

from __future__ import annotations

from array import array
from typing import Final

from scheduler_core.model.node_metric import MeasuredPods
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.placement import Placement

_ABSENT: Final = -1


class Assigned:
    """A pod on a node, as of its last estimate. Compared by identity."""

    __slots__ = ("key", "learned", "pod", "row")

    def __init__(self, pod: Pod, row: int, learned: float) -> None:
        self.pod = pod
        self.key = pod.key
        self.row = row
        self.learned = learned


class Layout:
    """The pods of one node against one list of reported pods; immutable, so identity tells of a change.

    `rows` and `positions` are int64 of the pods' length: the row in the table of placed pods, and where the
    pod stands in the report (-1: not in it).
    """

    __slots__ = ("items", "keys", "positions", "rows")

    def __init__(self, items: tuple[Assigned, ...], keys: tuple[str, ...]) -> None:
        at = {key: i for i, key in enumerate(keys)}
        self.items = items
        self.keys = keys
        self.rows = array("q", [item.row for item in items])
        self.positions = array("q", [at.get(item.key, _ABSENT) for item in items])


class AssignedPods:
    """Pods by slot, with the layout of each slot as long as it holds."""

    def __init__(self) -> None:
        self._pods: dict[int, dict[str, Assigned]] = {}
        self._layouts: dict[int, Layout] = {}

    def add(self, placement: Placement) -> None:
        """A pod came to a slot, or is to be estimated anew."""
        pods = self._pods.setdefault(placement.slot, {})
        pods[placement.pod.uid] = Assigned(placement.estimated, placement.row, placement.learned)
        self._layouts.pop(placement.slot, None)

    def remove(self, placement: Placement) -> None:
        """A pod left a slot."""
        pods = self._pods[placement.slot]
        del pods[placement.pod.uid]
        if not pods:
            del self._pods[placement.slot]
        self._layouts.pop(placement.slot, None)

    def layout(self, slot: int, measured: MeasuredPods) -> Layout:
        """The pods of a slot against what was reported of it."""
        found = self._layouts.get(slot)
        if found is None or found.keys != measured.keys:
            items = tuple(self._pods.get(slot, {}).values())
            found = self._layouts[slot] = Layout(items, measured.keys)
        return found


def estimated_alike(old: Pod, new: Pod) -> bool:
    """Whether nothing changed that an estimate is made again for: metadata alone does not count."""
    return (
        old.requests == new.requests
        and old.limits == new.limits
        and old.priority == new.priority
        and old.scheduled_condition == new.scheduled_condition
        and old.initialized_time == new.initialized_time
    )
