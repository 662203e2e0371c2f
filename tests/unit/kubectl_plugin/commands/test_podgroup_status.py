"""`kubectl podgroup status`: rows, one group in detail, data, and what a watch prints again."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kubectl_plugin.cluster.group_view import GroupView
from kubectl_plugin.cluster.group_watch import WatchedGroups
from kubectl_plugin.cluster.reflectors import FeedEvent
from kubectl_plugin.commands.podgroup_status import COLUMNS, LAST_COLUMNS, WIDE_COLUMNS
from kubectl_plugin.podgroup import podgroup
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.groups.gang import parse_gang
from scheduler_core.model.kinds import CONFIG_MAPS, POD_GROUPS, PODS, RESERVATION_LEDGERS, Resource
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.quotas.reservation_ledger import parse_reservation_ledger
from scheduler_core.state.cluster import ClusterState
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

OURS = "incubator.scheduling.k8s.io/v1alpha1"
KEY = "scheduling.k8s.io/group-name"
WAITS = "PodGroup team-a/train: only 2 of the 3 pods that must start together find a node: 1 pod short"


def group(name: str = "train", members: int = 3, **total: str) -> dict[str, Any]:
    created = "2026-01-01T00:00:00Z"
    meta = {"namespace": "team-a", "name": name, "uid": f"u-{name}", "creationTimestamp": created}
    return {
        "apiVersion": OURS,
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMembers": members, "totalResources": total},
    }


def member(name: str, node: str = "", group_name: str = "train", **status: Any) -> dict[str, Any]:
    made = pod_object("team-a", name, node, "Running" if node else "Pending", cpu="2")
    made["metadata"]["annotations"] = {KEY: group_name}
    made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    made["status"] |= status
    return made


def waiting(name: str) -> dict[str, Any]:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": WAITS}
    return member(name, conditions=[told])


def ledger(ended: bool = False, **total: str) -> dict[str, Any]:
    hold = {"group": "train", "uid": "u-train", "minMembers": 3, "totalResources": total, "ended": ended}
    return {"metadata": {"namespace": "team-a", "name": "reservations"}, "spec": {"holds": [hold]}}


@pytest.fixture(autouse=True)
def cluster(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang of three, one of which runs, with all eight CPUs of its namespace reserved; and a small one."""
    monkeypatch.setattr("kubectl_plugin.commands.podgroup_status.time.time", lambda: 1767225900.0)
    api.objects["podgroups"] = [group(cpu="8"), group("small", 1)]
    api.objects["pods"] = [member("train-0", "n1"), waiting("train-1"), waiting("train-2")]
    api.objects["reservationledgers"] = [ledger(cpu="8")]
    api.objects["elasticquotas"] = [quota_object("team-a", max={"cpu": "8", "memory": "1Gi"})]


def test_a_row_for_each_group(eq: Command) -> None:
    done = eq("status", plugin=podgroup)
    header, small, train = done.out.splitlines()
    assert header.split() == [*COLUMNS, *LAST_COLUMNS]
    why = ["PodGroup", "team-a/small", "needs", "minMembers", "1:", "it", "has", "no", "pods"]
    assert small.split() == ["small", "incubator", "Pending", *"100000", "-", *why, "5m"]
    assert train.split()[:9] == ["train", "incubator", "Unschedulable", *"311200"]
    assert "only 2 of the 3 pods that must start together" in train


