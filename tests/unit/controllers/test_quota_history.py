"""The history of quotas: what is counted and stored through restarts, takeovers and lost writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.controllers.quota_history import MOST_GAP_SECONDS, QuotaHistory
from scheduler_core.model.config_map import history_payload, parse_config_map
from scheduler_core.model.quotas.quota_history import (
    HOURS,
    MOST_EVICTIONS,
    QuotaHistoryDay,
    day_of,
    name_of,
    parse_day,
)
from scheduler_core.model.resources import ResourceList
from scheduler_core.model.writes import Create, Delete, Replace, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.displacements import Displacement
from tests.support.builders import make_pod, make_quota

SPACE = "muster-system"
NOON = 1_772_366_400  # 2026-03-01T12:00:00Z
MIDNIGHT = NOON + 43_200


class Waiting:
    """What pods wait for, set by hand."""

    def __init__(self) -> None:
        self.version = 0
        self.by_namespace: Mapping[str, ResourceList] = {}

    def set(self, **amounts: int) -> None:
        self.version += 1
        self.by_namespace = {"a": amounts}


class Cluster:
    """The objects of an API server, of which a state sees what the watch has delivered."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.state = ClusterState()
        self.state.put_quota(make_quota("a/q").min(memory=8).max(cpu=4).uid("u").obj())
        self.waiting = Waiting()
        self.refused = 0

    def leader(self, name: str) -> QuotaHistory:
        return QuotaHistory(self.state, self.waiting, SPACE, name)

    def apply(self, write: Write) -> bool:
        """Whether the server accepts it."""
        if isinstance(write, Delete):
            self.stored.pop(write.name, None)
            return True
        if not isinstance(write, Create | Replace) or write.resource.plural != "configmaps":
            return True
        name = write.body["metadata"]["name"]
        old = self.stored.get(name)
        version = write.body["metadata"].get("resourceVersion")
        if (old["metadata"]["resourceVersion"] if old else None) != version:
            self.refused += 1
            return False
        self.put(name, {**write.body})
        return True

    def put(self, name: str, body: dict[str, Any]) -> None:
        self.version += 1
        meta = {**body.get("metadata", {}), "name": name, "namespace": SPACE, "uid": name}
        self.stored[name] = {**body, "metadata": {**meta, "resourceVersion": str(self.version)}}

    def deliver(self) -> None:
        table = self.state.config_maps
        for found in table.with_role("history"):
            if found.name not in self.stored:
                table.remove(found)
        for name, body in self.stored.items():
            old = table.get(f"{SPACE}/{name}")
            if old is None or old.resource_version != body["metadata"]["resourceVersion"]:
                table.put(parse_config_map(msgspec.json.encode(body), SPACE))

    def day(self, second: int) -> QuotaHistoryDay:
        day = day_of(second)
        body = self.stored.get(name_of(day))
        if body is None:
            return QuotaHistoryDay(day)
        return parse_day(history_payload(msgspec.json.encode(body)), day)

    def turn(self, leader: QuotaHistory, now: float) -> list[Write]:
        """One turn, whose writes are carried out and seen at once."""
        writes = leader.reconcile(self.state, now)
        for write in writes:
            self.apply(write)
        self.deliver()
        return writes

    def use(self, amount: int) -> None:
        ledger = self.state.ledger
        if ledger.is_charged("a", "p"):
            ledger.refund("a", "p")
        ledger.charge("a", "p", {"memory": amount})


def sums(day: QuotaHistoryDay, kind: str, resource: str = "memory") -> int:
    return sum(getattr(day.hour("a", resource, hour), kind) for hour in range(HOURS))


def test_it_counts_use_min_max_waiting_and_what_is_borrowed() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    cluster.use(10)
    cluster.turn(leader, NOON)
    cluster.waiting.set(memory=3)
    cluster.turn(leader, NOON + 10)
    cluster.turn(leader, NOON + 60)
    for write in leader.last_writes(cluster.state, NOON + 100):
        assert cluster.apply(write)
    found = cluster.day(NOON).hour("a", "memory", 12)
    assert (found.measured, found.used, found.borrowed, found.min) == (100, 1000, 200, 800)
    assert (found.waiting, found.max, found.unlimited) == (270, 0, 100)
    cpu = cluster.day(NOON).hour("a", "cpu", 12)
    assert (cpu.measured, cpu.used, cpu.max, cpu.unlimited) == (100, 0, 4000 * 100, 0)


def test_the_lender_and_the_borrower() -> None:
    cluster = Cluster()
    cluster.state.put_quota(make_quota("b/q").min(memory=4).uid("v").obj())
    cluster.use(10)
    leader = cluster.leader("one")
    cluster.turn(leader, NOON)
    for write in leader.last_writes(cluster.state, NOON + 50):
        cluster.apply(write)
    assert cluster.day(NOON).hour("b", "memory", 12).lent == 100
    assert leader.totals(NOON + 50)["a", "memory", "borrowed"] == 100


