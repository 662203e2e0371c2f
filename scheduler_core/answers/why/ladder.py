"""All checks of waiting work after one run of the scheduler: which pass, which block, and the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from scheduler_core.answers.fixes.trial import RunTrial, try_subject
from scheduler_core.answers.why.group_rungs import gang_rung, topology_rung
from scheduler_core.answers.why.node_rungs import Refusals, load_rung, node_rung, refusals_of
from scheduler_core.answers.why.numbers import (
    QuotaAnswer,
    QuotaNumbers,
    RoomNumbers,
    profile_of,
    quota_answer,
    room_for,
)
from scheduler_core.answers.why.queue_place import Keeper, QueuePlace, keepers, queue_place
from scheduler_core.answers.why.quota_rungs import preemption_rung, quota_rungs
from scheduler_core.answers.why.rung import BLOCKED, UNKNOWN, Rung
from scheduler_core.answers.why.subject import Subject, members_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.gangs.gangs import Census, take_census


class Examination(msgspec.Struct, frozen=True):
    """What one run of the scheduler says about a subject.

    `trial` is the run; `rungs` are the checks in order. `quota`, `room` and `refusals` are the numbers behind
    them. `keepers` is waiting work for which nodes are kept.
    """

    trial: RunTrial
    rungs: tuple[Rung, ...]
    place: QueuePlace
    quota: tuple[QuotaNumbers, ...] = ()
    room: RoomNumbers | None = None
    refusals: tuple[Refusals, ...] = ()
    keepers: tuple[Keeper, ...] = ()


def examine(subject: Subject, *, all_known: bool = True) -> Callable[[Simulation], Examination]:
    """The question what keeps a subject from starting.

    `all_known`: nodes, and pods and quotas of all namespaces were read; else only the own namespace is known.
    """

    def question(simulation: Simulation) -> Examination:
        before = take_census(simulation.state, subject.group)
        trial = try_subject(subject, messages=True)(simulation)
        pods = members_of(simulation, subject)
        place = queue_place(simulation, subject)
        if not pods:
            rung = gang_rung(simulation, subject.group, before)
            return Examination(trial, (rung,) if rung is not None else (), place)
        quota = quota_answer(simulation, pods, subject.need, all_known=all_known)
        room = room_for(simulation, pods) if all_known else None
        refusals = refusals_of(simulation, pods) if all_known else ()
        rungs = tuple(_rungs(simulation, subject, pods, before, quota, room, refusals, trial, all_known))
        return Examination(trial, rungs, place, quota.numbers, room, refusals, keepers(simulation, subject))

    return question


def _rungs(
    simulation: Simulation,
    subject: Subject,
    pods: Sequence[Pod],
    before: Census,
    quota: QuotaAnswer,
    room: RoomNumbers | None,
    refusals: tuple[Refusals, ...],
    trial: RunTrial,
    all_known: bool,
) -> list[Rung]:
    if profile_of(simulation, pods) is None:
        name = pods[0].scheduler_name or "default-scheduler"
        known = ", ".join(sorted(simulation.scheduler.profiles))
        return [Rung("scheduler", BLOCKED, f"schedulerName is {name}; this scheduler serves {known}")]
    gated = [pod for pod in pods if pod.gates]
    found: list[Rung | None] = []
    if gated:
        gates = ", ".join(sorted({gate for pod in gated for gate in pod.gates}))
        found.append(
            Rung("gates", BLOCKED, f"{len(gated)} of {len(pods)} pods have scheduling gates: {gates}")
        )
    found.append(gang_rung(simulation, subject.group, before))
    found += quota_rungs(simulation, pods, subject.need, quota, all_known=all_known)
    if not all_known:
        found.append(Rung("quota", UNKNOWN, "sum(min): the ElasticQuotas of other namespaces were not read"))
    found.append(topology_rung(simulation, subject, pods))
    if all_known:
        found.append(load_rung(simulation, pods, refusals))
    found.append(node_rung(subject.need, room, refusals, known=all_known))
    if all_known and not (trial.starts and not trial.victims):
        found.append(preemption_rung(simulation, pods, subject.need, room, trial.victims))
    return [rung for rung in found if rung is not None]
