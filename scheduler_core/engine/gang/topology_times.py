"""Records the begin and end of a gang's scheduling, for its results (docs/topology.md#ranks-and-results).

The times are those of the gang as a whole: from its first pod until all members that it needs hold a node,
including waiting and failed attempts. Replacing a member later does not change them; a gang that lost all its
members begins again.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.gangs import Census
from scheduler_core.state.topology import GroupRun

# creationTimestamp has whole seconds: a pod seen within one second of it was seen when it was created.
_STAMP_SECONDS = 1.0


def record_attempt(
    state: ClusterState, key: str, run: GroupRun, waiting: Sequence[Pod], census: Census, came: float
) -> None:
    """Record an attempt before it is made. `came`: when the first of `waiting` was added to the queue."""
    held = census.allocated + census.succeeded
    begin = _seen(min(pod.created for pod in waiting), came)
    undone = not run.starters.isdisjoint(pod.uid for pod in waiting)
    same, run.came = run.end is None and run.came == came, came
    if run.begin is not None and (undone or same):
        # The placement of these pods was undone, or there was none yet: the same scheduling continues.
        run.replacing, run.end = False, None
    elif run.end is not None and held:
        run.replacing = True
    elif held and _start_later(state, key, waiting):
        run.replacing, run.begin = True, None
    else:
        others = (pod.created for pod in state.gangs.members(key).values()) if held else ()
        run.replacing, run.begin, run.end = False, min((begin, *others)), None
        run.solver_seconds, run.starters = 0.0, frozenset()


def record_placement(run: GroupRun, placed: Sequence[Pod], now: float) -> None:
    """Record that all members to be placed hold a node; replacements do not change the end."""
    if not run.replacing:
        run.starters |= {pod.uid for pod in placed}
    if not run.replacing or run.begin is None:
        run.end = now


def _seen(created: float, came: float) -> float:
    """When a pod began to wait: when it was seen, or its creation if this process started later."""
    return came if came < created + _STAMP_SECONDS else created


def _start_later(state: ClusterState, key: str, waiting: Sequence[Pod]) -> bool:
    """Whether all waiting pods were created after other members started; computed from the objects alone."""
    first = min(pod.created for pod in waiting)
    starts = (pod.start_time for pod in state.gangs.members(key).values() if pod.assigned)
    return any(start is not None and first > start for start in starts)