def test_hours_and_days_are_divided_at_their_ends() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    cluster.use(1)
    for second in range(MIDNIGHT - 3610, MIDNIGHT + 31, 10):
        cluster.turn(leader, second)
    for write in leader.last_writes(cluster.state, MIDNIGHT + 30):
        cluster.apply(write)
    before, after = cluster.day(MIDNIGHT - 1), cluster.day(MIDNIGHT)
    assert [before.hour("a", "memory", hour).measured for hour in (22, 23)] == [10, 3600]
    assert (before.until, after.until) == (MIDNIGHT, MIDNIGHT + 30)
    assert after.hour("a", "memory", 0).measured == 30


def test_it_writes_at_the_start_and_every_five_minutes() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    times = [second for second in range(NOON, NOON + 901) if cluster.turn(leader, second)]
    assert times == [NOON, NOON + 300, NOON + 600, NOON + 900]


def test_a_gap_is_not_measured() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    cluster.use(1)
    for second in (NOON, NOON + 10, NOON + 1000, NOON + 1020):
        cluster.turn(leader, second)
    for write in leader.last_writes(cluster.state, NOON + 1020):
        cluster.apply(write)
    assert MOST_GAP_SECONDS < 1000
    assert cluster.day(NOON).hour("a", "memory", 12).measured == 30


def test_a_clock_that_goes_back_counts_nothing_twice() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    cluster.use(1)
    for second in (NOON, NOON + 50, NOON - 20, NOON + 10, NOON + 50, NOON + 60):
        cluster.turn(leader, second)
    for write in leader.last_writes(cluster.state, NOON + 60):
        cluster.apply(write)
    found = cluster.day(NOON)
    assert (sums(found, "measured"), sums(found, "used")) == (60, 60)


def test_a_clock_that_goes_back_beyond_midnight_loses_nothing() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    cluster.use(1)
    for second in (-10, 0, 20, -30, -5, 0, 20, 30):
        cluster.turn(leader, MIDNIGHT + second)
    for write in leader.last_writes(cluster.state, MIDNIGHT + 30):
        cluster.apply(write)
    assert sums(cluster.day(MIDNIGHT - 1), "measured") == 10
    assert sums(cluster.day(MIDNIGHT), "measured") == 30


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"data": {"day.json": "{"}}, "Input data was truncated"),
        ({"data": {}}, "is missing"),
        ({"binaryData": {"day.json.gz": "AAAA"}}, "is not compressed with gzip"),
        ({"data": {"day.json": '{"version": 1, "day": "2026-03-02"}'}}, "must be '2026-03-01'"),
    ],
)
def test_a_broken_config_map_is_told_of_and_replaced(content: dict[str, Any], told: str) -> None:
    cluster = Cluster()
    cluster.put(name_of(day_of(NOON)), content)
    cluster.deliver()
    leader = cluster.leader("one")
    (event, *rest) = sorted(
        cluster.turn(leader, NOON), key=lambda write: write.resource.plural == "configmaps"
    )  # type: ignore[union-attr]
    assert isinstance(event, Create)
    assert told in event.body["note"]
    assert len(rest) == 1
    assert cluster.day(NOON).writer == "one"


def test_an_edit_by_hand_is_told_of_and_undone() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    cluster.use(5)
    cluster.turn(leader, NOON)
    cluster.turn(leader, NOON + 30)
    name = name_of(day_of(NOON))
    body = cluster.stored[name]
    forged = body["data"]["day.json"].replace('"evictionsLeftOut":0', '"evictionsLeftOut":7')
    cluster.put(name, {**body, "data": {"day.json": forged}})
    cluster.deliver()
    writes = cluster.turn(leader, NOON + 40)
    assert ["changed by somebody else" in str(getattr(write, "body", "")) for write in writes] == [
        False,
        True,
    ]
    assert cluster.day(NOON).left_out == 0
    assert sums(cluster.day(NOON), "measured") == 40


def test_old_days_are_deleted() -> None:
    cluster = Cluster()
    for days in (34, 35, 36, 400):
        cluster.put(name_of(day_of(NOON - days * 86_400)), {"data": {}})
    cluster.put("muster-history-of-rome", {})
    cluster.deliver()
    cluster.turn(cluster.leader("one"), NOON)
    kept = {name_of(day_of(NOON - days * 86_400)) for days in (0, 34, 35)}
    assert cluster.stored.keys() == {*kept, "muster-history-of-rome"}


def test_evictions_are_recorded_with_for_whom_and_only_so_many() -> None:
    cluster = Cluster()
    leader = cluster.leader("one")
    cluster.turn(leader, NOON)
    victims = tuple(make_pod(f"a/p{number:02}").requests(memory=2).obj() for number in range(30))
    quota = cluster.state.ledger.quota_of("a")
    for _ in range(MOST_EVICTIONS + 3):
        cluster.state.displacements.pending.append(Displacement(victims, "PodGroup b/g", "t", quota, "b/q"))
    DisplacementNotices().reconcile(cluster.state, NOON + 1)
    cluster.turn(leader, NOON + 1)
    cluster.turn(leader, NOON + 301)
    found = cluster.day(NOON)
    assert (len(found.evictions), found.left_out) == (MOST_EVICTIONS, 3)
    first = found.evictions[0]
    assert (first.time, first.by, first.by_quota, first.quota) == (NOON + 1, "PodGroup b/g", "b/q", "a/q")
    assert (first.count, len(first.pods), first.amounts) == (30, 20, {"memory": 60})