def test_a_program_gets_the_whole_reason_and_a_terminal_its_beginning(
    api: Api, eq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = f"{WAITS} on {', '.join(f'node-{i}' for i in range(200))}"
    for pod in api.objects["pods"][1:]:
        pod["status"]["conditions"][0]["message"] = long
    assert long in eq("status", plugin=podgroup).out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = eq("status", "--color", "never", plugin=podgroup).out
    assert long not in shown
    assert long[:90] in shown


def test_wide_says_what_is_still_held(eq: Command) -> None:
    header, small, train = eq("status", "-o", "wide", plugin=podgroup).out.splitlines()
    assert header.split() == [*COLUMNS, *WIDE_COLUMNS, *LAST_COLUMNS]
    assert (small.split()[9], train.split()[9]) == ("-", "cpu=2/8")


RESERVED = [
    pytest.param([], "cpu=0/8", "nothing of cpu=8: the reservation ledger does not list it", id="none"),
    pytest.param([ledger(ended=True, cpu="8")], "-", "the group ended: nothing is reserved", id="ended"),
    pytest.param([ledger(cpu="8")], "cpu=2/8", "members use cpu=6 of cpu=8, cpu=2 is held", id="held"),
]


@pytest.mark.parametrize(("ledgers", "cell", "words"), RESERVED)
def test_the_reserved_amount_is_that_of_the_ledger(
    api: Api, eq: Command, ledgers: list[dict[str, Any]], cell: str, words: str
) -> None:
    api.objects["reservationledgers"] = ledgers
    assert eq("status", "-o", "wide", plugin=podgroup).out.splitlines()[2].split()[9] == cell
    assert words in eq("status", "train", plugin=podgroup).out


def test_without_the_right_to_list_ledgers_a_note_says_so(api: Api, eq: Command) -> None:
    api.forbidden.add(("reservationledgers", "team-a"))
    done = eq("status", "-o", "wide", plugin=podgroup)
    assert done.out.splitlines()[2].split()[9] == "?"
    assert done.err == "note: RESERVED is not known: you may not list reservationledgers\n"
    assert "Reserved:   not known" in eq("status", "train", plugin=podgroup).out


def test_one_group_is_shown_with_its_members_and_the_numbers(eq: Command) -> None:
    assert eq("status", "train", plugin=podgroup).out.splitlines() == [
        "Group:      PodGroup team-a/train",
        "Dialect:    incubator",
        "Phase:      Unschedulable",
        "Members:    needs 3: 1 have a node, 2 wait, 0 succeeded, 0 failed",
        "Reserved:   members use cpu=6 of cpu=8, cpu=2 is held",
        "Quota:      ElasticQuota team-a/quota: cpu 6 of 8 left",
        f"Waits for:  {WAITS}",
        "",
        "MEMBER    NODE   STATE     AGE",
        "train-0   n1     Running   5m",
        "train-1   -      Pending   5m",
        "train-2   -      Pending   5m",
    ]


def told(name: str, text: str, second: int, node: str = "") -> dict[str, Any]:
    """A member that got a node, or was told why it has none, at a second of one minute."""
    said = {"type": "PodScheduled", "status": "True" if node else "False", "message": text}
    said["lastTransitionTime"] = f"2026-01-01T00:00:{second:02}Z"
    made = member(name, node, conditions=[said])
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return made


NOW = [
    pytest.param(
        [told("p0", "", 9, "n1"), told("p1", "2 pods wait, 0 have a node", 3), told("p2", "1 pod waits", 2)],
        ("Scheduling", "1 of the 3 members that start together are bound"),
        id="being bound",
    ),
    pytest.param(
        [told("p0", "", 3, "n1"), told("p1", "", 3, "n1"), told("p2", "0/1 nodes", 9)],
        ("Unschedulable", "0/1 nodes"),
        id="one came back and finds no node",
    ),
    pytest.param(
        [told("p0", "1 pod waits", 3), told("p1", "2 pods wait", 4), told("p2", "no room for 3", 5)],
        ("Pending", "no room for 3"),
        id="the last one knows of all",
    ),
    pytest.param(
        [told("p0", "1 pod waits", 3), told("p1", "2 pods wait", 4), member("p2") | {"status": {}}],
        ("Pending", "2 pods wait"),
        id="an older one that was told nothing",
    ),
    pytest.param(
        [told("p0", "1 pod waits", 3), told("p1", "2 pods wait", 4), told("p2", "", 5) | {"status": {}}],
        ("Pending", "the scheduler has not tried p2 yet"),
        id="the last one has just come",
    ),
    pytest.param(
        [told("p0", "PodGroup team-a/train needs minMembers 3: 3 pods wait", 3)],
        ("Pending", "PodGroup team-a/train needs minMembers 3: 1 pod waits, 0 have a node, 0 succeeded"),
        id="two were deleted",
    ),
    pytest.param([], ("Pending", "PodGroup team-a/train needs minMembers 3: it has no pods"), id="all gone"),
]


@pytest.mark.parametrize(("pods", "found"), NOW)
def test_phase_and_reason_are_those_of_now(
    api: Api, eq: Command, pods: list[dict[str, Any]], found: tuple[str, str]
) -> None:
    api.objects["pods"] = pods
    data = json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)
    assert (data["phase"], data["reason"]) == found


