"""Decisions about pods without a node: messages word for word, nominations and evictions."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.decisions import Evicted, Noticed, Rejected
from scheduler_core.engine.gang.outcome import Lack, MemberToPrepare, MustWait, Outcome, Prepares, Starts
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.pod_cycle import Attempt
from scheduler_core.engine.scheduling_failure import (
    evict_for_gang,
    eviction_message,
    members_wait,
    rejected,
    reserve_failed,
    topology_notices,
    unschedulable_event,
)
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.status import SUCCESS, Code, Diagnosis, Status, unschedulable
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.names import EVENT_FAILED_SCHEDULING, REASON_UNSCHEDULABLE
from scheduler_core.model.writes import Bind, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import TopologySettings
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member

WRITE: Write = Bind("a", "v", "v", "n0")


class Setting:
    """Two nodes with a running pod v on n0."""

    def __init__(self) -> None:
        self.made = GangScheduler([4, 4], g=2)
        self.state = self.made.state
        self.made.put(make_pod("f/v").uid("v").requests(cpu=1).on("n0"))
        (self.profile,) = self.made.scheduler.profiles.values()

    def attempt(self, pod: PodBuilder, diagnosis: Diagnosis | None = None, **more: Any) -> Attempt:
        cycle = self.made.scheduler.cycle.new_cycle(self.profile, pod.obj(), self.made.now)
        slot = more.pop("slot", -1)
        return Attempt(cycle, slot, diagnosis, more.pop("found", None))


REFUSED = Diagnosis(2, unschedulable("no").of("Somebody"), plugins=frozenset({"Somebody"}))


def test_a_refused_pod_is_told_why_and_waits_for_who_refused_it() -> None:
    setting = Setting()
    pod = make_pod("f/p").uid("p")
    ((waits,), plugins) = rejected(setting.state, setting.profile, setting.attempt(pod, REFUSED))
    assert isinstance(waits, Rejected)
    assert (waits.pod.name, waits.profile, waits.reason) == ("p", "muster-scheduler", REASON_UNSCHEDULABLE)
    assert (waits.message, waits.diagnosis) == (REFUSED.message, REFUSED)
    assert (waits.nominated, waits.event, waits.writes) == ("", EVENT_FAILED_SCHEDULING, ())
    assert plugins == {"Somebody"}


def test_a_pod_whose_group_is_what_is_missing_has_the_event_of_a_group() -> None:
    setting = Setting()
    by_group = Diagnosis(2, unschedulable("no").of("Coscheduling"))
    by_nodes = Diagnosis(2)
    for diagnosis, event in ((by_group, REASON_UNSCHEDULABLE), (by_nodes, EVENT_FAILED_SCHEDULING)):
        found, _ = rejected(setting.state, setting.profile, setting.attempt(make_pod("f/p"), diagnosis))
        assert [item.event for item in found if isinstance(item, Rejected)] == [event]


def test_an_attempt_without_a_diagnosis_is_a_mistake() -> None:
    setting = Setting()
    with pytest.raises(ValueError, match="diagnosis"):
        rejected(setting.state, setting.profile, setting.attempt(make_pod("f/p")))


def test_victims_go_and_the_pod_waits_for_their_node() -> None:
    setting = Setting()
    victim = setting.state.pods["v"]
    found = PostFilterResult(SUCCESS, "n0", (victim,))
    pod = make_pod("f/p").uid("p").requests(cpu=3).priority(7)
    decisions, _ = rejected(setting.state, setting.profile, setting.attempt(pod, REFUSED, found=found))
    evicted, waits = decisions
    assert isinstance(evicted, Evicted)
    assert isinstance(waits, Rejected)
    assert (evicted.pod, evicted.preemptor.name, evicted.profile) == (victim, "p", "muster-scheduler")
    assert "for node n0" in evicted.message
    assert waits.nominated == "n0"
    item = setting.state.nominations.get("p")
    assert item is not None
    assert (item.victims, item.kept, int(item.vector[0])) == ({"v"}, False, 3000)
    assert setting.state.table.leaving[setting.state.placed["v"].row]


TEN_YEARS = 315_360_000


@pytest.mark.parametrize(
    ("namespace", "own", "ending", "sent"),
    [
        pytest.param("b", TEN_YEARS, None, 300, id="another quota's pod has the limit"),
        pytest.param("b", 2**63, None, 300, id="whatever it asks for"),
        pytest.param("b", 60, None, 60, id="or less, if that is its own"),
        pytest.param("b", None, None, 30, id="or what Kubernetes gives a pod that does not say"),
        pytest.param("b", 0, None, 0, id="a pod that asks for nothing gets nothing"),
        pytest.param("b", -5, None, 1, id="negative is 1, as for the API server"),
        pytest.param("b", 0, TEN_YEARS, 300, id="one that ends already has the whole limit"),
        pytest.param("a", 300, None, None, id="one of the own quota keeps its own"),
        pytest.param("a", TEN_YEARS, None, 300, id="if that is within the limit"),
        pytest.param("free", 60, None, None, id="so does one without a quota"),
        pytest.param("free", TEN_YEARS, None, 300, id="up to the same limit"),
    ],
)
def test_how_long_a_victim_has_to_end(
    namespace: str, own: int | None, ending: int | None, sent: int | None
) -> None:
    setting = Setting()
    for name in ("a", "b"):
        setting.made.put(make_quota(f"{name}/quota").min(cpu=1))
    victim = make_pod(f"{namespace}/w").uid("w").requests(cpu=1).on("n0")
    if own is not None:
        victim.spec(terminationGracePeriodSeconds=own)
    if ending is not None:
        victim.deleting(float(TEN_YEARS)).meta["deletionGracePeriodSeconds"] = ending
    setting.made.put(victim)
    found = PostFilterResult(SUCCESS, "n0", (victim.obj(),))
    pod = make_pod("a/p").uid("p").requests(cpu=3)
    decisions, _ = rejected(setting.state, setting.profile, setting.attempt(pod, REFUSED, found=found))
    assert [item.grace for item in decisions if isinstance(item, Evicted)] == [sent]


@pytest.mark.parametrize(
    ("leaves", "node"),
    [
        pytest.param(False, "", id="nobody leaves its node: it gives it up"),
        pytest.param(True, "n0", id="its victim is on its way out: it goes on waiting"),
    ],
)
def test_what_becomes_of_an_earlier_nomination(leaves: bool, node: str) -> None:
    setting = Setting()
    if leaves:
        setting.made.put(make_pod("f/v").uid("v").requests(cpu=1).on("n0").deleting(5.0))
    pod = make_pod("f/p").uid("p").requests(cpu=4)
    setting.state.nominations.put(pod.obj(), "n0", setting.state.vector(pod.obj()), frozenset({"v"}))
    found, _ = rejected(setting.state, setting.profile, setting.attempt(pod, REFUSED))
    assert [item.nominated for item in found if isinstance(item, Rejected)] == [node]
    assert setting.state.nominations.node_of("p") == node


def test_a_refused_node_is_told_and_one_that_is_prepared_is_kept() -> None:
    setting = Setting()
    pod = make_pod("f/p").uid("p").requests(cpu=2)
    refused = reserve_failed(
        setting.state, setting.profile, setting.attempt(pod, slot=1), unschedulable("no")
    )
    assert (refused.message, refused.nominated, refused.writes, len(setting.state.nominations)) == (
        "no",
        "",
        (),
        0,
    )
    status = Status(Code.PENDING, "soon", "Volumes", Preparation((WRITE,)))
    waits = reserve_failed(setting.state, setting.profile, setting.attempt(pod, slot=1), status)
    assert (waits.message, waits.nominated, waits.writes) == ("soon", "n1", (WRITE,))
    item = setting.state.nominations.get("p")
    assert item is not None
    assert (item.node, int(item.vector[0]), item.kept) == ("n1", 2000, False)


# Gangs


@pytest.mark.parametrize("evicts", [True, False])
def test_each_member_of_a_gang_has_its_node(evicts: bool) -> None:
    setting = Setting()
    pods = [member("m0").obj(), member("m1", cpu=2).obj()]
    victim = setting.state.pods["v"]
    nominated = tuple((pod, f"n{number}", setting.state.vector(pod)) for number, pod in enumerate(pods))
    found = GangPreemption(((victim, pods[1]),) if evicts else (), nominated)
    decisions = evict_for_gang(setting.state, found)
    items = [setting.state.nominations.get(pod.uid) for pod in pods]
    assert [(item.node, item.kept, item.group) for item in items if item is not None] == [
        (f"n{number}", not evicts, "a/g PodGroup") for number in range(2)
    ]
    assert {item.victims for item in items if item is not None} == {frozenset({"v"} if evicts else ())}
    assert len(decisions) == int(evicts)
    assert bool(setting.state.table.leaving[setting.state.placed["v"].row]) is evicts
    for item in decisions:
        assert isinstance(item, Evicted)
        assert (item.pod, item.preemptor, item.profile) == (victim, pods[1], "muster-scheduler")
        assert "for node n1" in item.message


def wait(setting: Setting, outcome: Outcome, *, known: bool = True) -> list[Any]:
    pods = [member("m0").obj(), member("m1").obj()]
    gang = setting.state.gangs.gangs["a/g PodGroup"] if known else None
    return list(members_wait(setting.state, gang, [(setting.profile, pod) for pod in pods], outcome, 0.0))


@pytest.mark.parametrize(("few", "event"), [(True, REASON_UNSCHEDULABLE), (False, EVENT_FAILED_SCHEDULING)])
def test_members_that_wait_are_told_and_so_is_their_group(few: bool, event: str) -> None:
    setting = Setting()
    found = wait(
        setting, MustWait(refused={"m0": "no", "m1": "nor this"}, lack=Lack.PODS if few else Lack.ROOM)
    )
    first, second, notice = found
    assert [(item.pod.name, item.message, item.event) for item in (first, second)] == [
        ("m0", "no", event),
        ("m1", "nor this", event),
    ]
    assert isinstance(notice, Noticed)
    assert (notice.kind, notice.name, notice.message, notice.profile) == (
        "PodGroup",
        "g",
        "no",
        "muster-scheduler",
    )


def test_only_refused_members_wait_and_a_group_that_starts_is_told_nothing() -> None:
    setting = Setting()
    some: Any = [(setting.profile, None)]
    found = wait(setting, Starts(reserved=some, refused={"m1": "later"}))
    assert [item.pod.name for item in found] == ["m1"]
    found = wait(setting, MustWait(refused={"m0": "no", "m1": "no"}), known=False)
    assert len(found) == 2, "there is no group to tell"


def test_nodes_that_are_prepared_are_kept_for_the_gang_with_their_writes() -> None:
    setting = Setting()
    pod = member("m1", cpu=2).obj()
    preparing = (MemberToPrepare(pod, "n1", setting.state.vector(pod), (WRITE,)),)
    outcome = Prepares(refused={"m0": "soon", "m1": "soon"}, members=preparing)
    first, second, _ = wait(setting, outcome)
    assert (first.nominated, first.writes, second.nominated, second.writes) == ("", (), "n1", (WRITE,))
    item = setting.state.nominations.get("m1")
    assert item is not None
    assert (item.kept, item.group) == (True, "a/g PodGroup")


def test_without_waiting_pods_there_is_no_event() -> None:
    setting = Setting()
    gang = setting.state.gangs.gangs["a/g PodGroup"]
    assert members_wait(setting.state, gang, [], MustWait(refused={}), 0.0) == []


def cluster() -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_quota(make_quota("a/q").min(cpu=2).obj())
    state.put_quota(make_quota("b/q").min(cpu=1, memory=5).obj())
    state.put_pod(make_pod("b/v").uid("v").requests(cpu=3, memory=9).on("n").obj())
    state.put_pod(make_pod("free/v").uid("f").on("n").obj())
    return state


def test_an_eviction_names_the_preemptor_its_quota_and_what_is_borrowed() -> None:
    state, preemptor = cluster(), make_pod("a/p").priority(7).obj()
    assert eviction_message(state, preemptor, state.pods["v"], "n") == (
        "preempted by a/p (priority 7) for node n, which reclaims the min of ElasticQuota a/q; "
        "ElasticQuota b/q borrows cpu=2, memory=4"
    )
    own = make_pod("b/p").obj()
    assert eviction_message(state, own, state.pods["v"], "n") == (
        "preempted by b/p (priority 0) for node n, under ElasticQuota b/q"
    )
    free = make_pod("free/p").obj()
    assert (
        eviction_message(state, free, state.pods["f"], "n") == "preempted by free/p (priority 0) for node n"
    )
    assert eviction_message(state, preemptor, state.pods["f"], "n").endswith("for node n")


def test_the_eviction_for_a_gang_names_it() -> None:
    state, member = cluster(), make_pod("free/p").group("g").priority(3).obj()
    message = eviction_message(state, member, state.pods["f"], "n", group=group_of(member))
    assert message == "preempted by free/p of PodGroup free/g (priority 3) for node n"


@pytest.mark.parametrize(("own", "told"), [("5", 5), ("0", 0), (None, 3)])
def test_the_eviction_for_a_group_names_the_priority_of_the_group(own: str | None, told: int) -> None:
    state = cluster()
    data = {"name": "g", "size": "1"} | ({"priority": own} if own is not None else {})
    meta = {"name": "c", "namespace": "free", "uid": "c", "labels": {"sakkara.group": ""}}
    for gang in state.config_maps.put(parse_config_map({"metadata": meta, "data": data})).come:
        state.put_gang(gang)
    member = make_pod("free/p").label("sakkara.group.name", "g").priority(3).obj()
    message = eviction_message(state, member, state.pods["f"], "n", group=group_of(member))
    assert message == f"preempted by free/p of group ConfigMap free/g (priority {told}) for node n"


def test_an_event_on_a_group_names_its_own_kind() -> None:
    gang = make_group("a/g").uid("u").needs(2).obj()
    event = unschedulable_event(gang, "muster-scheduler", "too few", "member")
    assert (event.api_version, event.kind) == ("incubator.scheduling.k8s.io/v1alpha1", "PodGroup")
    assert (event.namespace, event.name, event.uid, event.reason) == ("a", "g", "u", "Unschedulable")
    assert (event.profile, event.message, event.waiting) == ("muster-scheduler", "too few", "member")


def test_a_faulty_topology_is_told_by_every_profile_that_reads_it_and_once() -> None:
    state = cluster()
    for name, namespace in (("s", "default"), ("t", "default"), ("u", "elsewhere")):
        state.topology.settings[name] = TopologySettings(namespace)
    meta = {"name": "t", "namespace": "default", "uid": "t", "labels": {"sakkara.topology": ""}}
    state.config_maps.put(parse_config_map({"metadata": meta, "data": {"level-names": "["}}))
    notices = topology_notices(state)
    assert [(item.profile, item.reason, item.name) for item in notices] == [  # type: ignore[union-attr]
        ("s", "InvalidTopology", "t"),
        ("t", "InvalidTopology", "t"),
    ]
    assert topology_notices(state) == []


def test_an_eviction_says_that_the_victims_quota_is_above_its_max() -> None:
    state, preemptor = cluster(), make_pod("a/p").priority(7).obj()
    state.put_quota(make_quota("b/q").min(cpu=1).max(cpu=2).obj())
    assert eviction_message(state, preemptor, state.pods["v"], "n").endswith(
        "ElasticQuota b/q borrows cpu=2 and uses cpu=3 of max=2"
    )