# Random lives of leaders. In every second the use is another power of two, so the sum of the use says which
# seconds were counted, and a second that counted twice shows as a carry.

OUTCOMES = st.sampled_from(["stored", "stored", "stored", "lost", "late"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.sampled_from([1, 2, 10, 40, 301])),
        st.tuples(st.just("slow takeover"), st.integers(0, 9)),
        st.tuples(st.just("write"), OUTCOMES),
        st.tuples(st.just("watch"), st.booleans()),
        st.tuples(st.sampled_from(["kill", "end"]), st.integers(0, 90)),
        st.tuples(st.sampled_from(["delete", "label", "break", "arrive"]), st.just(0)),
    ),
    max_size=40,
)


class Lives:
    """Leaders one after the other, on a server that loses and delays writes."""

    def __init__(self, start: int) -> None:
        self.cluster = Cluster()
        self.start = self.second = start
        self.outcome = "stored"
        self.seen = True
        self.late: list[Write] = []
        self.number = 0
        self.leader = self.cluster.leader("0")
        # Seconds as bits: with any leader, with this one, and stored at some time.
        self.led = 0
        self.own = 0
        self.safe = 0

    def carry_out(self, writes: list[Write]) -> None:
        for write in writes:
            if self.outcome == "late":
                self.late.append(write)
            elif self.outcome == "stored":
                self.cluster.apply(write)
        if self.seen:
            self.cluster.deliver()
        self.safe |= self.counted()

    def counted(self) -> int:
        return sum(sums(self.cluster.day(second), "used") for second in self.days())

    def days(self) -> set[int]:
        return {self.start, self.start - self.start % 86_400 + 86_400}

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.use(1 << (self.second - self.start))
            self.carry_out(self.leader.reconcile(self.cluster.state, self.second))
            self.led |= 1 << (self.second - self.start)
            self.own |= 1 << (self.second - self.start)
            self.second += 1

    def next_leader(self, pause: int, *, graceful: bool) -> None:
        if graceful:
            self.carry_out(self.leader.last_writes(self.cluster.state, self.second))
        self.second += pause
        self.number += 1
        self.own = 0
        # A process that starts lists everything first.
        self.cluster.deliver()
        self.leader = self.cluster.leader(str(self.number))

    def step(self, what: str, value: Any) -> None:
        name = name_of(day_of(self.second))
        body = self.cluster.stored.get(name)
        match what:
            case "run":
                self.run(value)
            case "write":
                self.outcome = value
            case "watch":
                self.seen = value
            case "kill" | "end":
                self.next_leader(value, graceful=what == "end")
            case "slow takeover":
                # The last write of a leader arrives when the next one has read what is stored.
                self.outcome = "late"
                self.run(value)
                self.next_leader(value, graceful=True)
                mine, self.late = self.late, []
                self.run(2)
                self.late = mine
                self.arrive()
            case "arrive":
                self.arrive()
            case "label" if body is not None:
                self.cluster.put(name, {**body, "metadata": {"labels": {"x": "y"}}})
            case "delete" | "break":
                # Only a leader that knows the whole day can restore it.
                self.run(1)
                self.break_(name, what)

    def arrive(self) -> None:
        for write in self.late:
            self.cluster.apply(write)
        self.late.clear()
        self.safe |= self.counted()

    def break_(self, name: str, what: str) -> None:
        self.outcome, self.seen = "stored", True
        self.run(1)
        self.cluster.deliver()
        self.run(1)
        name = name_of(day_of(self.second))
        if what == "delete":
            self.cluster.stored.pop(name, None)
        elif name in self.cluster.stored:
            self.cluster.put(name, {"data": {"day.json": "?"}})
            self.cluster.deliver()
            self.run(1)
            return
        self.cluster.deliver()
        self.run(1)


@given(steps=STEPS, start=st.sampled_from([NOON - 20, MIDNIGHT - 30]))
def test_nothing_is_lost_and_nothing_counts_twice(steps: list[tuple[str, Any]], start: int) -> None:
    lives = Lives(start)
    lives.run(1)
    for what, value in steps:
        lives.step(what, value)
    lives.outcome, lives.seen = "stored", True
    lives.cluster.deliver()
    lives.run(1)
    for _ in range(3):
        lives.cluster.deliver()
        lives.carry_out(lives.leader.last_writes(lives.cluster.state, lives.second))
    counted = lives.counted()
    measured = sum(sums(lives.cluster.day(second), "measured") for second in lives.days())
    assert counted.bit_count() == measured, "each measured second has its own use, once"
    assert counted & ~lives.led == 0, "only seconds with a leader"
    assert lives.safe & ~counted == 0, "what was once stored stays"
    assert lives.own & ~counted == 0, "the last leader loses nothing"
