"""Claims of nominated pods by hard topology spread constraints, and what they leave to other pods.

A constraint looks at whole domains, so pods on other nodes decide whether a nominated pod may start:

- A pod that would preempt counts nominated pods that go before it, wherever they are: they start first.
- A pod that comes into the domain of such a pod, or evicts those who even out the domains, must leave as many
  places there as nominated pods wait for. A nominated pod that could not start anyway claims nothing.

kube-scheduler counts only pods that are nominated for the node that it looks at. Constraints of pods with
another quota are left alone, as are those that a profile gives by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.nominations.nominated_counts import PodsAhead, counted_nominees
from scheduler_core.framework.spread import spread_domains
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.domains import Domains
from scheduler_core.state.nodes.rules import ALL_RULES
from scheduler_core.state.nominated_neighbours import SpreadRule, rules_of
from scheduler_core.state.nomination import Nomination

# Most rules of nominated pods that one preemption looks at.
MOST_RULES: Final = 16


def is_filtered(state: ClusterState, rule: SpreadRule) -> bool:
    """Whether the profile of the pods with a rule filters by it."""
    return state.nodes.rules.get(rule.scheduler, ALL_RULES).spread


def domains_of(state: ClusterState, rule: SpreadRule, pod: Pod) -> Domains:
    """The domains of a rule; `pod` is one that has it."""
    return spread_domains(state, pod, rule.constraint, rule.keys)


def staying(state: ClusterState, rule: SpreadRule, domains: Domains) -> Int64:
    """int64 [V + 1]: placed pods that a rule counts. The array is the caller's."""
    return state.neighbours.selected(rule.selection, domains).astype(np.int64)


def lowest(rule: SpreadRule, domains: Domains, sums: Int64) -> int:
    """The least of the sums (int64 [V + 1]) that the skew is measured from."""
    occupied = domains.occupied
    enough = len(occupied) >= max(rule.constraint.min_domains, 1)
    return int(sums[occupied].min()) if enough else 0


def allows(rule: SpreadRule, domains: Domains, sums: Int64, slot: int) -> bool:
    """Whether a pod with the rule may take a node, with so many pods per domain (int64 [V + 1])."""
    domain = domains.raw[slot]
    skew = sums[domain] + int(rule.itself) - lowest(rule, domains, sums)
    return bool(domain < 0 or skew <= rule.constraint.max_skew)


def evened_out_by(state: ClusterState, nomination: Nomination) -> set[str]:
    """Nominated pods (uids) for which a nominated pod waits: with them its constraints allow its node.

    Empty if they allow it now, or even then do not. Only pods that wait for no others themselves count, so
    that no two wait for each other: those without constraints, and those whose one constraint is the same.
    """
    slot, own, found = state.nodes.slot(nomination.node), tuple(rules_of(nomination.pod)), set[str]()
    for rule in own if slot is not None else ():
        domains = domains_of(state, rule, nomination.pod)
        sums = staying(state, rule, domains)
        if slot is None or not is_filtered(state, rule) or allows(rule, domains, sums, slot):
            continue
        for kind, some in counted_nominees(state, rule.selection).items():
            if not kind.rights.kept and kind.rules in ((), (rule,)) and (not kind.rules or own == (rule,)):
                sums += some.sums(domains)
                found.update(some.by_uid)
        if nomination.pod.uid in found:
            sums[domains.ids[slot]] -= 1
            found.discard(nomination.pod.uid)
        if not allows(rule, domains, sums, slot):
            return set()
    return found


def who_claims(state: ClusterState, nomination: Nomination) -> set[str]:
    """Nominated pods (uids) that go before a nominated pod and claim the place that it would take.

    Only pods that wait for no others themselves count, so that no two wait for each other.
    """
    slot, neighbours, found = state.nodes.slot(nomination.node), state.nominations.neighbours, set[str]()
    for rule, claim in _claims(state, nomination.pod, neighbours.about(nomination.pod)):
        if slot is not None and claim.lost_to_one_more()[claim.domains.ids[slot]]:
            others = (item for some in neighbours.rules[rule].values() for item in some.by_uid.values())
            found.update(item.pod.uid for item in others if not evened_out_by(state, item))
    return found - {nomination.pod.uid}


def closed_by_claims(state: ClusterState, pod: Pod) -> Bool | None:
    """bool [N]: nodes in domains whose places nominated pods wait for; None for none."""
    closed: Bool | None = None
    for _, claim in _claims(state, pod, state.nominations.neighbours.about(pod)):
        lost = claim.lost_to_one_more()
        if lost.any():
            there: Bool = lost[claim.domains.ids[: state.nodes.size]]
            closed = there if closed is None else closed | there
    return closed


def _claims(
    state: ClusterState, pod: Pod, rules: Iterable[SpreadRule]
) -> Iterator[tuple[SpreadRule, SpreadClaim]]:
    """What rules of nominated pods that go before the pod leave now."""
    ahead: PodsAhead | None = None
    for rule in rules:
        ahead = ahead or PodsAhead(state, pod)
        nominees = state.nominations.neighbours.rules[rule]
        if is_filtered(state, rule) and ahead.may_be_among(nominees):
            domains = domains_of(state, rule, next(iter(nominees.values())).sample)
            claimed = ahead.per_domain(nominees, domains) > 0
            coming = ahead.per_domain(counted_nominees(state, rule.selection), domains)
            yield rule, SpreadClaim(state, rule, domains, claimed, coming, int(rule.selection.takes(pod)))


