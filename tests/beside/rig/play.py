"""Plays a world: each pod is decided by kube-scheduler and by Muster's engine on the same objects."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from scheduler_core.kube.errors import Invalid
from scheduler_core.model.pods.requests import ResizeRule
from tests.beside.rig import ours
from tests.beside.rig.outcome import UNDECIDED, Finding, Outcome, Undecided, differences, verdict
from tests.beside.rig.process import NAME, PROCESS, Process, compared, muster, offered
from tests.beside.rig.real import Real, Scheduling, State
from tests.beside.rig.world import Raw, World, named


@dataclass(frozen=True, slots=True)
class Step:
    """One pod, as it was written and as the server stored it, the objects before it came, both decisions.

    Where theirs decides nothing, that is a finding, and the pod goes as one that waits.
    `rule`: what resized pods count for on that server.
    """

    world: str
    pod: Raw
    stored: bytes
    state: State
    theirs: Outcome
    ours: Outcome
    findings: tuple[Finding, ...]
    rule: ResizeRule = ResizeRule.LARGEST_SUM


@dataclass(frozen=True, slots=True)
class Played:
    """The steps of a world, and the pods that the server refused, with its words."""

    steps: tuple[Step, ...]
    refused: tuple[str, ...]


def play(real: Real, world: World) -> Played:
    """Play a world on a cleared server. Each step starts from what the real one made of those before."""
    refused: list[str] = []
    real.clear()
    for obj in world.objects:
        try:
            real.put(obj)
        except Invalid as error:
            refused.append(f"{world.name}: {obj['kind']} {named(obj)}: {error}")
    steps = []
    with ExitStack() as running:
        scheduling = running.enter_context(real.scheduling())
        process = running.enter_context(muster(real)) if world.process else None
        for pod in world.pods:
            try:
                others = _by_process(real, process, pod) if process else ()
                step = _step(real, scheduling, world.name, pod, others)
            except Invalid as error:
                refused.append(f"{world.name}: {named(pod)}: {error}")
                continue
            steps.append(step)
            _settle(real, step, len(steps), patient=world.patient)
    return Played(tuple(steps), tuple(refused))


def _by_process(real: Real, process: Process, pod: Raw) -> tuple[Finding, ...]:
    """What Muster's process decides otherwise than its engine. What is bound to volumes stays as it is."""
    if pod["spec"].get("volumes"):
        return ()
    state, before = real.state(), real.ending()
    stored = real.offer(offered(pod))
    as_default = stored.replace(NAME.encode(), b"default-scheduler")
    simulated = ours.decide(state, as_default, time.time(), real.rule)
    try:
        decided = process.decision(pod, before)
    except Undecided as error:
        return (Finding(f"{PROCESS}{UNDECIDED}", verdict(simulated), str(error)),)
    finally:
        real.remove(pod)
    return compared(simulated, decided)


def _step(real: Real, scheduling: Scheduling, world: str, pod: Raw, others: tuple[Finding, ...]) -> Step:
    state = real.state()
    stored = real.offer(pod)
    decided = ours.decide(state, stored, time.time(), real.rule)
    try:
        theirs = scheduling.decision(named(pod))
        found = (*others, *differences(theirs, decided))
    except Undecided as error:
        theirs = Outcome(message=str(error))
        found = (*others, Finding(UNDECIDED, str(error), verdict(decided)))
    return Step(world, pod, stored, state, theirs, decided, found, real.rule)


def _settle(real: Real, step: Step, number: int, *, patient: bool) -> None:
    """A pod that got a node runs; one that waits goes, unless it waits for its victims to end."""
    if step.theirs.node:
        started = f"2026-01-01T01:{number:02d}:00Z"
        real.patch_status(step.pod, {"phase": "Running", "startTime": started})
    elif not (patient and step.theirs.nominated and step.theirs.victims == step.ours.victims):
        real.remove(step.pod)
