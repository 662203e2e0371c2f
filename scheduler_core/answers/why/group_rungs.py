"""The checks of the group and its topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler_core.answers.why.rung import BLOCKED, OK, Rung
from scheduler_core.answers.why.subject import Subject
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.gangs.gangs import Census, take_census, too_few
from scheduler_core.state.topology import is_constrained

_GANG: Final = "gang"
_TOPOLOGY: Final = "topology"


def gang_of(simulation: Simulation, subject: Subject) -> Gang | None:
    """The group of a subject, if its object exists."""
    return simulation.state.gangs.gangs.get(subject.group) if subject.group else None


def gang_rung(simulation: Simulation, group: str, before: Census | None = None) -> Rung | None:
    """The check whether enough pods of a group exist, by its key; None without a group.

    `before` are its members before the run, which are told where the check passes.
    """
    if not group:
        return None
    gang = simulation.state.gangs.gangs.get(group)
    if gang is None:
        return Rung(_GANG, BLOCKED, f"the group {group.split()[0]} does not exist")
    if gang.problem:
        return Rung(_GANG, BLOCKED, gang.problem)
    census = take_census(simulation.state, gang.key)
    lacks = too_few(gang, census)
    if lacks:
        return Rung(_GANG, BLOCKED, lacks)
    told = before or census
    have = f"{told.members} exist, {told.allocated} have a node, {told.waiting} wait"
    return Rung(_GANG, OK, f"needs {gang.min_members} pods together: {have}")


def topology_rung(simulation: Simulation, subject: Subject, pods: Sequence[Pod]) -> Rung | None:
    """What the topology says about the group; None without constraints.

    What holds without the constraints too, as a refusal of the quota, is for other checks to tell.
    """
    gang = gang_of(simulation, subject)
    if gang is None or not is_constrained(gang):
        return None
    asks = f"its constraints are {_constraints(gang)}"
    run = simulation.state.topology.runs.get(gang.key)
    lacks = too_few(gang, take_census(simulation.state, gang.key))
    if run is None or not run.reason or run.everywhere or not pods or lacks:
        return Rung(_TOPOLOGY, OK, asks)
    return Rung(_TOPOLOGY, BLOCKED, f"{asks}; {run.reason}")


def _constraints(gang: Gang) -> str:
    if gang.topology_key:
        return f"one domain of {gang.topology_key}"
    return " ".join(gang.constraints.split()) or "those of its group ConfigMap"
