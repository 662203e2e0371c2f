"""A change that starts waiting work, and the order in which changes are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.trial import Prover, RunTrial
from scheduler_core.model.quantity import is_bytes

# The kinds of fixes in the order of what they ask: first a setting, then less of the work itself, then what
# others have, last new machines.
KINDS: Final = (
    "pods-end",
    "gates",
    "group",
    "more-pods",
    "uncordon",
    "label",
    "toleration",
    "topology",
    "max",
    "min",
    "max-and-min",
    "per-member",
    "members",
    "priority",
    "delete-pods",
    "add-nodes",
    "two-changes",
)


class Amount(msgspec.Struct, frozen=True):
    """A field that changes from `before` to `after`, in steps of `step`, in the unit of the resource."""

    field: str
    before: int | None
    after: int
    step: int = 1


class Fix(msgspec.Struct, frozen=True):
    """A change that starts the work: the engine started it with the change, and not with one step less.

    `objects` are what it changes, `amounts` by how much. `what_if` are the arguments with which
    `kubectl elasticquota what-if` shows it. `evicts` are pods that are evicted then, `delays` are pods that
    start only without the change; both beside those of a run without changes.
    """

    kind: str
    text: str
    objects: tuple[str, ...] = ()
    amounts: tuple[Amount, ...] = ()
    what_if: str = ""
    evicts: tuple[str, ...] = ()
    delays: tuple[str, ...] = ()


class TriedFix(msgspec.Struct, frozen=True):
    """A fix with the changes that were tried."""

    fix: Fix
    changes: Changes


def proven(prover: Prover, fix: Fix, changes: Changes) -> TriedFix | None:
    """The candidate with its consequences; None if the work does not start."""
    trial = prover.run(changes)
    if not trial.starts:
        return None
    return TriedFix(with_consequences(fix, prover.before, trial), changes)


def with_consequences(fix: Fix, before: RunTrial, trial: RunTrial) -> Fix:
    """The fix with the pods that lose by it."""
    evicts = tuple(sorted(set(trial.evicted) - set(before.evicted)))
    delays = tuple(sorted(set(before.started) - set(trial.started) - set(trial.evicted)))
    return msgspec.structs.replace(fix, evicts=evicts, delays=delays)


def in_order(found: Iterable[TriedFix]) -> list[TriedFix]:
    """By how little they ask: first those by which nobody loses, then by kind, then by number of objects."""
    return sorted(
        found,
        key=lambda item: (
            _losers(item.fix),
            KINDS.index(item.fix.kind),
            len(item.fix.objects),
            sum(abs(amount.after - (amount.before or 0)) for amount in item.fix.amounts),
        ),
    )


def _losers(fix: Fix) -> int:
    """How many pods lose by a fix."""
    deleted = len(fix.objects) if fix.kind == "delete-pods" else 0
    return len(fix.evicts) + len(fix.delays) + deleted


def step_of(resource: str) -> int:
    """The step in which amounts are searched: 1 Mi of bytes, 1 milli of CPU, 1 of all others."""
    return 1 << 20 if is_bytes(resource) else 1
