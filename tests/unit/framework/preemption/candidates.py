"""Candidates for eviction as arrays, and a slow reading of loans and budgets: one pod after the other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from typing import Final

import numpy as np

from scheduler_core.framework.preemption.budgets import Budgets
from scheduler_core.framework.preemption.cost_bounds import NO_VICTIM, PRIORITY_OFFSET, Cost
from scheduler_core.framework.preemption.demand import NO_QUOTA, Borrowers, Demand
from scheduler_core.state.placed.pods import PodTable
from tests.support.builders import make_budget, make_pod

Sizes = tuple[int, ...]
WIDTH: Final = 3
# The min of every quota, so that use is not the loan.
_MIN: Final = 2


@dataclass(frozen=True)
class Runs:
    """A running pod; apps x and y may be under budgets of their namespace."""

    name: str
    namespace: str
    slot: int
    sizes: Sizes
    priority: int = 0
    start: int = 1
    app: str = "z"
    eligible: bool = True


@dataclass(frozen=True)
class Given:
    """Who runs, what is asked for, and what quotas have lent: None for what is not a quota's business.

    Without any `loans` victims are found by priority alone. `budgets` are (namespace, app, allowed).
    """

    running: tuple[Runs, ...]
    asks: Sizes = (1, 1, 1)
    need: Sizes = (0, 0, 0)
    loans: dict[str, tuple[int | None, ...]] | None = None
    budgets: tuple[tuple[str, str, int], ...] = ()
    slots: int = 1

    def order(self, pods: Iterable[Runs]) -> list[Runs]:
        """Least important first."""
        return sorted(pods, key=lambda pod: (pod.priority, -pod.start, self.running.index(pod)))

    def on(self, slot: int) -> list[Runs]:
        return self.order(pod for pod in self.running if pod.eligible and pod.slot == slot)

    # As arrays

    def table(self) -> PodTable:
        table = PodTable(WIDTH)
        for pod in self.running:
            built = make_pod(f"{pod.namespace}/{pod.name}").uid(pod.name).labels(app=pod.app)
            raw = built.priority(pod.priority).started(pod.start).obj()
            table.add(raw, pod.slot, np.array(pod.sizes, dtype=np.int64), 0.0)
        return table

    def demand(self, table: PodTable) -> Demand:
        eligible = np.array([pod.eligible for pod in self.running], dtype=np.bool_)
        need, asks = np.array(self.need, dtype=np.int64), np.array(self.asks, dtype=np.int64)
        pod = make_pod("a/p").obj()
        if self.loans is None:
            return Demand(pod, asks, need, eligible)
        of = np.full(len(table.namespaces), NO_QUOTA, dtype=np.int64)
        for number, name in enumerate(self.loans):
            if table.namespaces.find(name) >= 0:
                of[table.namespaces.find(name)] = number
        left = np.array([[v or 0 for v in loan] for loan in self.loans.values()], dtype=np.int64)
        counts = np.array([[v is not None for v in loan] for loan in self.loans.values()], dtype=np.bool_)
        low = np.full(left.shape, _MIN, dtype=np.int64)
        return Demand(pod, asks, need, eligible, None, Borrowers((), of, left + low, low, counts))

    def known_budgets(self, table: PodTable) -> Budgets:
        made = [
            make_budget(f"{name}/b{i}").selects(app=app).allows(allowed).obj()
            for i, (name, app, allowed) in enumerate(self.budgets)
        ]
        return Budgets(table, made)

    def names(self, rows: Iterable[int]) -> list[str]:
        return [self.running[int(row)].name for row in rows]

    # What is lawful, and what it costs

    def contended(self, lacks: Sizes) -> list[int]:
        found = [r for r in range(WIDTH) if lacks[r] > 0]
        return found or [r for r in range(WIDTH) if self.asks[r] > 0]

    def loan(self, namespace: str, r: int) -> int | None:
        assert self.loans is not None
        return self.loans[namespace][r]

    def left(self, namespace: str, gone: Iterable[Runs]) -> list[int | None]:
        """What a quota borrows once some are gone, below 0 where it has room."""
        assert self.loans is not None
        mine = [pod for pod in gone if pod.namespace == namespace]
        return [
            None if loan is None else loan - sum(pod.sizes[r] for pod in mine)
            for r, loan in enumerate(self.loans[namespace])
        ]

    def uses_borrowed(self, unit: Iterable[Runs], namespace: str, gone: Iterable[Runs]) -> bool:
        """Whether some pods use something that their quota borrows once others are gone."""
        sizes = [sum(pod.sizes[r] for pod in unit) for r in range(WIDTH)]
        left = self.left(namespace, gone)
        return any(
            size > 0 and value is not None and value > 0 for size, value in zip(sizes, left, strict=True)
        )

    def lawful(self, gone: Sequence[Runs], units: Sequence[Sequence[Runs]] | None = None) -> bool:
        """Whether each pod or unit uses what its quota borrows, and of each quota one can be the last."""
        if self.loans is None:
            return True
        together = units if units is not None else [[pod] for pod in gone]
        for name in {pod.namespace for pod in gone}:
            own = [[pod for pod in unit if pod in gone] for unit in together if unit[0].namespace == name]
            units = [unit for unit in own if unit]
            if not all(self.uses_borrowed(unit, name, ()) for unit in units):
                return False
            if not any(
                self.uses_borrowed(unit, name, [pod for pod in gone if pod not in unit]) for unit in units
            ):
                return False
        return True

    def beyond_budgets(self, pods: Sequence[Runs]) -> set[Runs]:
        """Who exceeds a budget if all of them go, the most important ones spending it first."""
        found: set[Runs] = set()
        for name, app, allowed in self.budgets:
            counted = [pod for pod in self.order(pods)[::-1] if pod.namespace == name and pod.app == app]
            found.update(counted[allowed:])
        return found

    def reach(self, gone: Sequence[Runs], contended: Sequence[int]) -> int:
        """What is taken beyond loans, in millionths of the request."""
        if self.loans is None:
            return 0
        total = 0
        for name, r in itertools.product({pod.namespace for pod in gone}, contended):
            loan = self.loan(name, r)
            if loan is not None:
                taken = sum(pod.sizes[r] for pod in gone if pod.namespace == name)
                beyond = max(0, taken - max(0, loan))
                total += ceil(Fraction(beyond * 1_000_000, max(1, self.asks[r])))
        return total

    def strangers(self, gone: Sequence[Runs], contended: Sequence[int]) -> int:
        """Victims whose quota borrows nothing that is contended."""
        if self.loans is None:
            return 0
        return sum(all((self.loan(pod.namespace, r) or 0) <= 0 for r in contended) for pod in gone)

    def cost(self, gone: Sequence[Runs], contended: Sequence[int]) -> Cost:
        """All keys of a cost but the node's name."""
        top = max((pod.priority for pod in gone), default=NO_VICTIM)
        return (
            self.reach(gone, contended),
            self.strangers(gone, contended),
            len(self.beyond_budgets(gone)),
            top,
            sum(pod.priority + PRIORITY_OFFSET for pod in gone),
            len(gone),
            0,  # none of them is in a gang
            -min((pod.start for pod in gone if pod.priority == top), default=inf),
        )


