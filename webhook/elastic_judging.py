"""One batch of claims judged on one copy of a ledger of charges. Pure.

A charge that no pod shows is *doubtful*: its pod is on its way, failed, or never was one. It takes room, but
nobody is refused because of it: who would fit without is announced, entered whether or not there is room, and
judged again once those that were there before are visible or released. What comes later never counts against
it, unless it exists. (`judging` does the same for reservations.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Charge, ReservationLedger
from scheduler_core.quota.policy import Refusal
from scheduler_core.quota.provisional import key_of
from webhook.batches import Waiter
from webhook.elastic_use import Standing, Tally


@dataclass(eq=False)
class Claim(Waiter):
    """One pod or resize: judged in the resources `names`; why it was refused, once it was.

    `entered`: it stands in the ledger since this look, so that it has to be looked at once more. `before` is
    what the ledger said of the pod until then.
    """

    names: frozenset[str] = frozenset()
    refusal: Refusal | None = None
    entered: bool = False
    before: Charge | None = None

    @property
    def charge(self) -> Charge:
        assert isinstance(self.asked, Charge)
        return self.asked

    def once_more(self) -> Claim:
        """The same claim, to be looked at again."""
        return Claim(
            self.asked, self.dry_run, again=True, ahead=self.ahead, names=self.names, before=self.before
        )


class View(NamedTuple):
    """What a batch is judged on; `fresh` if all of it was read from the server just now.

    `ledger` has no charges but those that no pod shows.
    """

    ledger: ReservationLedger
    pods: Mapping[str, PodUse]
    where: Standing | None
    ours: frozenset[str]
    fresh: bool

    def tally(self, charges: Collection[Charge] = ()) -> Tally:
        """What the pods use, and some charges."""
        return Tally(self.where, self.pods, charges, self.ours)


def judge(view: View, claims: Sequence[Claim]) -> ReservationLedger:
    """Set what became of each claim; the ledger as it should be.

    Those that were entered before come first. Then requests that are for real, each sees those before it; dry
    runs see all of them.
    """
    charges = {charge.uid: charge for charge in view.ledger.charges}
    sure, new = view.tally() if view.fresh else None, []
    for claim in claims:
        claim.refusal, claim.doubt, claim.entered = None, False, False
        if sure is not None and claim.again and (claim.dry_run or claim.charge.uid in charges):
            _judge_again(sure, charges, claim)
        else:
            new.append(claim)
    everything = view.tally(charges.values())
    for claim in sorted(new, key=lambda claim: claim.dry_run):
        _judge_new(everything, sure, claim)
        if claim.entered:
            charges[claim.charge.uid] = everything.charges[claim.charge.uid]
    return msgspec.structs.replace(view.ledger, charges=tuple(charges[uid] for uid in sorted(charges)))


def _judge_new(everything: Tally, sure: Tally | None, claim: Claim) -> None:
    """Enter one if there is room, or if there would be beside what is `sure` (None: that is not known)."""
    charge = claim.charge
    claim.ahead = frozenset(key_of(one) for one in everything.charges.values())
    claim.before = everything.charges.get(charge.uid)
    claim.refusal = everything.judge(charge, claim.names)
    if claim.refusal is not None and sure is not None:
        claim.refusal = sure.judge(charge, claim.names)
        claim.doubt = claim.refusal is None
    if claim.refusal is None and not claim.dry_run:
        announced = claim.doubt and (claim.before is None or claim.before.announced)
        everything.enter(msgspec.structs.replace(charge, announced=announced))
        claim.entered = True


def _judge_again(sure: Tally, charges: dict[str, Charge], claim: Claim) -> None:
    """Whether one that was entered fits beside what exists and what is still doubtful ahead of it."""
    own, uid = key_of(claim.charge), claim.charge.uid
    ahead = [one for one in charges.values() if key_of(one) in claim.ahead and key_of(one) != own]
    claim.refusal = _beside(sure, ahead, claim)
    if claim.refusal is not None and ahead:
        claim.refusal = _beside(sure, (), claim)
        claim.doubt = claim.refusal is None
        claim.ahead = frozenset(map(key_of, ahead))
    if claim.dry_run:
        return
    if claim.refusal is not None:
        del charges[uid]
        if claim.before is not None:
            charges[uid] = claim.before
    elif charges[uid].announced and not claim.doubt:
        # Only now do our schedulers count it.
        charges[uid] = msgspec.structs.replace(charges[uid], announced=False)
        claim.entered = True


def _beside(sure: Tally, charges: Collection[Charge], claim: Claim) -> Refusal | None:
    for one in charges:
        sure.enter(one)
    refusal = sure.judge(claim.charge, claim.names)
    for one in charges:
        sure.leave(one.uid)
    return refusal
