"""The answer to when a group starts: an interval, and what it rests on."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.eta.forecast import Forecast, forecast
from scheduler_core.answers.eta.run_times import RunTimeRange, owner_kind
from scheduler_core.answers.why.subject import Subject
from scheduler_core.answers.worlds import World
from scheduler_core.printing.counts import counted
from scheduler_core.simulate.world import Simulation

Verdict = Literal["runs", "now", "expected", "unknown"]

# The shares of finished pods whose run times bound the interval, and the one between them.
EARLY: Final = 0.25
MIDDLE: Final = 0.5
LATE: Final = 0.9


class RunTimeSample(msgspec.Struct, frozen=True):
    """The run times, in seconds, of `finished` pods of an owner kind; `running` ones are likened to them."""

    namespace: str
    owner_kind: str
    finished: int
    running: int
    p25: float
    median: float
    p90: float


class Basis(msgspec.Struct, frozen=True):
    """What a forecast rests on: how many of the pods that hold nodes now have a known end, and from where.

    `deadlines`: pods that a deadline of theirs or of their Job ends. `leaving`: pods that terminate.
    `endless`: pods of which no end is known; they stay. `outlasting`: those of them that have run longer than
    every finished pod of their kind.
    """

    deadlines: int = 0
    leaving: int = 0
    endless: int = 0
    outlasting: int = 0
    samples: tuple[RunTimeSample, ...] = ()


class Eta(msgspec.Struct, frozen=True):
    """When a group starts, in seconds since the epoch.

    `expected`: it starts between `earliest` and `latest`, where `median` is what the median run time gives;
    `latest` is None if it is not known. `unknown`: `because` says why. `unread`: what the user may not read.
    """

    group: str
    verdict: Verdict
    now: float
    earliest: float | None = None
    median: float | None = None
    latest: float | None = None
    because: str = ""
    basis: Basis = Basis()
    unread: tuple[str, ...] = ()


def eta(world: World, subject: Subject, times: RunTimeRange, blind: tuple[str, ...] = ()) -> Eta:
    """Run the queue forward three times, with short, usual and long run times."""
    now = world.base.now
    if not subject.goal.group and not subject.waiting:
        return Eta(subject.text, "runs" if subject.placed else "unknown", now, because=_no_pods(subject))
    if blind:
        return _unknown(subject, now, f"you may not list {', '.join(blind)}", unread=blind)
    if not subject.waiting:
        return _unknown(subject, now, _no_pods(subject))
    basis = basis_of(world.base, times)
    early, middle, late = (
        world.ask(NOTHING, forecast(subject.goal, subject.waiting, times, share), Forecast)
        for share in (EARLY, MIDDLE, LATE)
    )
    if middle.starts == now:
        return Eta(subject.text, "now", now, now, now, now, basis=basis)
    known = [found.starts for found in (early, middle, late) if found.starts is not None]
    if not known:
        return _unknown(subject, now, _stuck(early), basis)
    latest = None if late.starts is None else max(known)
    because = "" if latest is not None else _stuck(late)
    return Eta(subject.text, "expected", now, min(known), middle.starts, latest, because, basis)


def basis_of(simulation: Simulation, times: RunTimeRange) -> Basis:
    """What is known of the ends of the pods that hold nodes."""
    deadlines = leaving = endless = outlasting = 0
    like: dict[tuple[str, str], int] = {}
    for pod in simulation.state.pods.values():
        if not pod.assigned or pod.finished:
            continue
        started = pod.start_time or pod.created
        sample = times.sample_of(pod)
        limited = times.deadline_of(pod, started) is not None
        if pod.deleted is not None:
            leaving += 1
        elif sample is not None and sample.quantile(EARLY, simulation.now - started) is not None:
            key = (pod.namespace, owner_kind(pod))
            like[key] = like.get(key, 0) + 1
            deadlines += limited
        elif limited:
            deadlines += 1
        else:
            endless += 1
            outlasting += sample is not None and sample.quantile(LATE) is not None
    samples = []
    for key, running in sorted(like.items()):
        found = times.samples[key]
        p25, median, p90 = (found.quantile(share) or 0.0 for share in (EARLY, MIDDLE, LATE))
        samples.append(RunTimeSample(*key, len(found.seconds), running, p25, median, p90))
    return Basis(deadlines, leaving, endless, outlasting, tuple(samples))


def _unknown(
    subject: Subject, now: float, because: str, basis: Basis | None = None, unread: tuple[str, ...] = ()
) -> Eta:
    return Eta(subject.text, "unknown", now, because=because, basis=basis or Basis(), unread=unread)


def _no_pods(subject: Subject) -> str:
    return "" if subject.placed and not subject.goal.group else "it has no pod that waits"


def _stuck(found: Forecast) -> str:
    if not found.ended and not found.endless:
        return found.message
    if not found.ended:
        return f"no end is known of {counted(found.endless, 'pod')} with a node; now: {found.message}"
    ended = f"{counted(found.ended, 'pod')} ended by then"
    stay = f"{found.endless} without a known end stay"
    return f"it does not start even when all ends that are known are past ({ended}, {stay}): {found.message}"