def some(rng: random.Random, *, slots: int = 3, most: int = 6, lends: bool | None = None) -> Given:
    """Up to so many pods per node, of three quotas and three resources; much is equal, as sizes are small."""
    running: list[Runs] = []
    for slot in range(slots):
        for _ in range(rng.randint(0, most)):
            sizes = (rng.randint(0, 3), rng.choice((0, 0, 1, 2)), rng.choice((0, 0, 0, 1)))
            running.append(
                Runs(
                    f"v{len(running)}",
                    rng.choice("bcd"),
                    slot,
                    sizes,
                    rng.choice((-2, 0, 0, 3)),
                    rng.randint(1, 3),
                    rng.choice("xxy"),
                    rng.random() < 0.9,
                )
            )
    rng.shuffle(running)
    lends = rng.random() < 0.7 if lends is None else lends
    lent = {name: rng.choice(((None, -1, 0), (None, -1, 0, 1, 2, 3, 5), (0, 2, 9))) for name in "bcd"}
    loans = {name: tuple(rng.choice(amounts) for _ in range(WIDTH)) for name, amounts in lent.items()}
    budgets = tuple(
        (rng.choice("bbc"), rng.choice("xxy"), rng.randint(0, 2)) for _ in range(rng.randint(0, 3))
    )
    asks = tuple(rng.choice((0, 1, 2, 3)) for _ in range(WIDTH))
    need = tuple(rng.randint(0, 3) if asked else 0 for asked in asks)
    return Given(tuple(running), asks, need, loans if lends else None, budgets, slots)
