"""The status of PodGroups: phase, counts, conditions, and when it is written."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.model.quotas.reservation_ledger import ReservationLedger, parse_reservation_ledger
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import GroupRun, Repair, RepairReason, TopologySettings
from tests.support.builders import PodBuilder, make_group, make_node, make_pod

GANG = make_group("a/g").needs(3).uid("g1").version("7").obj()


def cluster() -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_gang(GANG)
    return state


def test_the_first_status_has_every_count_and_condition() -> None:
    state = cluster()
    for name in ("p0", "p1"):
        state.put_pod(make_pod(f"a/{name}").uid(name).group("g").on("n").obj(), 0.0)
    (patch,) = GangStatusController().reconcile(state, 10.0)
    assert isinstance(patch, Patch)
    assert (patch.subresource, patch.uid, patch.resource_version) == ("status", "g1", "7")
    assert isinstance(patch.body, dict)
    status = patch.body["status"]
    conditions = {item["type"]: (item["status"], item["reason"]) for item in status.pop("conditions")}
    assert status == {"phase": "Unschedulable", "admitted": 2, "running": 2, "succeeded": 0, "failed": 0}
    assert conditions == {
        "Scheduled": ("False", "GangWaits"),
        "Unschedulable": ("True", "BelowMinMembers"),
    }


def test_a_status_that_says_all_that_already_is_not_written_again() -> None:
    state = cluster()
    (patch,) = GangStatusController().reconcile(state, 10.0)
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    told = make_group("a/g").needs(3).uid("g1").version("8")
    told.raw["status"] = patch.body["status"]
    state.put_gang(told.obj())
    assert GangStatusController().reconcile(state, 50.0) == []


def test_changes_within_a_second_wait_and_are_not_lost() -> None:
    state, controller = cluster(), GangStatusController()
    assert len(controller.reconcile(state, 10.0)) == 1
    assert controller.next_time(state) is None
    state.put_pod(make_pod("a/p").uid("p").group("g").obj(), 10.2)
    assert controller.reconcile(state, 10.5) == []
    assert controller.next_time(state) == 11.0
    assert len(controller.reconcile(state, 11.0)) == 1


def phase_and_text(writes: list[Write]) -> tuple[str, str]:
    (patch,) = writes
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    status = patch.body["status"]
    (scheduled,) = (item for item in status["conditions"] if item["type"] == "Scheduled")
    return status["phase"], scheduled["message"]


def test_a_gang_that_is_being_bound_says_how_far_it_is() -> None:
    state, controller = cluster(), GangStatusController(min_interval=0.0)
    slot = state.nodes.slot("n")
    assert slot is not None
    pods = [make_pod(f"a/p{i}").uid(f"p{i}").group("g") for i in range(3)]
    for pod in pods:
        state.put_pod(pod.obj(), 0.0)
        state.assume(pod.obj(), slot, 1.0)
    state.put_pod(pods[0].on("n", "Pending").obj(), 2.0)
    assert phase_and_text(controller.reconcile(state, 2.0)) == (
        "Scheduling",
        "minMembers 3: 3 have a node, 0 wait, 0 succeeded, 0 failed, 2 are being bound",
    )
    for pod in pods[1:]:
        state.put_pod(pod.on("n", "Pending").obj(), 3.0)
    assert phase_and_text(controller.reconcile(state, 3.0))[0] == "Scheduled"


def test_a_group_whose_pods_are_all_gone_says_so() -> None:
    state, controller = cluster(), GangStatusController(min_interval=0.0)
    for name in ("p0", "p1"):
        state.put_pod(make_pod(f"a/{name}").uid(name).group("g").obj(), 0.0)
    assert "2 wait" in phase_and_text(controller.reconcile(state, 10.0))[1]
    for name in ("p0", "p1"):
        state.remove_pod(name)
    assert phase_and_text(controller.reconcile(state, 11.0)) == (
        "Pending",
        "minMembers 3: no pod names the group",
    )


def test_a_decided_eviction_and_its_failure_are_both_told() -> None:
    state, controller = cluster(), GangStatusController(min_interval=0.0)
    for name in ("p0", "p1", "p2"):
        state.put_pod(make_pod(f"a/{name}").uid(name).group("g").on("n", "Pending").obj(), 0.0)
    assert phase_and_text(controller.reconcile(state, 10.0))[0] == "Scheduled"
    state.mark_leaving("p0")
    assert phase_and_text(controller.reconcile(state, 11.0)) == (
        "Unschedulable",
        "minMembers 3: 2 have a node, 0 wait, 0 succeeded, 0 failed, 1 are on their way out",
    )
    state.reprieve("p0")
    assert phase_and_text(controller.reconcile(state, 12.0))[0] == "Scheduled"


def test_groups_that_others_own_are_left_alone() -> None:
    state = ClusterState()
    state.put_pod(make_pod("a/p").label("scheduling.x-k8s.io/pod-group", "x").obj(), 0.0)
    state.put_pod(make_pod("a/q").group("absent").obj(), 0.0)
    assert GangStatusController().reconcile(state, 10.0) == []
    assert state.gangs.dirty == set()


def test_members_that_went_elsewhere_are_told_with_what_helps() -> None:
    state = cluster()
    pods = [
        make_pod("a/ours").uid("ours").group("g"),
        make_pod("a/waits").uid("waits").group("g").scheduler("default-scheduler"),
        make_pod("a/bound").uid("bound").group("g").scheduler("default-scheduler").on("n"),
        make_pod("a/done").uid("done").group("g").scheduler("default-scheduler").on("n", "Succeeded"),
        make_pod("a/goes").uid("goes").group("g").scheduler("default-scheduler").deleting(5.0),
    ]
    for pod in pods:
        state.put_pod(pod.obj(), 0.0)
    controller = GangStatusController(min_interval=0.0, others={"default-scheduler"})
    assert elsewhere(controller.reconcile(state, 10.0)) == (
        "2 of 5 members went to default-scheduler: 1 wait there, 1 have a node and count; "
        "`kubectl podgroup adopt g -n a` brings those that wait back"
    )
    state.remove_pod("waits")
    assert elsewhere(controller.reconcile(state, 20.0)) == (
        "1 of 4 members went to default-scheduler: all have a node and count"
    )
    state.remove_pod("bound")
    assert elsewhere(controller.reconcile(state, 30.0)) == ""


def test_a_scheduler_of_that_name_is_at_home() -> None:
    state = cluster()
    state.put_pod(make_pod("a/p").uid("p").group("g").scheduler("default-scheduler").obj(), 0.0)
    assert elsewhere(GangStatusController().reconcile(state, 10.0)) == ""


def elsewhere(writes: list[Write]) -> str:
    """The message of the condition, empty without."""
    (patch,) = writes
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    found = {item["type"]: item for item in patch.body["status"]["conditions"]}
    return str(found.get("MembersElsewhere", {}).get("message", ""))


# What is reserved

WANTED = make_group("a/g").needs(3).uid("g1").totals(cpu="6", memory="1Gi")


def ledger(**hold: object) -> ReservationLedger:
    entry = {"group": "g", "uid": "g1", "minMembers": 3, "totalResources": {"cpu": "6", "memory": "1Gi"}}
    meta = {"name": "reservations", "namespace": "a"}
    spec = {"holds": [{**entry, **hold}], "charges": [{"uid": "new", "group": "g", "usage": {"cpu": "1"}}]}
    return parse_reservation_ledger({"metadata": meta, "spec": spec})


def reserving(*pods: PodBuilder, entry: ReservationLedger | None = None) -> ClusterState:
    state = cluster()
    state.put_gang(WANTED.obj())
    for pod in pods:
        state.put_pod(pod.group("g").obj(), 0.0)
    if entry is not None:
        state.gangs.put_ledger(entry)
    return state


def told(state: ClusterState) -> tuple[str, str, str]:
    """(status, reason, message) of the condition Reserved."""
    (patch,) = GangStatusController().reconcile(state, 10.0)
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    (found,) = (item for item in patch.body["status"]["conditions"] if item["type"] == "Reserved")
    return found["status"], found["reason"], found["message"]


def two_cpus(name: str) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=2)


RESERVED = [
    pytest.param(
        reserving(entry=None),
        ("False", "NotReserved"),
        "cpu=6,memory=1Gi is not reserved: the reservation ledger does not list the group",
        id="no ledger",
    ),
    pytest.param(
        reserving(entry=ledger(uid="older")),
        ("False", "NotReserved"),
        "cpu=6,memory=1Gi is not reserved: the reservation ledger does not list the group",
        id="the entry of an older group of that name",
    ),
    pytest.param(
        reserving(entry=ledger()),
        ("True", "QuotaReserved"),
        "members use cpu=1 of cpu=6,memory=1Gi, cpu=5,memory=1Gi is held",
        id="a member is on its way",
    ),
    pytest.param(
        reserving(two_cpus("p"), two_cpus("new"), two_cpus("done").on("n", "Failed"), entry=ledger()),
        ("True", "QuotaReserved"),
        "members use cpu=4 of cpu=6,memory=1Gi, cpu=2,memory=1Gi is held",
        id="members that live are counted once",
    ),
    pytest.param(
        reserving(*(two_cpus(f"p{i}") for i in range(4)), entry=ledger(spent={"memory": "1Gi"})),
        ("True", "QuotaReserved"),
        "members use cpu=9,memory=1Gi of cpu=6,memory=1Gi, nothing is held",
        id="more is used than was reserved",
    ),
    pytest.param(
        reserving(entry=ledger(ended=True)),
        ("False", "ReservationEnded"),
        "the group ended: nothing is reserved any more",
        id="the group ended",
    ),
]


@pytest.mark.parametrize(("state", "verdict", "words"), RESERVED)
def test_reserved_is_what_the_ledger_says(state: ClusterState, verdict: tuple[str, str], words: str) -> None:
    assert told(state) == (*verdict, words)


def test_a_change_of_the_ledger_alone_is_told() -> None:
    state = reserving(entry=ledger())
    assert len(GangStatusController().reconcile(state, 10.0)) == 1
    assert state.gangs.dirty == set()
    state.gangs.put_ledger(ledger())
    assert state.gangs.dirty == set(), "nothing about the group changed"
    for change in (ledger(ended=True), ledger()):
        state.gangs.put_ledger(change)
        assert state.gangs.dirty == {"a/g PodGroup"}
        state.gangs.dirty.clear()
    state.gangs.remove_ledger("a")
    assert state.gangs.dirty == {"a/g PodGroup"}
    state.gangs.remove_ledger("a")


def test_unreadable_totals_reserve_nothing_and_stop_no_pod() -> None:
    broken = make_group("a/g").needs(3)
    broken.raw["spec"]["totalResources"] = {"cpu": "-1"}
    assert broken.obj().total == {}


# What is asked of the topology


def constrained(*schedulers: str) -> ClusterState:
    state = cluster()
    state.topology.settings["muster-scheduler"] = TopologySettings()
    wish = '{"rack": {"type": "pack"}}'
    state.put_gang(
        make_group("a/g").needs(3).uid("g1").annotation("muster.dev/topology-constraints", wish).obj()
    )
    for number, name in enumerate(schedulers):
        state.put_pod(make_pod(f"a/p{number}").uid(f"p{number}").group("g").scheduler(name).obj(), 0.0)
    return state


def told_of(state: ClusterState, kind: str, now: float = 10.0) -> dict[str, Any]:
    """The condition of this type in the next status; empty if it has none."""
    (patch,) = GangStatusController().reconcile(state, now)
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    return {item["type"]: item for item in patch.body["status"]["conditions"]}.get(kind, {})


def enforced(state: ClusterState) -> tuple[str, str]:
    found = told_of(state, "TopologyNotEnforced")
    return found.get("status", ""), found.get("message", "")


REPLACED = Repair(RepairReason.REPLACED, "1 of the missing members were replaced in rack=r0")
WAITING = Repair(RepairReason.WAITS, "1 member is missing, and rack=r0 has no room")


@pytest.mark.parametrize(
    ("repair", "waits", "told"),
    [
        pytest.param(None, True, None, id="nothing was lost"),
        pytest.param(REPLACED, False, ("False", "ReplacedInDomain"), id="replaced"),
        pytest.param(WAITING, True, ("True", "WaitsForDomain"), id="no room"),
        pytest.param(WAITING, False, None, id="no member waits any more"),
    ],
)
def test_what_becomes_of_lost_members_is_told(
    repair: Repair | None, waits: bool, told: tuple[str, str] | None
) -> None:
    state = constrained("muster-scheduler")
    state.topology.runs["a/g PodGroup"] = GroupRun(repair=repair)
    if not waits:
        state.remove_pod("p0")
        pods = (make_pod(f"a/q{n}").uid(f"q{n}").group("g").on("n", "Running") for n in range(3))
        for pod in pods:
            state.put_pod(pod.obj(), 0.0)
    found = told_of(state, "Repair")
    assert ((found["status"], found["reason"]) if found else None) == told
    if repair is not None and told is not None:
        assert found["message"] == repair.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            ("True", "WaitsForDomain", "one lacks"),
            ("False", "NothingMissing", "no member is missing"),
            id="members were missing",
        ),
        pytest.param(
            ("False", "ReplacedInDomain", "replaced"),
            ("False", "ReplacedInDomain", "replaced"),
            id="what became of them stays",
        ),
    ],
)
def test_a_new_process_ends_what_an_old_one_said_of_lost_members(
    before: tuple[str, str, str], after: tuple[str, str, str]
) -> None:
    state = constrained("muster-scheduler")
    group = make_group("a/g").needs(3).uid("g1")
    group.annotation("muster.dev/topology-constraints", '{"rack": {"type": "pack"}}')
    told = dict(zip(("status", "reason", "message"), before, strict=True))
    old = {"type": "Repair", "lastTransitionTime": "2025-12-31T00:00:00Z", **told}
    group.raw["status"] = {"conditions": [old]}
    state.put_gang(group.obj())
    found = told_of(state, "Repair")
    assert (found["status"], found["reason"], found["message"]) == after
    unchanged = found["lastTransitionTime"] == old["lastTransitionTime"]
    assert unchanged is (before[0] == after[0])


@pytest.mark.parametrize(
    ("schedulers", "status", "text"),
    [
        pytest.param([], "", "", id="nobody is there to be placed"),
        pytest.param(
            ["muster-scheduler"] * 2, "False", "members are placed as the constraints say", id="all"
        ),
        pytest.param(
            ["muster-scheduler", "other", "third"],
            "True",
            "not enforced: 2 of 3 members are with other, third, and no profile of that name has "
            "ClusterTopologyPlacementGroup; the constraints are preferences, so they run without them",
            id="some",
        ),
    ],
)
def test_constraints_are_said_to_be_enforced_only_where_a_profile_does(
    schedulers: list[str], status: str, text: str
) -> None:
    assert enforced(constrained(*schedulers)) == (status, text)


def test_a_group_without_constraints_has_nothing_to_be_enforced() -> None:
    assert enforced(cluster()) == ("", "")
