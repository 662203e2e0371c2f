"""A cluster of quotas without nodes: work waits, is admitted, reclaims its min, or makes fair moves.

The rules are those of `scheduler_core.quota`; only the choice of victims is the model's own, and random. Who
is evicted waits again, and asks again for ever: so a model that comes to rest has no moves in circles.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from msgspec.structs import replace

from scheduler_core.model.names import FAIR_SHARE
from scheduler_core.model.quotas.borrowing import Borrowing
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.sharing import Sharing
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.fair_moves import FairMove, fair_move, is_fair
from scheduler_core.quota.ledger import QuotaLedger, charged, shift
from scheduler_core.quota.policy import admit, charge_within_min, over_min
from tests.support.builders import make_quota

RESOURCES = ("r1", "r2", "r3")


class Work(NamedTuple):
    """One piece of work, a pod or a gang, of the quota of a namespace."""

    uid: str
    namespace: str
    asks: dict[str, int]


Taken = dict[str, dict[str, int]]
# Whether a set of victims, by namespace, is allowed for a move.
Rule = Callable[[QuotaLedger, FairMove, Taken], bool]


def taken_by(victims: Iterable[Work]) -> Taken:
    found: Taken = {}
    for work in victims:
        shift(found.setdefault(work.namespace, {}), charged(work.asks))
    return found


def final_share_alone(ledger: QuotaLedger, move: FairMove, taken: Taken) -> bool:
    """S2-a of Kueue: the share of the preemptor with the work is at most that of each victim after."""
    for namespace, amounts in taken.items():
        quota = ledger.quota_of(namespace)
        assert quota is not None
        if over_share(ledger, quota, amounts, move.totals) < (False, move.largest):
            return False
    return True


def over_share(
    ledger: QuotaLedger, quota: ElasticQuota, less: ResourceList, totals: ResourceList
) -> tuple[bool, Fraction]:
    used = ledger.used(quota.namespace)
    shares = [
        Fraction(max(0, used.get(name, 0) - less.get(name, 0) - quota.min.get(name, 0)), total)
        for name, total in totals.items()
        if total > 0
    ]
    weight = quota.sharing.weight
    return not weight, max(shares, default=Fraction(0)) / (weight or 1)


class Model:
    """Quotas, what runs and what waits. `evictions` counts works, `moves` the fair moves."""

    def __init__(self, quotas: Iterable[ElasticQuota], rule: Rule = is_fair, seed: int = 0) -> None:
        self.ledger = QuotaLedger()
        self.ledger.borrowing = Borrowing(preemption=FAIR_SHARE)
        for quota in quotas:
            self.ledger.put_quota(quota)
        self.rule = rule
        self.random = random.Random(seed)
        self.running: list[Work] = []
        self.waiting: list[Work] = []
        self.evictions = self.moves = 0
        self.faults: list[str] = []

    def start(self, work: Work) -> None:
        self.ledger.charge(work.namespace, work.uid, work.asks)
        self.running.append(work)

    def rest(self, most: int) -> bool:
        """Try all that waits until nothing changes; False after more than `most` moves."""
        again = True
        while again:
            again = False
            for work in list(self.waiting):
                if self.tried(work):
                    self.waiting.remove(work)
                    self.start(work)
                    again = True
                if self.moves > most:
                    return False
        return True

    def tried(self, work: Work) -> bool:
        ledger = self.ledger
        if admit(ledger, work.namespace, work.asks) is None:
            return True
        quota = ledger.quota_of(work.namespace)
        assert quota is not None
        if charge_within_min(ledger, quota, charged(work.asks)):
            victims = self.reclaimed(work)
        else:
            move = fair_move(ledger, quota, charged(work.asks), {}, {})
            victims = self.chosen(move) if move is not None else None
        if victims is None:
            return False
        self.moves += 1
        self.evictions += len(victims)
        for victim in victims:
            self.evict(victim)
        assert admit(ledger, work.namespace, work.asks) is None
        return True

    def evict(self, victim: Work) -> None:
        self.ledger.refund(victim.namespace, victim.uid)
        self.running.remove(victim)
        self.waiting.append(victim)

    def may_lose(self, work: Work, namespace: str) -> bool:
        """Whether a quota is over its min, in groups that are all over theirs, for a claim of a namespace."""
        quota = self.ledger.quota_of(namespace)
        assert quota is not None
        claiming = self.ledger.groups_above(work.namespace)
        groups = [group for group in self.ledger.groups_above(namespace) if group not in claiming]
        return over_min(self.ledger, quota) and all(
            any(group.sums.amount(name) > low for name, low in group.min.items()) for group in groups
        )

    def reclaimed(self, work: Work) -> list[Work] | None:
        """Victims of a claim within min: works of quotas over min, while these are over it."""
        order = self.random.sample(self.running, len(self.running))
        gone: list[Work] = []
        for other in order:
            if other.namespace != work.namespace and self.may_lose(work, other.namespace):
                self.ledger.refund(other.namespace, other.uid)
                gone.append(other)
            if admit(self.ledger, work.namespace, work.asks) is None:
                break
        enough = admit(self.ledger, work.namespace, work.asks) is None
        for other in list(gone):
            self.ledger.charge(other.namespace, other.uid, other.asks)
            if enough and admit(self.ledger, work.namespace, work.asks) is None:
                gone.remove(other)
            elif enough:
                self.ledger.refund(other.namespace, other.uid)
        if enough:
            for other in gone:
                self.ledger.charge(other.namespace, other.uid, other.asks)
        return gone if enough else None

    def chosen(self, move: FairMove) -> list[Work] | None:
        """Some set of victims that the rule allows and that needs each of them, or None; of a few tried."""
        others = [work for work in self.running if work.namespace != move.quota.namespace]
        for _ in range(6):
            gone: list[Work] = []
            for work in self.random.sample(others, len(others)):
                if not lacks(move, gone):
                    break
                if useful(move, gone, work) and self.rule(self.ledger, move, taken_by([*gone, work])):
                    gone.append(work)
            if lacks(move, gone):
                continue
            for work in list(gone):
                fewer = [other for other in gone if other is not work]
                if not lacks(move, fewer):
                    gone = fewer
            if self.rule(self.ledger, move, taken_by(gone)):
                return gone
        return None


def lacks(move: FairMove, gone: Sequence[Work]) -> bool:
    """Whether victims free too little."""
    return any(sum(work.asks.get(name, 0) for work in gone) < amount for name, amount in move.short.items())


def useful(move: FairMove, gone: Sequence[Work], work: Work) -> bool:
    return any(
        work.asks.get(name, 0) and sum(other.asks.get(name, 0) for other in gone) < amount
        for name, amount in move.short.items()
    )


def random_model(seed: int, rule: Rule = is_fair) -> tuple[Model, list[list[Work]]]:
    """Two to four borrowers beside a lender that is idle, and the works that come, in portions."""
    dice = random.Random(seed)
    names = RESOURCES[: dice.randint(1, 3)]
    count = dice.randint(2, 4)
    quotas = [quota_of("lender", {name: dice.randint(2, 10) for name in names}, Fraction(1))]
    for number in range(count):
        low = {name: dice.choice((0, 0, 1, 2, 4)) for name in names}
        weight = dice.choice(
            (Fraction(1), Fraction(1), Fraction(1), Fraction(2), Fraction(1, 2), Fraction(0))
        )
        quotas.append(quota_of(f"q{number}", low, weight))
    portions = []
    for number in range(count):
        works = []
        for index in range(dice.randint(2, 8)):
            size = dice.choice((1, 1, 1, 2, 3, 4))
            each = {name: dice.choice((0, 1, 1, 2)) for name in names}
            if not any(each.values()):
                each[names[0]] = 1
            asks = {name: size * value for name, value in each.items() if value}
            works.append(Work(f"q{number}-{index}", f"q{number}", asks))
        portions.append(works)
    if dice.random() < 0.5:
        together = [work for works in portions for work in works]
        dice.shuffle(together)
        portions = [together]
    if dice.random() < 0.3:
        portions.append([Work("claim", "lender", {name: dice.randint(1, 2) for name in names})])
    return Model(quotas, rule, seed), portions


def quota_of(namespace: str, low: dict[str, int], weight: Fraction) -> ElasticQuota:
    """A quota with plain numbers."""
    made = make_quota(f"{namespace}/quota").obj()
    return replace(made, min=low, sharing=Sharing(weight=weight))
