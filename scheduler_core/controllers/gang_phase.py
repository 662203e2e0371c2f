"""Computes the phase of a gang and the numbers of its members, from its pods alone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.gangs.gangs import Census

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
UNSCHEDULABLE: Final = "Unschedulable"


def phase_of(gang: Gang, census: Census, *, refused: bool) -> str:
    """The phase of a gang. `refused`: waiting members were rejected after the others got their nodes."""
    if census.running >= gang.min_members:
        return "Running"
    active = census.waiting + census.allocated
    if census.succeeded >= gang.min_members and not active:
        return "Succeeded"
    if census.failed and not active:
        return "Failed"
    there = census.allocated + census.succeeded
    if there >= gang.min_members:
        if there - census.binding < gang.min_members:
            return SCHEDULING
        return "Running" if census.succeeded else "Scheduled"
    if not census.allocated:
        return PENDING
    # While a gang is being bound the API shows only some of its members on nodes.
    return UNSCHEDULABLE if refused or there + census.waiting < gang.min_members else SCHEDULING


def refused_since(members: Iterable[Pod]) -> bool:
    """Whether a waiting member was rejected after the last member was bound.

    Earlier rejections are outdated: the gang has found nodes since.
    """
    bound: datetime | None = None
    told: list[datetime | None] = []
    for pod in members:
        said = pod.scheduled_condition
        if said is None or pod.finished or pod.terminating:
            continue
        since = said.last_transition_time
        if not pod.assigned and said.status == "False":
            told.append(since)
        elif pod.assigned and since is not None and (bound is None or since > bound):
            bound = since
    if bound is None:
        return bool(told)
    return any(since is not None and since > bound for since in told)


def numbers(gang: Gang, census: Census) -> str:
    """`minMembers 3: 2 have a node, 1 wait, 0 succeeded, 0 failed`, and who is gated, bound or leaving."""
    if not census.members:
        return f"minMembers {gang.min_members}: no pod names the group"
    more = f", {census.gated} of those that wait have scheduling gates" if census.gated else ""
    more += f", {census.binding} are being bound" if census.binding else ""
    more += f", {census.leaving} are on their way out" if census.leaving else ""
    return (
        f"minMembers {gang.min_members}: {census.allocated} have a node, {census.waiting} wait, "
        f"{census.succeeded} succeeded, {census.failed} failed{more}"
    )
