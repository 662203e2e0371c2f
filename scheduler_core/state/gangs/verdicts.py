"""The last decisions about groups, for their conditions (docs/gangs.md#status-and-conditions).

The engine writes, the controllers read. Nothing here decides: after a restart the first cycle of a group
fills it again, and conditions that are final stay in the status of the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler_core.model.groups.gang import Gang

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class GroupVerdict(msgspec.Struct, frozen=True):
    """The outcome of a group's last cycle: one of the reasons above, and the text for people.

    `generation` is that of the spec that the cycle worked with.
    """

    reason: str
    message: str
    generation: int = 0


class GroupDisruption(msgspec.Struct, frozen=True):
    """A preemption of a group: `message` names the preemptor and the quotas. `now` is its time."""

    message: str
    now: float
    generation: int = 0


class GroupVerdicts:
    """Verdicts and disruptions of groups by the key of their reference; `changed` are keys to review.

    `gangs` are the group objects by the same keys.
    """

    def __init__(self, gangs: Mapping[str, Gang]) -> None:
        self._gangs = gangs
        self.verdicts: dict[str, GroupVerdict] = {}
        self.disruptions: dict[str, GroupDisruption] = {}
        self.changed: set[str] = set()

    def decided(self, key: str, reason: str, message: str) -> None:
        """The cycle of a group came to an end. A group that started stays started, whatever follows."""
        verdict, old = GroupVerdict(reason, message, self._generation(key)), self.verdicts.get(key)
        if old is not None and old.reason == SCHEDULED != reason:
            return
        if old != verdict:
            self.verdicts[key] = verdict
            self.changed.add(key)

    def disrupted(self, key: str, message: str, now: float) -> None:
        """Members of a group are evicted for another pod or group."""
        self.disruptions[key] = GroupDisruption(message, now, self._generation(key))
        self.changed.add(key)

    def forget(self, key: str) -> None:
        """The group's object is gone."""
        self.verdicts.pop(key, None)
        self.disruptions.pop(key, None)
        self.changed.discard(key)

    def _generation(self, key: str) -> int:
        gang = self._gangs.get(key)
        return gang.generation if gang is not None else 0
