"""What is said of a group on the topology: status, placement, ranks and times, in the topology seed's fields.

An empty text means that a field must not be there. What a process did not see itself (times, after a restart)
it says nothing about.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from scheduler_core.arrays.index import Int64
from scheduler_core.controllers.gang_topology import unenforced
from scheduler_core.errors import ModelError
from scheduler_core.model import names
from scheduler_core.model.gang import Gang
from scheduler_core.state.census import take_census
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census, too_few
from scheduler_core.state.group_members import Seat, counts_of, in_rank_order, scheduler_of, seats_of
from scheduler_core.state.topology import GroupRun, TopologySettings, rules_of
from scheduler_core.topology.rank import best_hop_cost, hop_cost
from scheduler_core.topology.report import drawn_placement, drawn_ranks, placement_text, rank_text
from scheduler_core.topology.tree import Tree

PENDING: Final = "Pending"
PLACED: Final = "Placed"
BOUND: Final = names.MEMBER_BOUND
MIXED: Final = "members differ in their requests: placed with the largest request per resource"
# Left out, in this order, where all would be more than an object can hold; every pod has its rank as a label.
LONGEST_FIELDS: Final = ("placement", "rank")
_OF_A_SEARCH: Final = ("schedBeginTime", "schedSolverTimeMilli")
_OF_A_PLACEMENT: Final = ("schedEndTime", "schedTotalTimeMilli", "hopCost", "bestHopCost", "optimal")

# The search on the idle cluster is for a figure, and has no clock: this many steps, less than a second.
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
    seats = seats_of(state, gang, tree)
    if seats:
        settings = state.topology.settings.get(scheduler, TopologySettings())
        # A PodGroup's are in an annotation, which is JSON whatever is asked.
        fields |= _where(tree, seats, run, drawn=settings.seed_texts and gang.group is not None)
    if run is not None and run.begin is not None:
        fields |= _times(run.begin, run)
    if run is not None and seats and run.end is not None:
        fields |= _costs(tree, seats, gang, run)
    return fields


def shortened(fields: dict[str, str], limit: int) -> dict[str, str]:
    """The fields, without the longest where all together have more than `limit` characters."""
    kept = dict(fields)
    for name in LONGEST_FIELDS:
        if sum(map(len, kept.values())) > limit:
            kept[name] = ""
    return kept


def _status(state: ClusterState, gang: Gang, census: Census) -> str:
    """Bound once the API has the bindings of all members, Placed while some are under way."""
    if gang.problem or census.allocated + census.succeeded < gang.min_members:
        return PENDING
    assumed = (state.placed[uid].assumed for uid in state.gangs.members(gang.key) if uid in state.placed)
    return PLACED if any(assumed) else BOUND


def _reason(gang: Gang, run: GroupRun | None, status: str, lacks: str) -> str:
    """`lacks` says which pods are missing now; what a search said is of the pods that were there then."""
    if gang.problem or (lacks and status == PENDING):
        return gang.problem or lacks
    if run is None:
        return ""
    if status == PENDING:
        return run.reason
    return MIXED if run.mixed else ""


def _where(tree: Tree, seats: list[Seat], run: GroupRun | None, *, drawn: bool) -> dict[str, str]:
    """Placement and ranks, `drawn` in the seed's way."""
    ranked = in_rank_order(tree, seats, run.ranks if run is not None else {})
    members, ranks = [seat.member for _, seat in ranked], [(seat.pod.name, rank) for rank, seat in ranked]
    if drawn:
        return {"placement": drawn_placement(tree, members), "rank": drawn_ranks(ranks)}
    return {"placement": placement_text(tree, members), "rank": rank_text(ranks)}


def _begun(run: GroupRun | None, census: Census) -> dict[str, str]:
    """Since when a group of which nobody holds a node is on its way; that it is not where nobody waits."""
    if not census.waiting or (run is not None and run.end is not None):
        return dict.fromkeys(_OF_A_SEARCH, "")
    return _times(run.begin, run) if run is not None and run.begin is not None else {}


def _times(begin: float, run: GroupRun) -> dict[str, str]:
    fields = {
        "schedBeginTime": _time(begin),
        "schedSolverTimeMilli": str(round(run.solver_seconds * 1000)),
    }
    if run.end is not None:
        fields["schedEndTime"] = _time(run.end)
        fields["schedTotalTimeMilli"] = str(round((run.end - begin) * 1000))
    return fields


def _costs(tree: Tree, seats: list[Seat], gang: Gang, run: GroupRun) -> dict[str, str]:
    """The sum of distances over all pairs of members, and that of the best placement on the idle cluster."""
    fields = {
        "hopCost": str(hop_cost(tree, counts_of(tree, seats))),
        "optimal": "true" if run.optimal else "false",
    }
    if run.idle is not None:
        known, slots = run.idle
        run.idle = None
        run.best_hops = _best_hops(tree, gang, slots, len(seats)) if known is tree else None
    if run.best_hops is not None:
        fields["bestHopCost"] = str(run.best_hops)
    return fields


def _best_hops(tree: Tree, gang: Gang, slots: Int64, size: int) -> int | None:
    """None where the constraints no longer hold on the tree, or the proof takes too long."""
    try:
        rules = rules_of(gang, tree)
    except ModelError:
        return None
    return best_hop_cost(tree, slots, size, rules, _steps(_MOST_STEPS))


def _steps(most: int) -> Callable[[], bool]:
    """A budget that is over once it was asked for `most` times."""
    asked = 0

    def over() -> bool:
        nonlocal asked
        asked += 1
        return asked > most

    return over


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
