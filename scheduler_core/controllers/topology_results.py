"""Computes the result fields of a gang on the topology (docs/topology.md#ranks-and-results).

Status, placement, ranks and times. An empty text means that the field must be absent. Values that this
process did not observe (times, after a restart) are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler_core.arrays.types import Int64
from scheduler_core.errors import ModelError
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.enforcement import unenforced
from scheduler_core.state.gangs.gangs import Census, take_census, too_few
from scheduler_core.state.gangs.group_members import (
    MemberPlacement,
    counts_of,
    in_rank_order,
    placed_members,
    scheduler_of,
)
from scheduler_core.state.topology import GroupRun, TopologySettings, rules_of
from scheduler_core.topology.rank import best_hop_cost, hop_cost
from scheduler_core.topology.report import drawn_placement, drawn_ranks, placement_text, rank_text
from scheduler_core.topology.tree import Tree

PENDING: Final = "Pending"
PLACED: Final = "Placed"
BOUND: Final = names.MEMBER_BOUND
MIXED: Final = "members differ in their requests: placed with the largest request per resource"
# Left out, in this order, if the results exceed the size limit; every pod has its rank as a label.
LONGEST_FIELDS: Final = ("placement", "rank")
_OF_A_SEARCH: Final = ("schedBeginTime", "schedSolverTimeMilli")
_OF_A_PLACEMENT: Final = ("schedEndTime", "schedTotalTimeMilli", "hopCost", "bestHopCost", "optimal")

# Steps of the search on the idle cluster, which has no clock: less than a second.
_MOST_STEPS: Final = 1000


def results_of(state: ClusterState, gang: Gang) -> dict[str, str]:
    """The result fields of a group, by name."""
    run = state.topology.runs.get(gang.key)
    scheduler = scheduler_of(state, gang)
    tree = state.topology.tree_of(gang, scheduler)
    census = take_census(state, gang.key)
    status = _status(state, gang, census)
    reason = unenforced(state, gang) or _reason(gang, run, status, too_few(gang, census))
    fields = {"status": status, "reason": reason, "placement": "", "rank": ""}
    if not census.allocated and not census.succeeded:
        return fields | dict.fromkeys(_OF_A_PLACEMENT, "") | _begun(run, census)
    placements = placed_members(state, gang, tree)
    if placements:
        settings = state.topology.settings.get(scheduler, TopologySettings())
        # The results of a PodGroup are in an annotation, which is always JSON.
        fields |= _where(tree, placements, run, drawn=settings.seed_texts and gang.group is not None)
    if run is not None and run.begin is not None:
        fields |= _times(run.begin, run)
    if run is not None and placements and run.end is not None:
        fields |= _costs(tree, placements, gang, run)
    return fields


def shortened(fields: dict[str, str], limit: int) -> dict[str, str]:
    """The fields, without the longest ones if all together have more than `limit` characters."""
    kept = dict(fields)
    for name in LONGEST_FIELDS:
        if sum(map(len, kept.values())) > limit:
            kept[name] = ""
    return kept


def _status(state: ClusterState, gang: Gang, census: Census) -> str:
    """Bound once the API has the bindings of all members; Placed while some are in flight."""
    if gang.problem or census.allocated + census.succeeded < gang.min_members:
        return PENDING
    assumed = (state.placed[uid].assumed for uid in state.gangs.members(gang.key) if uid in state.placed)
    return PLACED if any(assumed) else BOUND


def _reason(gang: Gang, run: GroupRun | None, status: str, lacks: str) -> str:
    """The reason why a gang waits: missing pods (`lacks`) before the last search's reason; or MIXED."""
    if gang.problem or (lacks and status == PENDING):
        return gang.problem or lacks
    if run is None:
        return ""
    if status == PENDING:
        return run.reason
    return MIXED if run.mixed else ""


def _where(
    tree: Tree, placements: list[MemberPlacement], run: GroupRun | None, *, drawn: bool
) -> dict[str, str]:
    """Placement and ranks, as JSON or `drawn` as trees and tables of text."""
    ranked = in_rank_order(tree, placements, run.ranks if run is not None else {})
    members, ranks = (
        [placement.member for _, placement in ranked],
        [(placement.pod.name, rank) for rank, placement in ranked],
    )
    if drawn:
        return {"placement": drawn_placement(tree, members), "rank": drawn_ranks(ranks)}
    return {"placement": placement_text(tree, members), "rank": rank_text(ranks)}


def _begun(run: GroupRun | None, census: Census) -> dict[str, str]:
    """The begin of a gang without placed members; empty if no member waits."""
    if not census.waiting or (run is not None and run.end is not None):
        return dict.fromkeys(_OF_A_SEARCH, "")
    return _times(run.begin, run) if run is not None and run.begin is not None else {}


def _times(begin: float, run: GroupRun) -> dict[str, str]:
    fields = {
        "schedBeginTime": format_micro_time(begin),
        "schedSolverTimeMilli": str(round(run.solver_seconds * 1000)),
    }
    if run.end is not None:
        fields["schedEndTime"] = format_micro_time(run.end)
        fields["schedTotalTimeMilli"] = str(round((run.end - begin) * 1000))
    return fields


def _costs(tree: Tree, placements: list[MemberPlacement], gang: Gang, run: GroupRun) -> dict[str, str]:
    """The hop cost of the placement, and that of the best placement on the idle cluster."""
    fields = {
        "hopCost": str(hop_cost(tree, counts_of(tree, placements))),
        "optimal": "true" if run.optimal else "false",
    }
    if run.idle is not None:
        known, slots = run.idle
        run.idle = None
        run.best_hops = _best_hops(tree, gang, slots, len(placements)) if known is tree else None
    if run.best_hops is not None:
        fields["bestHopCost"] = str(run.best_hops)
    return fields


def _best_hops(tree: Tree, gang: Gang, slots: Int64, size: int) -> int | None:
    """The best hop cost; None if the constraints no longer hold on the tree, or the proof takes too long."""
    try:
        rules = rules_of(gang, tree)
    except ModelError:
        return None
    return best_hop_cost(tree, slots, size, rules, _steps(_MOST_STEPS))


def _steps(most: int) -> Callable[[], bool]:
    """A budget that expires after `most` calls."""
    asked = 0

    def over() -> bool:
        nonlocal asked
        asked += 1
        return asked > most

    return over
