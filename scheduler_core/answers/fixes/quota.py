"""Fixes of the quota: the smallest max, the smallest min, or both, with which the work starts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.fix import Amount, Fix, TriedFix, proven, step_of
from scheduler_core.answers.fixes.trial import Prover, least
from scheduler_core.answers.why.numbers import QuotaNumbers
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.quota.group_validation import check_membership
from scheduler_core.quota.validation import check_bounds, check_hard
from scheduler_core.simulate.world import Simulation

# Amounts per (bound, resource): `("max", "cpu")`.
Bounds = Mapping[tuple[str, str], int]


def with_bounds(simulation: Simulation, quota: ElasticQuota, bounds: Bounds) -> Changes | None:
    """The quota with other bounds; None if the webhook refuses it always.

    That is by min <= max <= hard, and by the min of its QuotaGroup, where it was within this before.
    """
    stored = simulation.get("ElasticQuota", quota.namespace, quota.name)
    if stored is None:
        return None
    obj = copy.deepcopy(stored)
    spec = obj["spec"] = obj.get("spec") or {}
    for (bound, resource), amount in bounds.items():
        spec[bound] = {**(spec.get(bound) or {}), resource: format_resource(resource, amount)}
    changed = parse_elastic_quota(obj)
    hard = [parse_resource_quota(found) for found in simulation.objects.all("ResourceQuota")]
    ledger = simulation.state.ledger
    above, beside = ledger.tree.groups, list(ledger.quotas())
    beyond = check_membership(changed, above, beside)
    if check_bounds(changed) or check_hard(changed, hard) or beyond != check_membership(quota, above, beside):
        return None
    return Changes(update=(obj,))


def enough_quota(prover: Prover, namespace: str, numbers: Sequence[QuotaNumbers]) -> Changes | None:
    """The quota with as much max and min as the work may need; None where its bounds are in no way."""
    quota = prover.base.state.ledger.quota_of(namespace)
    search = BoundSearch(prover, quota, numbers) if quota is not None else None
    if quota is None or search is None:
        return None
    wanted = search.both_wanted() or search.min_wanted()
    return with_bounds(prover.base, quota, wanted) if wanted else None


def smallest_bounds(prover: Prover, namespace: str, numbers: Sequence[QuotaNumbers]) -> TriedFix | None:
    """The smallest max, else the smallest min, else the smallest of both, with which the work starts."""
    return next(quota_fixes(prover, namespace, numbers), None)


def quota_fixes(prover: Prover, namespace: str, numbers: Sequence[QuotaNumbers]) -> Iterator[TriedFix]:
    """The smallest max and the smallest min; both together where neither helps alone."""
    quota = prover.base.state.ledger.quota_of(namespace)
    if quota is None:
        return
    search = BoundSearch(prover, quota, numbers)
    found = False
    for kind, bounds in (("max", search.max_wanted()), ("min", search.min_wanted())):
        fix = search.smallest(kind, bounds)
        if fix is not None:
            found = True
            yield fix
    if not found:
        both = search.smallest("max-and-min", search.both_wanted())
        if both is not None:
            yield both


def _least_min(line: QuotaNumbers) -> int:
    """The min that guarantees the work, and gives the sum of min room for it beside all that counts."""
    wanted = line.used + line.asked
    return wanted if line.total is None else max(wanted, line.min + line.total.beyond)


class BoundSearch:
    """The search for the smallest bounds of one quota."""

    def __init__(self, prover: Prover, quota: ElasticQuota, numbers: Sequence[QuotaNumbers]) -> None:
        self.prover = prover
        self.quota = quota
        self.numbers = {line.resource: line for line in numbers}

    def max_wanted(self) -> dict[tuple[str, str], int]:
        """Enough max for the work, where it is in the way."""
        return {
            ("max", line.resource): line.own.limit + line.own.beyond
            for line in self.numbers.values()
            if line.own is not None and line.own.beyond > 0
        }

    def min_wanted(self) -> dict[tuple[str, str], int]:
        """Enough min for the work to be guaranteed, and for the sum of min, as far as max allows."""
        found = {}
        for line in self.numbers.values():
            wanted = _least_min(line)
            top = wanted if line.max is None else min(wanted, line.max)
            if top > line.min:
                found["min", line.resource] = top
        return found

    def both_wanted(self) -> dict[tuple[str, str], int]:
        """Enough max and min."""
        found = self.max_wanted()
        if not found:
            return {}
        for line in self.numbers.values():
            wanted = _least_min(line)
            if ("max", line.resource) in found:
                found["max", line.resource] = max(found["max", line.resource], wanted)
            elif line.max is not None:
                wanted = min(wanted, line.max)
            if wanted > line.min:
                found["min", line.resource] = wanted
        return found

    def smallest(self, kind: str, wanted: dict[tuple[str, str], int]) -> TriedFix | None:
        """The fix with the wanted bounds, each as small as the engine allows; None if it does not help."""
        if not wanted or not self._starts(wanted):
            return None
        bounds: dict[tuple[str, str], int] | None = dict(wanted)
        before: dict[tuple[str, str], int] | None = None
        # Again, as a smaller bound may be enough beside others that became smaller.
        while bounds is not None and bounds != before:
            before, bounds = bounds, self._smaller(bounds)
        if bounds is None:
            return None
        changes = with_bounds(self.prover.base, self.quota, bounds)
        return proven(self.prover, self._fix(kind, bounds), changes) if changes is not None else None

    def _smaller(self, given: dict[tuple[str, str], int]) -> dict[tuple[str, str], int] | None:
        """Bounds with which the work starts, each as small as the engine allows beside the others."""
        bounds = dict(given)
        # A max cannot be below the min, so that each min comes first.
        for key in sorted(given, key=lambda item: (item[0] == "max", item[1])):
            low, step = self._now(key), step_of(key[1])
            without = {other: amount for other, amount in bounds.items() if other != key}
            if without and self._starts(without):
                bounds = without
                continue
            top = -(-(bounds[key] - low) // step)
            steps = self._least(bounds, key, low, step, top, [top, self._gap(key, step)])
            if steps is None:
                return None
            bounds[key] = low + steps * step
        return bounds

    def _least(
        self, bounds: Bounds, key: tuple[str, str], low: int, step: int, top: int, guesses: Sequence[int]
    ) -> int | None:
        guess = min((value for value in guesses if value > 0), default=top)
        return least(0, top, guess, lambda steps: self._starts({**bounds, key: low + steps * step}))

    def _gap(self, key: tuple[str, str], step: int) -> int:
        """The steps by which the sum of min is too small, for a min; 0 for a max."""
        line = self.numbers[key[1]]
        if key[0] == "max" or line.total is None:
            return 0
        return -(-line.total.beyond // step)

    def _now(self, key: tuple[str, str]) -> int:
        bound, resource = key
        return (self.quota.max if bound == "max" else self.quota.min).get(resource, 0)

    def _starts(self, bounds: Bounds) -> bool:
        changes = with_bounds(self.prover.base, self.quota, bounds)
        return changes is not None and self.prover.starts(changes)

    def _fix(self, kind: str, bounds: Bounds) -> Fix:
        amounts, parts, flags = [], [], []
        for (bound, resource), amount in sorted(bounds.items()):
            before = self._now((bound, resource))
            now, then = (format_resource(resource, value) for value in (before, amount))
            amounts.append(Amount(f"spec.{bound}[{resource}]", before, amount, step_of(resource)))
            parts.append(f"{bound}[{resource}] from {now} to {then}")
            flags.append(f"--set quota/{self.quota.namespace}:{bound}.{resource}={then}")
        text = f"raise {' and '.join(parts)} of ElasticQuota {self.quota.key}"
        return Fix(kind, text, (f"ElasticQuota {self.quota.key}",), tuple(amounts), " ".join(flags))
