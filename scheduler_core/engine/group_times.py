"""Since when a group is on its way, and which placement the times in its results are of.

They are of the group as a whole: from its first pod until all that it needs hold a node, waiting and trials
in vain included (topology seed, "timing statistics"). A member that is replaced later changes none of them, a
group that lost all its members begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census
from scheduler_core.state.topology import GroupRun

# The API gives times of creation in whole seconds: who was seen this soon after was seen as it was created.
_STAMP_SECONDS = 1.0


def note_trial(
    state: ClusterState, key: str, run: GroupRun, waiting: Sequence[Pod], census: Census, came: float
) -> None:
    """Before a trial: what is measured from now on. `came` is when the first of `waiting` was seen here."""
    held = census.allocated + census.succeeded
    begin = _seen(min(pod.created for pod in waiting), came)
    undone = not run.starters.isdisjoint(pod.uid for pod in waiting)
    same, run.came = run.end is None and run.came == came, came
    if run.begin is not None and (undone or same):
        # What was decided for these very pods came to nothing, or there was no place so far: it goes on.
        run.replacing, run.end = False, None
    elif run.end is not None and held:
        run.replacing = True
    elif held and _start_later(state, key, waiting):
        run.replacing, run.begin = True, None
    else:
        others = (pod.created for pod in state.gangs.members(key).values()) if held else ()
        run.replacing, run.begin, run.end = False, min((begin, *others)), None
        run.solver_seconds, run.starters = 0.0, frozenset()


def note_placed(run: GroupRun, placed: Sequence[Pod], now: float) -> None:
    """All that were to be placed hold a node: the end, unless they only take the place of others."""
    if not run.replacing:
        run.starters |= {pod.uid for pod in placed}
    if not run.replacing or run.begin is None:
        run.end = now


def _seen(created: float, came: float) -> float:
    """When a pod began to wait: as it was seen, or as it was created where this process came late."""
    return came if came < created + _STAMP_SECONDS else created


def _start_later(state: ClusterState, key: str, waiting: Sequence[Pod]) -> bool:
    """Whether all who wait were created after others had started: after a restart only objects tell."""
    first = min(pod.created for pod in waiting)
    starts = (pod.start_time for pod in state.gangs.members(key).values() if pod.assigned)
    return any(start is not None and first > start for start in starts)
