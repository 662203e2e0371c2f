"""The gangs in a simulation's report: placement on the topology, ranks, results and disruption budgets."""

from __future__ import annotations

import json
from typing import Any, Final

from scheduler_core.model.kinds import COMPOSITE_POD_GROUPS, POD_GROUPS
from scheduler_core.model.names import SAKKARA_GROUP_LABEL
from scheduler_core.simulate.objects import Objects
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.group_members import in_rank_order, placed_members, scheduler_of
from scheduler_core.state.topology import is_constrained
from scheduler_core.topology.report import placement_text

# A placement search may check its time limit this often.
TICKS_PER_SECOND: Final = 1_000_000


class TickClock:
    """A clock that advances a little on every read, so that searches end after a fixed number of steps."""

    def __init__(self) -> None:
        self._ticks = 0

    def __call__(self) -> float:
        """Seconds since the simulation began."""
        self._ticks += 1
        return self._ticks / TICKS_PER_SECOND


# The result fields in the data of a group ConfigMap.
RESULTS: Final = (
    "status", "reason", "placement", "rank", "hopCost", "bestHopCost", "optimal",
    "schedBeginTime", "schedEndTime", "schedTotalTimeMilli",
)  # fmt: skip


def group_statuses(config_maps: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """The results in group ConfigMaps, by `ConfigMap namespace/name`."""
    found: dict[str, dict[str, str]] = {}
    for obj in config_maps:
        meta, data = obj["metadata"], obj.get("data") or {}
        if SAKKARA_GROUP_LABEL in (meta.get("labels") or {}):
            results = {name: data[name] for name in RESULTS if name in data}
            found[f"ConfigMap {meta['namespace']}/{meta['name']}"] = results
    return found


def groups_report(state: ClusterState) -> dict[str, dict[str, Any]]:
    """By `namespace/name` of every gang with placed members: the placement as a tree, and ranks in order."""
    found: dict[str, dict[str, Any]] = {}
    for key in sorted(state.gangs.gangs):
        gang, run = state.gangs.gangs[key], state.topology.runs.get(key)
        scheduler = scheduler_of(state, gang)
        if not is_constrained(gang) or scheduler not in state.topology.settings:
            continue
        tree = state.topology.tree_of(gang, scheduler)
        given = run.ranks if run is not None else {}
        placements = in_rank_order(tree, placed_members(state, gang, tree), given)
        if placements:
            found[f"{gang.ref.namespace}/{gang.ref.name}"] = {
                "placement": json.loads(
                    placement_text(tree, [placement.member for _, placement in placements])
                ),
                "ranks": [[placement.pod.name, rank] for rank, placement in placements],
            }
    return found


def conditions_report(objects: Objects) -> list[dict[str, Any]]:
    """The group objects, of every dialect, with their conditions: `group` is namespace/name."""
    found = []
    for obj in (*objects.all(POD_GROUPS.kind), *objects.all(COMPOSITE_POD_GROUPS.kind)):
        given = (obj.get("status") or {}).get("conditions")
        # The status of a kind that the scheduler does not read may be anything.
        told = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
        found.append(
            {
                "group": f"{obj['metadata']['namespace']}/{obj['metadata']['name']}",
                "kind": obj["kind"],
                "apiVersion": obj.get("apiVersion") or POD_GROUPS.api_version,
                "conditions": told,
            }
        )
    return found


def budgets_report(state: ClusterState) -> dict[str, Any]:
    """The minAvailable of each protected gang, by `namespace/name`."""
    return {
        f"{budget.namespace}/{budget.group}": budget.min_available
        for budget in state.gangs.budgets.own.values()
    }
