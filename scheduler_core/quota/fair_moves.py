"""Fair moves: what a quota that borrows less may take from one that borrows more (docs/quota.md#the-algebra).

A fair move concerns work that would borrow, and that the sum of min or the max of a group refuses. Its
*contested* resources are those that the work asks for and of which these have too little left. A set of
victims is fair if for the quota v of each victim, without the set, and the quota p of the work, with it:

(a) v keeps its min of every resource of which it used at least its min before;
(b) v borrows less of a contested resource than before;
(c) in each contested resource by itself, the share of p is at most that of v;
(d) the share of p as a whole is at most that of v: the largest share over all resources counts first, then
    the next one, and so on;
(e) groups above both lose no more of any resource than the work asks for.

In a tree of quotas, p and v are the children of the lowest common ancestor (`fair_sides`); (a) and (b) hold
for all nodes from v down to the quota of the victim, and all victims have the same p.

Shares are divided by weights. A quota of weight 0 takes nothing, and gives all that it borrows: (c) and (d)
hold for it whatever it borrows. By (d) fair moves come to an end. (a) and (c) are floors: the least that v
must keep of each resource (`floors`). For (d) one resource is enough; which one is a guess, so that the floor
may refuse a fair set, and only `is_fair` proves one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.aggregate import sum_limits
from scheduler_core.quota.fair_shares import staying
from scheduler_core.quota.fair_sides import (
    GivingNode,
    Meeting,
    Side,
    giving_nodes,
    meeting,
    shares,
    sides_above,
)
from scheduler_core.quota.group_limits import beyond_group_max
from scheduler_core.quota.ledger import QuotaLedger, shift
from scheduler_core.quota.policy import may_reclaim

_NO_QUOTAS: Final[Mapping[str, ResourceList]] = {}


class FairMove(msgspec.Struct, frozen=True):
    """The claim of a quota on what others borrow.

    `short`: of each contested resource what is lacking, always above 0. `borrows`: what the quota borrows
    with the work, by resource, without zeros. `totals`: the sums of min, the denominators of all shares.
    `largest`: the share of the quota as a whole, with the work. `asked` is the charge of the work. In a tree,
    `above` are the groups above the quota as taking sides, and `inside` is the lowest of them whose max has
    no room for the work: then only pods inside it can make room.
    """

    quota: ElasticQuota
    short: dict[str, int]
    borrows: dict[str, int]
    totals: dict[str, int]
    largest: Fraction
    asked: ResourceList
    above: tuple[Side, ...] = ()
    inside: str = ""

    @property
    def weight(self) -> Fraction:
        """The weight of the quota, never 0."""
        return self.quota.sharing.weight

    def side(self, level: int) -> Side:
        """The side that takes: the quota itself (0), or a group above it."""
        return self.above[level - 1] if level else Side(self.borrows, self.weight, self.largest)


def fair_move(
    ledger: QuotaLedger,
    quota: ElasticQuota,
    charge: ResourceList,
    nominated: ResourceList,
    nominated_total: ResourceList,
    nominated_by: Mapping[str, ResourceList] = _NO_QUOTAS,
) -> FairMove | None:
    """The fair move that work of this charge needs, or None if it needs none or none can help.

    `nominated` and `nominated_total` are the use of nominated pods that go before it, as in `policy.admit`;
    the latter with what groups keep back of it. `nominated_by` is that use by namespace.
    None for work that may reclaim (then the min decides), that the max refuses, or that quotas and groups
    admit once the pods on their way out are gone, that borrows nothing of what shares count, and for quotas
    of weight 0.
    """
    if not (ledger.borrowing.fair_moves and quota.sharing.weight):
        return None
    if may_reclaim(ledger, quota, charge, nominated):
        return None
    used = staying(ledger, quota)
    asked = {name: value for name, value in charge.items() if value > 0}
    own = {name: used.get(name, 0) + nominated.get(name, 0) for name in {*used, *nominated}}
    if any(own.get(name, 0) + value > quota.max.get(name, math.inf) for name, value in asked.items()):
        return None
    limits = sum_limits(ledger, quota, charge, nominated)
    total = ledger.in_use(after_leaving=True)
    short: dict[str, int] = {}
    for name in sorted(asked):
        if name in limits:
            lacks = total.get(name, 0) + nominated_total.get(name, 0) + asked[name] - limits[name]
            if lacks > 0:
                short[name] = lacks
    inside = ""
    for group, name, lacks in beyond_group_max(ledger, quota, asked, nominated, nominated_by):
        inside = inside or group
        short[name] = max(lacks, short.get(name, 0))
    if not short or not all(limits.get(name) for name in short):
        return None
    borrows = {}
    for name in ledger.costs.names(ledger.total_min):
        over = own.get(name, 0) + asked.get(name, 0) - quota.min.get(name, 0)
        if over > 0:
            borrows[name] = over
    totals = dict(ledger.total_min)
    if not any(asked.get(name) and name in totals for name in borrows):
        return None
    largest = max(shares(ledger, borrows, quota.sharing.weight), default=Fraction(0))
    above = tuple(sides_above(ledger, quota, asked, nominated, nominated_by))
    return FairMove(quota, short, borrows, totals, largest, asked, above, inside)


def floors(
    ledger: QuotaLedger,
    move: FairMove,
    victim: ElasticQuota,
    spent: Mapping[str, ResourceList] = _NO_QUOTAS,
) -> dict[str, int] | None:
    """The least use that a quota must keep of each resource, by (a), (c) and (d); None if it gives nothing.

    It gives nothing if it does not exceed the floor of any contested resource, or is below another floor. In
    a tree the same holds for every group on the giving side; `spent` is what others already give of them.
    """
    at = meeting(ledger, move.quota, victim)
    side = move.side(at.level)
    if not side.weight or not _is_inside(move, at):
        return None
    *lower, top = giving_nodes(ledger, victim, at.giving, spent)
    found = _floors_of(move, side, top, costed=bool(ledger.costs))
    for node in reversed(lower):
        if found is not None:
            found = _floors_below(move, node, top, found)
        top = node
    return found


def _floors_of(move: FairMove, side: Side, node: GivingNode, *, costed: bool) -> dict[str, int] | None:
    """What a giving side keeps. Where flavors have costs, only the proof tells what (d) allows."""
    used, low, weight = node
    found = {}
    for name in move.short:
        keeps = found[name] = low.get(name, 0) + _scaled(side.borrows.get(name, 0), weight, side.weight)
        if used.get(name, 0) < keeps:
            return None
    if all(used.get(name, 0) == keeps for name, keeps in found.items()):
        return None
    for name, least in low.items():
        if name not in found and used.get(name, 0) >= least > 0:
            found[name] = least
    if not weight or costed:
        return found
    # By (d): what is left to it of the resource in which it will borrow most, if it gives what is lacking.
    name = max(
        (name for name, total in move.totals.items() if total > 0),
        key=lambda name: Fraction(
            used.get(name, 0) - low.get(name, 0) - move.short.get(name, 0), move.totals[name]
        ),
    )
    keeps = low.get(name, 0) + _scaled(1, weight * move.totals[name] * side.largest, Fraction(1))
    found[name] = max(keeps, found.get(name, 0))
    return found if used.get(name, 0) >= found[name] else None


def _floors_below(
    move: FairMove, node: GivingNode, above: GivingNode, keeps: Mapping[str, int]
) -> dict[str, int] | None:
    """What a node keeps below a giving node: its min, and as much as the node above it must keep."""
    found = {}
    for name in {**move.short, **node.min, **keeps}:
        used, low = node.used.get(name, 0), node.min.get(name, 0)
        if used < low:
            if name in move.short:
                return None
            low = 0
        found[name] = low
        if name in keeps:
            found[name] = max(low, used - (above.used.get(name, 0) - keeps[name]))
    if all(node.used.get(name, 0) == found[name] for name in move.short):
        return None
    return found


def _is_inside(move: FairMove, at: Meeting) -> bool:
    """Whether quotas that meet there are both below the group whose max has no room for the work, if any."""
    return not move.inside or any(group.name == move.inside for group in at.common)


def gives_any(ledger: QuotaLedger, move: FairMove) -> bool:
    """Whether any quota exceeds what it keeps."""
    own = move.quota.namespace
    return any(
        quota.namespace != own and floors(ledger, move, quota) is not None for quota in ledger.quotas()
    )


def _scaled(amount: int, weight: Fraction, by: Fraction) -> int:
    """An amount times `weight` divided by `by`, rounded up."""
    above, below = amount * weight.numerator * by.denominator, weight.denominator * by.numerator
    return -(-above // below)


def is_fair(ledger: QuotaLedger, move: FairMove, taken: Mapping[str, ResourceList]) -> bool:
    """Whether a set of victims is fair; `taken` is what they use, by namespace. The proof of (a) to (e)."""
    lost: dict[str, dict[str, int]] = {}
    gives: list[tuple[ElasticQuota, Meeting]] = []
    for namespace, amounts in taken.items():
        quota = ledger.quota_of(namespace)
        if quota is None or quota.namespace == move.quota.namespace:
            return False
        gives.append((quota, meeting(ledger, move.quota, quota)))
        for group in ledger.groups_above(namespace):
            shift(lost.setdefault(group.name, {}), amounts)
    # All are compared with one side.
    return len({at.level for _, at in gives}) <= 1 and all(
        _gives(ledger, move, quota, at, lost, taken[quota.namespace]) for quota, at in gives
    )


def _gives(
    ledger: QuotaLedger,
    move: FairMove,
    quota: ElasticQuota,
    at: Meeting,
    lost: Mapping[str, ResourceList],
    amounts: ResourceList,
) -> bool:
    """Whether a quota may give these amounts, and the groups above it what they lose in all."""
    side = move.side(at.level)
    if not side.weight or not _is_inside(move, at):
        return False
    for group in at.common:
        if any(value > move.asked.get(name, 0) for name, value in lost[group.name].items()):
            return False
    nodes = giving_nodes(ledger, quota, at.giving, _NO_QUOTAS)
    losses = [amounts, *(lost[group.name] for group in at.giving)]
    if not all(_keeps(move, node, loss) for node, loss in zip(nodes, losses, strict=True)):
        return False
    used, low, weight = nodes[-1]
    if not weight:
        return True
    loss = losses[-1]
    names = ledger.costs.names(move.totals)
    borrowed = {name: max(0, used.get(name, 0) - loss.get(name, 0) - low.get(name, 0)) for name in names}
    if any(borrowed[name] * side.weight < side.borrows.get(name, 0) * weight for name in move.short):
        return False
    own = sorted(shares(ledger, side.borrows, side.weight), reverse=True)
    return own <= sorted(shares(ledger, borrowed, weight), reverse=True)


def _keeps(move: FairMove, node: GivingNode, loss: ResourceList) -> bool:
    """(a) and (b): whether a node keeps its min, and gives of a contested resource that it borrows."""
    used = node.used
    for name, low in node.min.items():
        if used.get(name, 0) >= low > used.get(name, 0) - loss.get(name, 0):
            return False
    return any(loss.get(name, 0) > 0 and used.get(name, 0) > node.min.get(name, 0) for name in move.short)


def no_fair_move(ledger: QuotaLedger, move: FairMove) -> str:
    """Why nobody can be taken: both shares of the first contested resource, in words."""
    name = next(iter(move.short))
    total = move.totals[name]
    richest = max(
        _givers(ledger, move, name),
        key=lambda giver: (giver.over / (giver.weight or Fraction(1)), giver.title),
        default=None,
    )
    side = move.side(richest.level if richest is not None else 0)
    own = _part(name, side.borrows.get(name, 0), total, _title(move, side), side.weight)
    head = f"no fair move: with the work {own} of {name}"
    if richest is None or not richest.over:
        return f"{head}, and no other quota borrows any"
    gives = min(richest.over, move.short[name])
    left = f"{format_resource(name, richest.over - gives)}/{format_resource(name, total)}"
    other = _part(name, richest.over, total, richest.title, richest.weight, verb="borrows")
    return f"{head}, and {other} and would borrow {left} after giving {format_resource(name, gives)}"


class _Giver(NamedTuple):
    """A side that might give, and by how much it exceeds its min of a resource."""

    level: int
    title: str
    over: int
    weight: Fraction


def _givers(ledger: QuotaLedger, move: FairMove, name: str) -> Iterator[_Giver]:
    for quota in ledger.quotas():
        if quota.namespace != move.quota.namespace:
            at = meeting(ledger, move.quota, quota)
            used, low, weight = giving_nodes(ledger, quota, at.giving, _NO_QUOTAS)[-1]
            title = f"QuotaGroup {at.giving[-1].name}" if at.giving else f"ElasticQuota {quota.key}"
            if _is_inside(move, at):
                yield _Giver(at.level, title, max(0, used.get(name, 0) - low.get(name, 0)), weight)


def _title(move: FairMove, side: Side) -> str:
    return f"QuotaGroup {side.name}" if side.name else f"ElasticQuota {move.quota.key}"


def _part(
    name: str, amount: int, total: int, title: str, weight: Fraction, *, verb: str = "would borrow"
) -> str:
    """`ElasticQuota p1/quota (weight 2) borrows 4/8`."""
    given = "" if weight == 1 else f" (weight {weight})"
    return f"{title}{given} {verb} {format_resource(name, amount)}/{format_resource(name, total)}"