def _own_rules(state: ClusterState, pod: Pod) -> Iterator[OwnRule]:
    for rule in filter(partial(is_filtered, state), rules_of(pod)):
        domains = domains_of(state, rule, pod)
        nominees = counted_nominees(state, rule.selection)
        yield OwnRule(rule, domains, PodsAhead(state, pod).per_domain(nominees, domains))


class SpreadClaim:
    """What one rule of nominated pods leaves, and what a pod would take of it.

    `claimed`: bool [V + 1], domains in which pods with the rule wait. `coming`: int64 [V + 1], nominated pods
    that it counts. `adds`: whether it counts the pod in question.
    """

    def __init__(
        self, state: ClusterState, rule: SpreadRule, domains: Domains, claimed: Bool, coming: Int64, adds: int
    ) -> None:
        self._state = state
        self._rule = rule
        self.domains = domains
        self._claimed = claimed
        self._coming = coming
        self._adds = adds
        self._sums = staying(self._state, self._rule, self.domains)
        self._now = self._places(self._sums, lowest(self._rule, self.domains, self._sums))
        self._end = self._all_fit(self._sums)

    def _lowest_with_one_more(self, sums: Int64) -> Int64:
        """int64 [V + 1]: the lowest sum with one pod more in each domain."""
        least, occupied = lowest(self._rule, self.domains, sums), sums[self.domains.occupied]
        alone = np.count_nonzero(occupied == least) == 1
        raised = alone and len(occupied) >= self._rule.constraint.min_domains
        return least + (sums == least) * int(raised)

    def _places(self, sums: Int64, least: Int64 | int) -> Int64:
        """int64 [V + 1]: how many of the nominated pods the rule lets start now."""
        free = self._rule.constraint.max_skew + least - sums + 1 - int(self._rule.itself)
        return np.clip(free, 0, np.maximum(self._coming, 1))

    def _all_fit(self, sums: Int64, least: Int64 | None = None) -> Bool:
        """bool [V + 1]: whether the rule lets the last of the nominated pods start, once all others have."""
        total = sums + self._coming
        limit = lowest(self._rule, self.domains, total) if least is None else least
        return total <= self._rule.constraint.max_skew + limit

    def lost_to_one_more(self) -> Bool:
        """bool [V + 1]: domains in which a pod that comes takes the place of one that waits for it."""
        sums = self._sums
        now = self._places(sums + 1, self._lowest_with_one_more(sums)) < self._now
        end = self._end & ~self._all_fit(sums + 1, self._lowest_with_one_more(sums + self._coming))
        lost = self._claimed & (now | end)
        lost[-1] = False
        return lost

    def is_lost(self, slot: int) -> bool:
        """Whether a place is taken in the present state, if a preemptor comes to a node.

        It starts after those who go before it, so it takes no place of theirs now; but it may even out itself
        what its victims leave.
        """
        left = staying(self._state, self._rule, self.domains)
        if not self._adds and np.array_equal(left, self._sums):
            return False
        sums, domain = left.copy(), self.domains.ids[slot]
        if domain >= 0:
            sums[domain] += self._adds
        now = self._fewer_places(left) & self._fewer_places(sums)
        return bool(((now | (self._end & ~self._all_fit(sums))) & self._claimed)[:-1].any())

    def _fewer_places(self, sums: Int64) -> Bool:
        fewer: Bool = self._places(sums, lowest(self._rule, self.domains, sums)) < self._now
        return fewer


class OwnRule(NamedTuple):
    """A rule of the pod itself, and the nominated pods that it counts: int64 [V + 1]."""

    rule: SpreadRule
    domains: Domains
    coming: Int64


class EvictionClaims:
    """What a preemption of a pod has to respect: claims of others, and its own rules beside nominated pods.

    Made before any eviction is tried, as it remembers what is free now.
    """

    def __init__(self, state: ClusterState, pod: Pod) -> None:
        self._state = state
        rules = islice(state.nominations.neighbours.rules, MOST_RULES)
        self._claims = [claim for _, claim in _claims(state, pod, rules)]
        self._own = list(_own_rules(state, pod))

    def allow(self, slot: int) -> bool:
        """Whether the pod may take a node in the present state, for example without its victims."""
        return all(self._fits(item, slot) for item in self._own) and not any(
            claim.is_lost(slot) for claim in self._claims
        )

    def _fits(self, own: OwnRule, slot: int) -> bool:
        """Whether a rule of the pod allows a node, with and without the nominated pods that it counts.

        Pods that leave are not counted any more, wherever they are.
        """
        sums = staying(self._state, own.rule, own.domains)
        return all(allows(own.rule, own.domains, total, slot) for total in (sums, sums + own.coming))