def test_a_group_without_pods_says_for_whom_they_were_evicted(api: Api, eq: Command) -> None:
    text = "3 of its 3 pods were preempted by b/king (priority 0), at 2026-01-01T00:00:00Z"
    made = group()
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    made["status"] = {"conditions": [{**target, "message": text}]}
    api.objects["podgroups"], api.objects["pods"] = [made], []
    lacks = "PodGroup team-a/train needs minMembers 3: it has no pods"
    assert f"{lacks}; {text}" in eq("status", "train", plugin=podgroup).out
    api.objects["pods"] = [told("p0", lacks, 3)]
    made_again = eq("status", "train", plugin=podgroup).out
    assert f"Disrupted:  {text}\n" in made_again
    assert made_again.count(text) == 1


def native(name: str, policy: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made = group(name)
    spec = {"schedulingPolicy": policy, **spec}
    return made | {"apiVersion": "scheduling.k8s.io/v1beta1", "spec": spec}


def of_scheduler(pod: dict[str, Any], name: str) -> dict[str, Any]:
    pod["spec"]["schedulerName"] = name
    return pod


def test_groups_of_one_name_are_all_shown_and_the_dialect_tells_them_apart(api: Api, eq: Command) -> None:
    api.objects["podgroups"].append(native("train", {"gang": {"minCount": 9}}))
    both = eq("status", "train", plugin=podgroup).out
    assert [line.split()[-1] for line in both.splitlines() if line.startswith("Dialect:")] == [
        "incubator",
        "native",
    ]
    assert len(json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)["groups"]) == 2
    one = json.loads(eq("status", "native/train", "-o", "json", plugin=podgroup).out)
    assert (one["dialect"], one["minMembers"]) == ("native", 9)
    assert '"x-k8s/train" in team-a' in eq("status", "x-k8s/train", plugin=podgroup).err
    note = "note: 2 groups have this name, and incubator/train is shown; for another one write native/train\n"
    assert note in eq("rank", "train", plugin=podgroup).err
    assert "groups have this name" not in eq("rank", "native/train", plugin=podgroup).err


def test_a_group_without_a_minimum_shows_none(api: Api, eq: Command) -> None:
    api.objects["podgroups"] = [native("crowd", {"basic": {}})]
    (row,) = eq("status", "--no-headers", plugin=podgroup).out.splitlines()
    assert row.split()[:5] == ["crowd", "native", "Pending", "-", "0"]
    assert "PodGroup team-a/crowd needs a pod: it has no pods" in row
    assert "Members:    start as far as they fit: 0 have" in eq("status", "crowd", plugin=podgroup).out


def test_pods_of_which_no_scheduler_takes_care_are_told(api: Api, eq: Command) -> None:
    api.objects["pods"] = [of_scheduler(member(f"train-{i}"), "mutser") for i in range(3)]
    data = json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)
    assert data["reason"] == "scheduler mutser has not tried its pods yet"
    api.objects["podgroups"] = [constrained(status="True", message=AWAY)]
    data = json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)
    assert data["reason"] == AWAY, "what keeps them from a scheduler that could"


KEY_OF_RACKS = {"topology": [{"key": "example.com/rack"}]}


def test_a_native_group_is_unenforced_only_where_its_condition_says_so(api: Api, eq: Command) -> None:
    """Another scheduler enforces its key as well, and no condition tells of that."""
    made = native("train", {"gang": {"minCount": 3}}, schedulingConstraints=KEY_OF_RACKS)
    api.objects["podgroups"] = [made]
    for pod in api.objects["pods"]:
        del pod["metadata"]["annotations"]
        pod["spec"] |= {"schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": "train"}}
    assert "Topology:   one example.com/rack\n" in eq("status", "train", plugin=podgroup).out
    made["status"] = {"conditions": [{"type": "TopologyNotEnforced", "status": "True", "message": AWAY}]}
    assert f"one example.com/rack, {AWAY}\n" in eq("status", "train", plugin=podgroup).out


def test_all_constraints_of_a_group_are_shown(api: Api, eq: Command) -> None:
    made = native("train", {"gang": {"minCount": 3}}, schedulingConstraints=KEY_OF_RACKS)
    made["metadata"]["annotations"] = {"muster.dev/topology-constraints": '{"node": {"type": "pack"}}'}
    api.objects["podgroups"] = [made]
    data = json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)
    assert data["topology"] == "one example.com/rack,node:pack"


AWAY = "not enforced: 1 of 3 members are with other, and no profile of that name has it"


