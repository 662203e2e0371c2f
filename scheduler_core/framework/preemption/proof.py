"""The proof: victims are taken out of the state, all filters run again, and whoever can be spared stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.preemption.demand import Demand
from scheduler_core.framework.preemption.gangs import Torn, torn_gangs
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial

# What is given back together, step by step; the next step only after the one before.
_Unit = list[list[Pod]]


class Found(NamedTuple):
    """A node, and the victims without any one of which the pod does not fit; `torn` gangs go as a whole."""

    slot: int
    victims: list[Pod]
    torn: list[Torn]


class Proof:
    """Tries victims of one preemptor. `barred` collects gangs that would have to go, but may not."""

    def __init__(self, state: ClusterState, now: float, evaluation: Evaluation, demand: Demand) -> None:
        self._state = state
        self._now = now
        self._evaluation = evaluation
        self._demand = demand
        self.barred: set[str] = set()

    def on(self, slot: int, pods: Sequence[Pod], leaving: Sequence[str] = ()) -> Found | None:
        """The victims among `pods`, which are in the order in which they are to be given back.

        None if the pod does not fit the node even when all are gone. Pods in `leaving` (uids) are taken as
        gone already. The state is as before afterwards.
        """
        return self._found(slot, pods, leaving, lambda at: at if self._evaluation.fits(at) else -1)

    def anywhere(self, found: Found, leaving: Sequence[str], room: Callable[[], Iterable[int]]) -> Found:
        """Spare victims without which the pod fits another node, one of those with `room` as the state is."""
        with Trial(self._state, self._now) as trial:
            _lift(trial, [*leaving, *(pod.uid for pod in found.victims)])
            if all(slot == found.slot for slot in room()):
                return found

        def look(at: int) -> int:
            if self._evaluation.fits(at):
                return at
            return next((slot for slot in room() if self._evaluation.fits(slot)), -1)

        again = self._found(found.slot, found.victims, leaving, look)
        return found if again is None else again

    def _found(
        self, slot: int, pods: Sequence[Pod], leaving: Sequence[str], look: Callable[[int], int]
    ) -> Found | None:
        """`look` says where the pod fits now, the node that is given if it can be, or -1."""
        leaving = self._all_leaving() if self._demand.pod.pod_affinity.required else leaving
        kept = self._needed(slot, [[[pod]] for pod in pods], leaving, look)
        if kept is None:
            return None
        torn = torn_gangs(self._state, kept[1])
        if torn:
            barred = {gang.key for gang in torn if not all(self._may_go(pod) for pod in gang.members)}
            self.barred |= barred
            kept = None if barred else self._needed(slot, _units(kept[1], torn), leaving, look)
        if kept is None:
            return None
        slot, victims = kept
        return Found(slot, victims, torn_gangs(self._state, victims))

    def _needed(
        self, slot: int, units: list[_Unit], leaving: Sequence[str], look: Callable[[int], int]
    ) -> tuple[int, list[Pod]] | None:
        """The node and the victims that are left when all that can be spared were given back, in order."""
        with Trial(self._state, self._now) as trial:
            _lift(trial, leaving)
            _lift(trial, (pod.uid for unit in units for step in unit for pod in step))
            slot = look(slot)
            if slot < 0:
                return None
            again = True
            while again:
                again = failed = False
                for unit in units:
                    while unit:
                        for pod in unit[0]:
                            trial.restore(pod.uid)
                        at = look(slot)
                        if at < 0:
                            _lift(trial, (pod.uid for pod in unit[0]))
                            failed = True
                            break
                        # Spread looks at the least of all domains: who was refused may stay now.
                        slot, again = at, again or failed
                        del unit[0]
        return slot, [pod for unit in units for step in unit for pod in step]

    def _all_leaving(self) -> list[str]:
        """Uids of all that are on their way out: nobody who needs others beside it may count on these."""
        return [pod.uid for pod in self._state.table.leaving_pods()]

    def _may_go(self, pod: Pod) -> bool:
        return bool(self._demand.eligible[self._state.placed[pod.uid].row])


def _units(victims: Sequence[Pod], torn: Sequence[Torn]) -> list[_Unit]:
    """Single victims first; then gangs, whose surplus may stay only where the quorum stays."""
    members = {pod.uid for gang in torn for pod in gang.members}
    units: list[_Unit] = [[[pod]] for pod in victims if pod.uid not in members]
    for gang in torn:
        surplus = [[pod] for pod in gang.members[gang.quorum :]]
        units.append([list(gang.members[: gang.quorum]), *surplus])
    return units


def _lift(trial: Trial, uids: Iterable[str]) -> None:
    for uid in uids:
        trial.lift(uid)
