"""The whole answer to why work waits."""

from __future__ import annotations

from typing import Literal

import msgspec

from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.why.ladder import Examination, examine
from scheduler_core.answers.why.subject import Subject, members_of
from scheduler_core.answers.worlds import World

Verdict = Literal["runs", "ended", "starts", "waits"]


class Waits(msgspec.Struct, frozen=True):
    """Why a subject waits: `verdict` is `starts` if the next run of the scheduler starts it.

    `message` is what this run says about its first waiting pod, `told` what the condition of this pod says.
    `unread` is what the user may not read: checks that depend on it are `unknown`, and nothing can be tried.
    """

    subject: Subject
    verdict: Verdict
    message: str
    told: str
    examined: Examination
    unread: tuple[str, ...] = ()


def why(world: World, subject: Subject, unread: tuple[str, ...] = ()) -> Waits:
    """Run the scheduler once and look at the subject."""
    examined = world.ask(NOTHING, examine(subject, all_known=not unread), Examination)
    pods = members_of(world.base, subject)
    conditions = (pod.scheduled_condition for pod in pods)
    told = next((item.message for item in conditions if item is not None and item.message), "")
    verdict = _verdict(subject, examined, certain=not unread)
    message = told if unread else examined.trial.message
    return Waits(subject, verdict, message, told, examined, unread)


def _verdict(subject: Subject, examined: Examination, *, certain: bool) -> Verdict:
    if not subject.waiting and subject.placed:
        return "runs"
    if not subject.waiting and not subject.goal.group:
        return "ended"
    return "starts" if certain and examined.trial.starts else "waits"
