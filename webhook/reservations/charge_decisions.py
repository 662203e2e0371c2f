"""Judges a batch of claims on one copy of a ledger of charges. Pure.

A charge without a visible pod is *provisional*: its pod is about to appear, failed, or was never created. It
takes room, but no claim is refused because of it. A claim that would fit without provisional charges is
announced: entered whether or not there is room, and judged again once the charges ahead of it are visible or
released. Later charges do not count against it unless their pods exist. (`reservation_decisions` does the
same for reservations.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import Charge, ReservationLedger, key_of
from scheduler_core.quota.policy import Refusal
from webhook.reservations.batches import Waiter
from webhook.reservations.quota_standing import QuotaStanding
from webhook.reservations.quota_usage import NamespaceUse


@dataclass(eq=False)
class Claim(Waiter):
    """The claim of a pod or resize, judged in the resources `names`, and its refusal, if any.

    `entered`: it was entered in the ledger just now, so it has to be verified. `before`: the charge that the
    ledger had for the pod until then.
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
        """The same claim, to be verified."""
        return Claim(
            self.asked, self.dry_run, again=True, ahead=self.ahead, names=self.names, before=self.before
        )


class ChargeView(NamedTuple):
    """The data on which a batch is decided; `fresh` if all of it was just read from the server."""

    ledger: ReservationLedger
    pods: Mapping[str, PodUse]
    where: QuotaStanding | None
    ours: frozenset[str]
    fresh: bool

    def tally(self, charges: Collection[Charge] = ()) -> NamespaceUse:
        """The use by the pods and by some charges."""
        return NamespaceUse(self.where, self.pods, charges, self.ours)


def judge(view: ChargeView, claims: Sequence[Claim]) -> ReservationLedger:
    """Set the outcome of each claim; returns the ledger to be written.

    The ledger of the view has only charges without a visible pod.
    Claims to be verified come first, then new ones, each of which sees those before it; dry runs see all.
    """
    charges = {charge.uid: charge for charge in view.ledger.charges}
    sure, new = view.tally() if view.fresh else None, []
    for claim in claims:
        claim.refusal, claim.conditional, claim.entered = None, False, False
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


def _judge_new(everything: NamespaceUse, sure: NamespaceUse | None, claim: Claim) -> None:
    """Enter a claim if there is room, or if there is room beside `sure` (None: not known)."""
    charge = claim.charge
    claim.ahead = frozenset(key_of(one) for one in everything.charges.values())
    claim.before = everything.charges.get(charge.uid)
    claim.refusal = everything.judge(charge, claim.names)
    if claim.refusal is not None and sure is not None:
        claim.refusal = sure.judge(charge, claim.names)
        claim.conditional = claim.refusal is None
    if claim.refusal is None and not claim.dry_run:
        announced = claim.conditional and (claim.before is None or claim.before.announced)
        everything.enter(msgspec.structs.replace(charge, announced=announced))
        claim.entered = True


def _judge_again(sure: NamespaceUse, charges: dict[str, Charge], claim: Claim) -> None:
    """Verify an entered claim beside existing pods and the provisional charges ahead of it."""
    own, uid = key_of(claim.charge), claim.charge.uid
    ahead = [one for one in charges.values() if key_of(one) in claim.ahead and key_of(one) != own]
    claim.refusal = _beside(sure, ahead, claim)
    if claim.refusal is not None and ahead:
        claim.refusal = _beside(sure, (), claim)
        claim.conditional = claim.refusal is None
        claim.ahead = frozenset(map(key_of, ahead))
    if claim.dry_run:
        return
    if claim.refusal is not None:
        del charges[uid]
        if claim.before is not None:
            charges[uid] = claim.before
    elif charges[uid].announced and not claim.conditional:
        # From now on Muster's schedulers count it.
        charges[uid] = msgspec.structs.replace(charges[uid], announced=False)
        claim.entered = True


def _beside(sure: NamespaceUse, charges: Collection[Charge], claim: Claim) -> Refusal | None:
    for one in charges:
        sure.enter(one)
    refusal = sure.judge(claim.charge, claim.names)
    for one in charges:
        sure.leave(one.uid)
    return refusal
