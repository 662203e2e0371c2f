"""Many pods that are nominated for one node: what an event costs, counted in calls of functions.

A tenant may have a hundred pods that each evict a little. Each event asks whether it helps them, and the
answer compared each of them with all others: 450,000 calls for 96 pods, and others waited behind it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.builders import make_pod, make_quota
from tests.support.calls import calls_of
from tests.support.gang_scheduler import GangScheduler

FEW, MANY = 12, 48


class Waiting:
    """Pods of namespace a that evicted the only pod of node n0, which is leaving; a/other runs on n1."""

    def __init__(self, number: int) -> None:
        self.made = GangScheduler((32, 32))
        scheduler = self.made.scheduler
        for namespace in "ab":
            scheduler.put(make_quota(f"{namespace}/q").min(cpu=64).obj(), 0.0)
        self.made.put(make_pod("a/big").uid("big").requests(cpu=32).on("n0").started(1.0))
        self.made.put(make_pod("a/full").uid("full").requests(cpu=31).on("n1").priority(100).started(1.0))
        self.other = make_pod("a/other").uid("other").requests(cpu=1).on("n1").priority(100).started(1.0)
        self.made.put(self.other)
        for at in range(number):
            self.made.put(make_pod(f"a/p{at}").uid(f"p{at}").requests(cpu=f"{100 + at}m").priority(10))
        self.made.step()
        assert len(self.made.state.nominations) == number

    def goes(self) -> None:
        """Another pod ends."""
        self.made.scheduler.remove(self.other.obj(), self.made.now)

    def goes_and_comes(self) -> int:
        """Calls for another pod that is bound, once it has gone."""
        self.goes()
        self.made.step(60.0)
        return calls_of(lambda: self.made.put(self.other))


class WaitingForQuota(Waiting):
    """Pods of namespace a that evicted a pod each; a uses all that there is, most of it borrowed of b."""

    def __init__(self, number: int) -> None:
        self.made = GangScheduler((32, 32))
        scheduler = self.made.scheduler
        for namespace in "ab":
            scheduler.put(make_quota(f"{namespace}/q").min(cpu=32).obj(), 0.0)
        for at in range(number):
            self.made.put(make_pod(f"a/v{at}").uid(f"v{at}").requests(cpu="300m").on("n0").started(1.0))
        rest = make_pod("a/rest").uid("rest").requests(cpu=f"{32_000 - 300 * number}m")
        full = make_pod("a/full").uid("full").requests(cpu=31)
        self.other = make_pod("b/other").uid("other").requests(cpu=1).on("n1").priority(1000).started(1.0)
        for pod, node in ((rest, "n0"), (full, "n1")):
            self.made.put(pod.on(node).priority(1000).started(1.0))
        self.made.put(self.other)
        for at in range(number):
            self.made.put(make_pod(f"a/p{at}").uid(f"p{at}").requests(cpu=f"{200 + at}m").priority(10))
        self.made.step()
        assert len(self.made.state.nominations) == number


def calls_at_an_end(number: int) -> int:
    return calls_of(Waiting(number).goes)


def calls_at_an_end_where_quotas_are_full(number: int) -> int:
    return calls_of(WaitingForQuota(number).goes)


def calls_at_a_binding(number: int) -> int:
    return Waiting(number).goes_and_comes()


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(calls_at_an_end, id="a pod ends on another node"),
        pytest.param(calls_at_a_binding, id="a pod is bound to another node"),
        pytest.param(
            calls_at_an_end_where_quotas_are_full, id="a pod ends elsewhere, and they wait for their quota"
        ),
    ],
)
def test_what_an_event_costs_grows_with_the_nominated_pods_and_not_with_their_pairs(
    calls: Callable[[int], int],
) -> None:
    calls(1)  # What a process does once is not counted.
    few, many = calls(FEW), calls(MANY)
    assert many <= 2 * (MANY // FEW) * few, (few, many)
    assert many <= 500 * MANY, (few, many)
