"""ElasticQuota that is held for a waiting group, as the condition QuotaHeld of its PodGroup says.

The scheduler writes the condition of PodGroups of incubator.scheduling.k8s.io and of native ones; of groups
of other kinds nothing is known here.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import find
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import QUOTA_HELD_CONDITION
from scheduler_core.model.resources import ResourceList, parse_resource_list

# The condition's message, as `scheduler_core.controllers.gang_conditions.held_condition` writes it.
_MESSAGE: Final = re.compile(
    r"([^;\s]{1,4096}); until (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) at the latest", re.ASCII
)


class HeldQuota(msgspec.Struct, frozen=True):
    """What is held for a group, and until when at the latest (RFC 3339)."""

    group: str
    amounts: ResourceList
    until: str


def held_for(gang: Gang) -> HeldQuota | None:
    """What is held for a group; None for nothing, or for a message that others wrote."""
    told = find(gang.status.conditions, QUOTA_HELD_CONDITION)
    match = _MESSAGE.fullmatch(told.message) if told is not None and told.status == "True" else None
    if match is None:
        return None
    try:
        parts = dict(part.partition("=")[::2] for part in match[1].split(","))
        amounts = parse_resource_list(parts, QUOTA_HELD_CONDITION)
    except ModelError:
        return None
    return HeldQuota(gang.ref.name, amounts, match[2])
