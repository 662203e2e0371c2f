"""Who is awake when pods end: soon, later, sooner than they were told, or on nodes that are lost."""

from __future__ import annotations

from scheduler_core.config.load import load_config
from scheduler_core.engine.decisions import Evicted
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed, rejected

TEN_YEARS = 315_360_000
LATER = 20.0
CALM = ("muster.dev/reclaim-min-runtime", "1000h")


def borrower(name: str, node: str = "n0") -> PodBuilder:
    return make_pod(f"b/{name}").uid(name).requests(cpu=1).on(node).started(900.0)


def ending(pod: PodBuilder, moment: float, grace: int) -> PodBuilder:
    pod.deleting(moment).meta["deletionGracePeriodSeconds"] = grace
    return pod


def claim(name: str = "claims") -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=1)


def two_quotas(*nodes: int, calm: bool = False) -> GangScheduler:
    """a has all of the nodes as its min; b borrows."""
    made = GangScheduler(nodes)
    made.put(make_quota("a/quota").min(cpu=sum(nodes)))  # type: ignore[arg-type]
    lends = make_quota("b/quota").min(cpu=0)
    made.put(lends.annotation(*CALM) if calm else lends)  # type: ignore[arg-type]
    return made


def test_a_claim_in_wait_takes_a_pod_in_calm_once_it_ends_late() -> None:
    made = two_quotas(1, calm=True)
    made.put(borrower("x"), claim())
    assert evicted(made.step()) == set()
    made.put(ending(borrower("x"), made.now + TEN_YEARS, TEN_YEARS))
    (decision,) = (item for item in made.step(LATER) if isinstance(item, Evicted))
    assert (decision.pod.name, decision.grace) == ("x", 300)
    assert evicted(made.step(LATER)) == set(), "once per pod"
    made.put(ending(borrower("x"), made.now + 280, 300))
    assert evicted(made.step(LATER)) == set()
    made.scheduler.remove(borrower("x").obj(), made.now)
    assert placed(made.step(LATER)) == {"claims": "n0"}


def test_a_refused_second_eviction_is_tried_again() -> None:
    made = two_quotas(1)
    made.put(ending(borrower("x"), made.now + TEN_YEARS, TEN_YEARS), claim())
    (decision,) = (item for item in made.step() if isinstance(item, Evicted))
    made.scheduler.evict_failed(decision.pod, decision.preemptor, made.now)
    assert evicted(made.step(LATER)) == {"x"}


def test_a_claim_waits_for_a_pod_from_when_its_end_is_in_sight() -> None:
    made = two_quotas(1)
    # Nobody shortens the end of a pod within the min of its quota.
    made.put(make_quota("b/quota").min(cpu=1))  # type: ignore[arg-type]
    made.put(ending(borrower("x"), made.now + 350, 600), claim())
    first = rejected(made.step())["claims"]
    assert (first.nominated, "No preemption victims found" in first.message) == ("", True)
    assert made.state.departures.next_time() == made.now + 50
    assert rejected(made.step(49.0)) == {}
    assert rejected(made.step(1.0))["claims"].nominated == "n0"
    assert made.state.departures.next_time() is None


def test_a_scheduler_whose_clock_is_behind_waits_for_the_victims_of_the_last_one() -> None:
    """By its clock they end in an hour; it knows nothing of who evicted them but what the objects say."""
    made = two_quotas(2)
    made.put(ending(borrower("x"), made.now + 3_600, 300), borrower("y"), claim().nominated("n0"))
    assert (evicted(made.step()), made.state.nominations.node_of("claims")) == (set(), "n0")


def test_whoever_waits_for_a_pod_on_a_node_that_goes_takes_that_of_another() -> None:
    made = two_quotas(1, 1)
    made.put(ending(borrower("x"), made.now + 30, 30), borrower("y", "n1"), claim())
    assert (evicted(made.step()), made.state.nominations.node_of("claims")) == (set(), "n0")
    made.scheduler.remove(make_node("n0").allocatable(cpu=1).obj(), made.now)
    assert evicted(made.step(LATER)) == {"y"}


def test_a_limit_of_the_configuration_counts() -> None:
    config = load_config(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}
  pluginConfig: [{name: CapacityScheduling, args: {evictionGraceLimitSeconds: 60}}]