def constrained(**condition: str) -> dict[str, Any]:
    made = group()
    made["metadata"]["annotations"] = {"muster.dev/topology-constraints": '{"rack": {"type": "pack"}}'}
    if condition:
        made["status"] = {"conditions": [{"type": "TopologyNotEnforced", **condition}]}
    return made


ENFORCED = [
    pytest.param(constrained(status="False"), "", id="enforced"),
    pytest.param(constrained(status="True", message=AWAY), AWAY, id="not enforced"),
    pytest.param(
        constrained(), "not enforced: no scheduler has reported that it enforces them", id="nobody said so"
    ),
]


@pytest.mark.parametrize(("given", "lacks"), ENFORCED)
def test_constraints_are_shown_as_enforced_only_where_a_scheduler_says_so(
    api: Api, eq: Command, given: dict[str, Any], lacks: str
) -> None:
    api.objects["podgroups"] = [given]
    (row,) = eq("status", "--no-headers", plugin=podgroup).out.splitlines()
    assert ("rack:pack (not enforced)" in row) is bool(lacks)
    detail = eq("status", "train", plugin=podgroup).out
    assert f"Topology:   {', '.join(filter(None, ('rack:pack', lacks)))}\n" in detail
    data = json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)
    assert data["topologyEnforced"] is not bool(lacks)


@pytest.mark.parametrize("waits", [True, False], ids=["no room", "replaced"])
def test_what_a_running_group_waits_for_after_a_loss_is_its_reason(
    api: Api, eq: Command, waits: bool
) -> None:
    told = "1 member is missing, and rack=r0 has no room"
    given = group()
    condition = {"type": "Repair", "status": str(waits), "reason": "WaitsForDomain", "message": told}
    given["status"] = {"conditions": [condition]}
    api.objects["podgroups"] = [given]
    (row,) = eq("status", "--no-headers", plugin=podgroup).out.splitlines()
    assert (told in row) is waits


STATES = [
    pytest.param({"nodeName": "n1"}, {"phase": "Pending"}, "Scheduled", id="bound and not started"),
    pytest.param({"schedulingGates": [{"name": "x"}]}, {}, "Gated", id="behind a gate"),
    pytest.param({"nodeName": "n1"}, {"phase": "Failed", "reason": "OutOfcpu"}, "OutOfcpu", id="rejected"),
    pytest.param({"nodeName": "n1"}, {"phase": "Succeeded"}, "Succeeded", id="done"),
]


@pytest.mark.parametrize(("spec", "status", "word"), STATES)
def test_the_state_of_a_member_is_one_word(
    api: Api, eq: Command, spec: dict[str, Any], status: dict[str, Any], word: str
) -> None:
    pod = member("train-0", **status)
    pod["spec"] |= spec
    api.objects["pods"] = [pod]
    assert eq("status", "train", plugin=podgroup).out.splitlines()[-1].split()[2] == word


def test_a_member_on_its_way_out_says_so(api: Api, eq: Command) -> None:
    pod = member("train-0", "n1")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:04:00Z"
    api.objects["pods"] = [pod]
    assert eq("status", "train", plugin=podgroup).out.splitlines()[-1].split()[2] == "Terminating"


def test_data_has_exact_figures_and_all_members(eq: Command) -> None:
    found = json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)
    assert found["members"] == [
        {"name": "train-0", "node": "n1", "state": "Running"},
        {"name": "train-1", "node": "", "state": "Pending"},
        {"name": "train-2", "node": "", "state": "Pending"},
    ]
    assert found["reserved"] == {
        "listed": True,
        "ended": False,
        "total": {"cpu": "8"},
        "used": {"cpu": "6"},
        "held": {"cpu": "2"},
    }
    assert (found["kind"], found["apiVersion"], found["phase"]) == ("PodGroup", OURS, "Unschedulable")
    assert (found["minMembers"], found["bound"], found["pending"], found["reason"]) == (3, 1, 2, WAITS)
    everything = yaml.safe_load(eq("status", "-o", "yaml", plugin=podgroup).out)
    assert [item["name"] for item in everything["groups"]] == ["small", "train"]
    assert everything["groups"][0]["reserved"] is None


def test_names_are_those_that_kubectl_takes(api: Api, eq: Command) -> None:
    data = {"name": "ring", "size": "2"}
    meta = {"namespace": "team-a", "name": "ring-map", "labels": {"sakkara.group": ""}, "uid": "m"}
    api.objects["configmaps"] = [{"metadata": meta, "data": data}]
    assert eq("status", "-o", "name", plugin=podgroup).out.splitlines() == [
        "configmap/ring-map",
        "podgroup.incubator.scheduling.k8s.io/small",
        "podgroup.incubator.scheduling.k8s.io/train",
    ]


