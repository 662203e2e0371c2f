"""Plays a world: each pod is decided by kube-scheduler and by Muster's engine on the same objects."""

from __future__ import annotations

import time
from dataclasses import dataclass

from scheduler_core.kube.errors import Invalid
from tests.beside.rig import ours
from tests.beside.rig.outcome import Finding, Outcome, differences
from tests.beside.rig.real import Real, Scheduling, State
from tests.beside.rig.world import Raw, World, named


@dataclass(frozen=True, slots=True)
class Step:
    """One pod, the objects before it came, and both decisions. `refused`: the server did not take the pod."""

    world: str
    pod: Raw
    state: State
    theirs: Outcome
    ours: Outcome
    findings: tuple[Finding, ...]


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
    with real.scheduling() as scheduling:
        for pod in world.pods:
            try:
                steps.append(_step(real, scheduling, world.name, pod))
            except Invalid as error:
                refused.append(f"{world.name}: {named(pod)}: {error}")
    return Played(tuple(steps), tuple(refused))


def _step(real: Real, scheduling: Scheduling, world: str, pod: Raw) -> Step:
    state = real.state()
    stored = real.offer(pod)
    theirs = scheduling.decision(named(pod))
    decided = ours.decide(state, stored, time.time())
    _settle(real, pod, theirs)
    return Step(world, pod, state, theirs, decided, tuple(differences(theirs, decided)))


def _settle(real: Real, pod: Raw, theirs: Outcome) -> None:
    """A pod that got a node runs; one that waits goes, so that the next is alone."""
    if theirs.node:
        real.patch_status(pod, {"phase": "Running", "startTime": "2026-01-01T01:00:00Z"})
    else:
        real.remove(pod)
