"""Writes the results of group ConfigMaps: status, placement, ranks and times, in the topology seed's fields.

What a process did not see itself (times, after a restart) it leaves as it is. The fields that users write
(`name`, `size`, `priority`, `constraints`) are never touched.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from scheduler_core.controllers.gang_status import MIN_INTERVAL_SECONDS
from scheduler_core.model import names
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.gang import Gang
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census
from scheduler_core.state.group_members import Seat, counts_of, in_rank_order, scheduler_of, seats_of
from scheduler_core.state.topology import GroupRun, rules_of
from scheduler_core.topology.rank import best_hop_cost, hop_cost
from scheduler_core.topology.report import pairs_text, placement_text
from scheduler_core.topology.tree import Tree

PENDING: Final = "Pending"
PLACED: Final = "Placed"
BOUND: Final = names.MEMBER_BOUND
MIXED: Final = "members differ in their requests: placed with the largest request per resource"


class TopologyGroupStatus:
    """Looks only at groups whose members or ConfigMap changed (`state.gangs.group_dirty`)."""

    def __init__(self, min_interval: float = MIN_INTERVAL_SECONDS) -> None:
        self._min_interval = min_interval
        self._written: dict[str, float] = {}

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Patches that are due; groups written less than a second ago stay dirty."""
        writes: list[Write] = []
        for key in sorted(state.gangs.group_dirty):
            if self._written.get(key, -self._min_interval) + self._min_interval > now:
                continue
            state.gangs.group_dirty.discard(key)
            gang, config_map = state.gangs.gangs.get(key), state.config_maps.of(key)
            if gang is None or config_map is None:
                continue
            wanted = results_of(state, gang)
            changes = {
                field: value or None
                for field, value in wanted.items()
                if config_map.data.get(field, "") != value
            }
            if changes:
                self._written[key] = now
                writes.append(_patch(config_map, changes))
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When a postponed write becomes due, or None."""
        times = [self._written.get(key, 0.0) for key in state.gangs.group_dirty]
        return min(times) + self._min_interval if times else None


def _patch(config_map: ConfigMap, changes: dict[str, str | None]) -> Patch:
    body = {"data": changes}
    return Patch(CONFIG_MAPS, config_map.namespace, config_map.name, body, uid=config_map.uid)


def results_of(state: ClusterState, gang: Gang) -> dict[str, str]:
    """The result fields that must be in the ConfigMap's data; an empty text takes a field away."""
    run = state.topology.runs.get(gang.key)
    tree = state.topology.tree_of(gang, scheduler_of(state, gang))
    seats = seats_of(state, gang, tree)
    census = state.gangs.census(gang.key, state.placed)
    status = _status(state, gang, census)
    fields = {"status": status, "reason": _reason(gang, run, status), "placement": "", "rank": ""}
    if seats:
        fields |= _where(tree, seats, run)
    if run is not None:
        fields |= _times(run)
        if seats and run.idle is not None:
            fields |= _costs(tree, seats, gang, run)
    return fields


def _status(state: ClusterState, gang: Gang, census: Census) -> str:
    """Bound once the API has the bindings of all members, Placed while some are under way."""
    if gang.problem or census.allocated + census.succeeded < gang.min_members:
        return PENDING
    assumed = (state.placed[uid].assumed for uid in state.gangs.members(gang.key) if uid in state.placed)
    return PLACED if any(assumed) else BOUND


def _reason(gang: Gang, run: GroupRun | None, status: str) -> str:
    if gang.problem:
        return gang.problem
    if run is None:
        return ""
    if status == PENDING:
        return run.reason
    return MIXED if run.mixed else ""


def _where(tree: Tree, seats: list[Seat], run: GroupRun | None) -> dict[str, str]:
    ranked = in_rank_order(tree, seats, run.ranks if run is not None else {})
    return {
        "placement": placement_text(tree, [seat.member for _, seat in ranked]),
        "rank": pairs_text((seat.pod.name, rank) for rank, seat in ranked),
    }


def _times(run: GroupRun) -> dict[str, str]:
    fields = {
        "schedBeginTime": _time(run.begin),
        "schedSolverTimeMilli": str(round(run.solver_seconds * 1000)),
    }
    if run.end is not None:
        fields["schedEndTime"] = _time(run.end)
        fields["schedTotalTimeMilli"] = str(round((run.end - run.begin) * 1000))
    return fields


def _costs(tree: Tree, seats: list[Seat], gang: Gang, run: GroupRun) -> dict[str, str]:
    """The sum of distances over all pairs of members, and that of the best placement on the idle cluster."""
    fields = {
        "hopCost": str(hop_cost(tree, counts_of(tree, seats))),
        "optimal": "true" if run.optimal else "false",
    }
    if run.best_hops is None and run.idle is not None and len(run.idle) == len(tree.leaves):
        run.best_hops = best_hop_cost(tree, run.idle, len(seats), rules_of(gang, tree))
    if run.best_hops is not None:
        fields["bestHopCost"] = str(run.best_hops)
    return fields


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
