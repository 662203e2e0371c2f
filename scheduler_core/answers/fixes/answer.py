"""Why work waits together with what would start it: the value that every face prints."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler_core.answers.fixes.find import alone, find_fixes
from scheduler_core.answers.fixes.fix import Fix
from scheduler_core.answers.fixes.trial import Prover
from scheduler_core.answers.why.answer import Waits
from scheduler_core.answers.worlds import World


class WhyAnswer(msgspec.Struct, frozen=True):
    """Why a subject waits, and the smallest changes that start it, those that ask least first.

    `never`: why it could not start on this cluster even if no other pod was there; empty if it could. `tried`
    is how often the scheduler tried it in vain, as far as Events tell; None where that is not known.
    `complete`: the search for changes was not cut short.
    """

    waits: Waits
    fixes: tuple[Fix, ...] = ()
    never: str = ""
    tried: int | None = None
    complete: bool = True


def answer_of(
    world: World,
    waits: Waits,
    tried: int | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> WhyAnswer:
    """The answer with the fixes; none where the work does not wait, or not all was read.

    `expired` says when the time for the search is over.
    """
    if waits.verdict != "waits" or waits.unread:
        return WhyAnswer(waits, tried=tried)
    prover = Prover(world, waits.subject, waits.examined.trial, expired=expired)
    fixes = tuple(item.fix for item in find_fixes(prover, waits.examined))
    without = alone(world.base, waits.subject)
    never = without.message if without is not None and not without.starts else ""
    return WhyAnswer(waits, fixes, never, tried, not prover.is_cut)