@pytest.mark.parametrize(
    ("path", "order"),
    [
        (".minMembers", ["small", "zeta", "train"]),
        ("{.pending}", ["small", "zeta", "train"]),
        (".name", ["small", "train", "zeta"]),
        (".reserved.total.cpu", ["small", "train", "zeta"]),
    ],
)
def test_groups_are_sorted_by_a_field_of_their_data(
    api: Api, eq: Command, path: str, order: list[str]
) -> None:
    api.objects["podgroups"].append(group("zeta", 2, cpu="10"))
    rows = eq("status", "--sort-by", path, "--no-headers", plugin=podgroup).out.splitlines()
    assert [row.split()[0] for row in rows] == order


def test_a_path_that_is_none_is_one_line(eq: Command) -> None:
    done = eq("status", "--sort-by", ".[", plugin=podgroup)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)


WRONG = [
    pytest.param(["-o", "json", "-w"], "-o json cannot be used with --watch.", id="data is not watched"),
    pytest.param(["-w", "--sort-by=.phase"], "cannot be used with --watch", id="a watch is not sorted"),
    pytest.param(["train", "-A"], "by name across all namespaces", id="a name in all namespaces"),
    pytest.param(["-o", "svg"], "'svg' is not one of", id="an unknown form"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_wrong_usage_is_one_line(eq: Command, arguments: list[str], words: str) -> None:
    done = eq("status", *arguments, plugin=podgroup)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


# What a watch prints


def event(kind: Any, resource: Resource, name: str, obj: Any = None) -> FeedEvent:
    return FeedEvent(resource.plural, Event(kind, resource, f"team-a/{name}", "", obj))


def added(pod: dict[str, Any]) -> FeedEvent:
    return event("ADDED", PODS, pod["metadata"]["name"], parse_pod(pod))


def phases(watched: WatchedGroups, *batch: FeedEvent) -> list[tuple[str, str, int]]:
    return [(item.gang.ref.name, item.phase, item.census.members) for item in watched.apply(batch)]


def test_a_watch_prints_a_group_again_when_its_figures_change() -> None:
    watched = WatchedGroups(GroupView(ClusterState(), {}))
    train = event("ADDED", POD_GROUPS, "train", parse_gang(group(cpu="8")))
    assert phases(watched, train, added(member("train-0", "n1"))) == [("train", "Unschedulable", 1)]
    assert phases(watched, added(member("other", "n1", "nobody"))) == [], "a pod of somebody else"
    book = event("ADDED", RESERVATION_LEDGERS, "reservations", parse_reservation_ledger(ledger(cpu="8")))
    assert phases(watched, book) == [("train", "Unschedulable", 1)], "now it is reserved"
    assert phases(watched, event("DELETED", RESERVATION_LEDGERS, "reservations")) != []
    again = member("train-0", "n1")
    again["metadata"]["uid"] = "made anew"
    assert phases(watched, added(again)) == [], "one of that name, as before"
    assert phases(watched, event("DELETED", PODS, "train-0")) == [("train", "Pending", 0)]
    assert phases(watched, event("SYNCED", PODS, "")) == []
    assert phases(watched, event("DELETED", POD_GROUPS, "train")) == []
    assert phases(watched, train) == [("train", "Pending", 0)], "made again"


def test_a_watch_of_one_group_leaves_out_the_others() -> None:
    watched = WatchedGroups(GroupView(ClusterState(), {}), "small")
    both = [event("ADDED", POD_GROUPS, name, parse_gang(group(name, 1))) for name in ("small", "train")]
    assert phases(watched, *both) == [("small", "Pending", 0)]


def test_a_watch_follows_group_config_maps() -> None:
    watched = WatchedGroups(GroupView(ClusterState(), {}))
    meta = {"namespace": "team-a", "name": "ring", "labels": {"sakkara.group": ""}, "uid": "m"}
    ring = parse_config_map({"metadata": meta, "data": {"name": "ring", "size": "2"}})
    assert phases(watched, event("ADDED", CONFIG_MAPS, "ring", ring)) == [("ring", "Pending", 0)]
    assert phases(watched, event("DELETED", CONFIG_MAPS, "ring")) == []