"""
    )
    made = GangScheduler((1,), config)
    made.put(make_quota("a/quota").min(cpu=1), make_quota("b/quota").min(cpu=0))  # type: ignore[arg-type]
    made.put(borrower("x").spec(terminationGracePeriodSeconds=TEN_YEARS), claim())
    assert [item.grace for item in made.step() if isinstance(item, Evicted)] == [60]


def test_a_preemption_by_priority_leaves_a_pod_that_ends_late_to_itself() -> None:
    """It would be told to end with its own grace period, which changes nothing."""
    made = GangScheduler((1,))
    made.put(make_quota("a/quota").min(cpu=1))  # type: ignore[arg-type]
    made.put(ending(claim("x").on("n0").started(900.0), made.now + TEN_YEARS, TEN_YEARS), claim().priority(9))
    assert evicted(made.step()) == set()


def test_a_preemption_by_priority_delays_no_claim_of_another_quota() -> None:
    """b evicts a pod of its own with ten years of grace: whoever claims the node has it within the limit."""
    made = two_quotas(1)
    made.put(borrower("x").spec(terminationGracePeriodSeconds=TEN_YEARS))
    made.put(make_pod("b/first").uid("first").requests(cpu=1).priority(9))
    (decision,) = (item for item in made.step() if isinstance(item, Evicted))
    assert (decision.pod.name, decision.grace) == ("x", 300)


def test_a_preemption_by_priority_leaves_a_pod_its_own_grace_period_within_the_limit() -> None:
    made = two_quotas(1)
    made.put(borrower("x").spec(terminationGracePeriodSeconds=299))
    made.put(make_pod("b/first").uid("first").requests(cpu=1).priority(9))
    assert [item.grace for item in made.step() if isinstance(item, Evicted)] == [None]


def test_a_scheduler_that_starts_waits_for_a_victim_by_priority_as_the_one_before_did() -> None:
    first, again = GangScheduler((1, 1)), GangScheduler((1, 1))
    preemptor = make_pod("a/first").uid("first").requests(cpu=1).priority(9)
    running = [claim(f"x{number}").on(f"n{number}").started(900.0) for number in range(2)]
    for pod in running:
        pod.spec(terminationGracePeriodSeconds=TEN_YEARS)
    first.put(*running, preemptor)
    (decision,) = (item for item in first.step() if isinstance(item, Evicted))
    grace = decision.grace if decision.grace is not None else decision.pod.grace
    victim = next(pod for pod in running if pod.obj().uid == decision.pod.uid)
    again.put(
        *(pod for pod in running if pod is not victim), ending(victim, again.now + grace, grace), preemptor
    )
    assert evicted(again.step()) == set()


def test_a_claim_that_may_start_goes_before_an_older_pod_that_would_borrow() -> None:
    made = GangScheduler([3, 2])
    made.put(make_quota("a/quota").min(cpu=3), make_quota("b/quota").min(cpu=0))  # type: ignore[arg-type]
    made.put(make_pod("a/runs").uid("runs").requests(cpu=1).on("n0").started(900.0))
    made.put(borrower("x"), borrower("y").started(800.0))
    made.put(claim().created(2))
    assert evicted(made.step()) == {"x"}
    made.put(ending(borrower("y").started(800.0), made.now + 30, 30))
    made.step()
    older = make_pod("b/older").uid("older").requests(cpu=1).created(1)
    made.put(older.selector(**{"kubernetes.io/hostname": "n1"}))
    made.scheduler.remove(borrower("x").obj(), made.now)
    assert placed(made.step(LATER)) == {"claims": "n0"}
    made.scheduler.remove(borrower("y").obj(), made.now)
    assert placed(made.step(LATER)).keys() == {"older"}


def test_who_waits_for_later_learns_that_a_limit_which_its_numbers_are_not_about_has_room() -> None:
    """Its max has room now and later. Later the sum of min has none, until a pod of another quota ends."""
    made = GangScheduler([20])
    for quota in (make_quota("a/q").min(cpu=0).max(cpu=4), make_quota("d/q").min(cpu=7).max(cpu=7)):
        made.scheduler.put(quota.obj(), made.now)
    other = make_pod("d/other").uid("other").requests(cpu=2).on("n0")
    victim = make_pod("a/victim").uid("victim").requests(cpu=2).on("n0")
    made.put(other, make_pod("d/stays").uid("stays").requests(cpu=2).on("n0"), victim)
    made.put(make_pod("a/first").uid("first").requests(cpu=3).priority(5))
    made.put(make_pod("a/second").uid("second").requests(cpu=1))
    decisions = made.step()
    assert (evicted(decisions), placed(decisions)) == ({"victim"}, {})
    assert "exceeds max=4" in rejected(decisions)["second"].message
    made.put(ending(victim, made.now + 30, 30))
    assert placed(made.step(60.0)) == {}
    made.scheduler.remove(other.obj(), made.now)
    assert placed(made.step()) == {"second": "n0"}
