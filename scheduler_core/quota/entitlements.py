"""What each quota is entitled to if what is borrowed were shared fairly (docs/fair-sharing.md#entitlement).

Shown to people, never enforced by itself. Per resource: every quota has min(demand, min) first. The rest of
the capacity goes to quotas that ask for more, pro rata to their weights, each up to what it asks for;
integers by the largest remainder, ties by key. Quotas of weight 0 share, alike, what then remains.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import msgspec


class Claimant(msgspec.Struct, frozen=True):
    """A quota in the division of one resource. `demand` is its use and what waits, at most its max."""

    key: str
    demand: int
    min: int
    weight: Fraction = Fraction(1)


def entitlements(capacity: int, claimants: Iterable[Claimant]) -> dict[str, int]:
    """The amount of one resource for each key. They sum to `capacity` or to all demand, whichever is less.

    Where `capacity` is below what the guarantees take together, every guarantee is kept all the same.
    """
    everyone = sorted(claimants, key=lambda one: one.key)
    found = {one.key: min(one.demand, one.min) for one in everyone}
    for wanted in (
        [(one, one.weight) for one in everyone if one.weight],
        [(one, Fraction(1)) for one in everyone if not one.weight],
    ):
        rest = capacity - sum(found.values())
        asks = {one.key: one.demand - found[one.key] for one, _ in wanted if one.demand > found[one.key]}
        weights = {one.key: weight for one, weight in wanted}
        for key, part in _filled(rest, asks, weights).items():
            found[key] += part
    return found


def _filled(rest: int, asks: dict[str, int], weights: dict[str, Fraction]) -> dict[str, int]:
    """Water filling: `rest` pro rata to weights, nobody above what it asks for."""
    found: dict[str, int] = {}
    while asks and rest > 0:
        total = sum(weights[key] for key in asks)
        full = [key for key, ask in asks.items() if ask * total <= rest * weights[key]]
        if not full:
            break
        for key in full:
            found[key] = asks.pop(key)
            rest -= found[key]
    if not asks or rest <= 0:
        return found
    total = sum(weights[key] for key in asks)
    exact = {key: rest * weights[key] / total for key in asks}
    for key, part in exact.items():
        found[key] = int(part)
    left = rest - sum(int(part) for part in exact.values())
    # At most one more each: every exact part is below what is asked for.
    for key in sorted(exact, key=lambda key: (int(exact[key]) - exact[key], key))[:left]:
        found[key] += 1
    return found
