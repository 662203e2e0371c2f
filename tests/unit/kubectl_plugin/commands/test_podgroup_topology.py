"""`kubectl podgroup rank`, `status` and `topology`, whole, against a small server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from kubectl_plugin.cluster.group_status import constraints_text
from kubectl_plugin.podgroup import podgroup
from scheduler_core.model.groups.gang import Gang, GroupRef
from scheduler_core.model.groups.topology import GroupSpec, parse_constraints
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object

TREE: dict[str, Any] = {"rack-0": {"node-0": {}, "node-1": {}}, "rack-1": {"node-2": {}}}


def config_map(namespace: str, name: str, label: str, data: dict[str, str]) -> dict[str, Any]:
    meta = {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}", "resourceVersion": "1"}
    return {
        "metadata": meta | {"labels": {label: ""}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": data,
    }


def member(name: str, node: str, rank: str = "", **status: Any) -> dict[str, Any]:
    pod = pod_object("team-a", name, node, "Running" if node else "Pending", cpu="1")
    pod["metadata"]["labels"] = {"sakkara.group.name": "g", **({"sakkara.member.rank": rank} if rank else {})}
    pod["status"] |= status
    return pod


@pytest.fixture(autouse=True)
def cluster(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_plugin.commands.podgroup_status.time.time", lambda: 1767225900.0)
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    api.objects["nodes"] = [
        {"metadata": {"name": f"node-{index}"}, "status": {"allocatable": room, "capacity": room}}
        for index in range(4)
    ]
    topology = {"name": "t", "level-names": '["rack", "node"]', "resource-names": '["cpu"]'}
    constraints = json.dumps({"rack": {"type": "spread", "partitions": 2}})
    group = {"name": "g", "size": "4", "constraints": constraints, "reason": "no room"}
    api.objects["configmaps"] = [
        config_map("sakkara", "tree", "sakkara.topology", topology | {"tree": json.dumps(TREE)}),
        config_map("team-a", "g", "sakkara.group", group),
    ]
    api.objects["pods"] = [
        member("g-0", "node-0", "0", podIP="10.0.0.7"),
        member("g-1", "node-2", "2"),
        member("g-2", "node-1", "1"),
        member("g-3", ""),
    ]


def test_ranks_come_with_units_and_hops(eq: Command) -> None:
    done = eq("rank", "g", plugin=podgroup)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "RANK   POD   NODE     RACK     HOPS",
        "0      g-0   node-0   rack-0   0",
        "1      g-2   node-1   rack-0   4",
        "2      g-1   node-2   rack-1   6",
    ]


def by_labels(api: Api) -> None:
    """No topology ConfigMap: the tree comes from the labels in the scheduler's configuration."""
    profile = {
        "schedulerName": "muster-scheduler",
        "pluginConfig": [
            {"name": "ClusterTopologyPlacementGroup", "args": {"topologyLabels": ["example.com/block"]}}
        ],
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    data = {"config.yaml": yaml.safe_dump(config)}
    installed = config_map("muster-system", "muster-scheduler", "app.kubernetes.io/name", data)
    installed["metadata"]["labels"] = {"app.kubernetes.io/name": "muster"}
    api.objects["configmaps"] = [installed, api.objects["configmaps"][1]]
    for index, node in enumerate(api.objects["nodes"]):
        node["metadata"]["labels"] = {
            "kubernetes.io/hostname": node["metadata"]["name"],
            "example.com/block": f"block-{index // 2}",
        }


def test_without_a_config_map_the_tree_comes_from_the_labels_in_the_configuration(
    api: Api, eq: Command
) -> None:
    by_labels(api)
    done = eq("rank", "g", plugin=podgroup)
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["RANK", "POD", "NODE", "EXAMPLE.COM/BLOCK", "HOPS"],
        ["0", "g-0", "node-0", "block-0", "0"],
        ["1", "g-2", "node-1", "block-0", "4"],
        ["2", "g-1", "node-2", "block-1", "6"],
    ]
    shown = eq("topology", "g", "-o", "json", plugin=podgroup)
    assert (shown.code, shown.err) == (0, "")
    units = json.loads(shown.out)["units"]
    assert [(unit["name"], unit["members"]) for unit in units if unit["depth"] == 1] == [
        ("block-0", ["g-0(0)", "g-2(1)"]),
        ("block-1", ["g-1(2)"]),
    ]


def test_who_may_not_list_config_maps_is_shown_no_tree_of_labels(api: Api, eq: Command) -> None:
    by_labels(api)
    api.forbidden.add(("configmaps", ""))
    done = eq("rank", "g", plugin=podgroup)
    assert "you may not list configmaps" in done.err
    assert "block-" not in done.out


def test_ranks_as_data(eq: Command) -> None:
    found = json.loads(eq("rank", "g", "-o", "json", plugin=podgroup).out)
    assert found == yaml.safe_load(eq("rank", "g", "-o", "yaml", plugin=podgroup).out)
    assert found["group"] == {"namespace": "team-a", "name": "g", "size": 4}
    assert [item["pod"] for item in found["members"]] == ["g-0", "g-2", "g-1"]


def test_a_hostfile_has_a_slot_for_each_member(api: Api, eq: Command) -> None:
    api.objects["pods"].append(member("g-4", "node-0", "3"))
    out = eq("rank", "g", "-o", "hostfile", plugin=podgroup).out
    assert out == "node-0 slots=2\nnode-1 slots=1\nnode-2 slots=1\n"


def test_torchrun_has_the_address_of_rank_0(eq: Command) -> None:
    first = eq("rank", "g", "-o", "torchrun", plugin=podgroup).out.splitlines()[1]
    assert first == "RANK=1 WORLD_SIZE=3 MASTER_ADDR=10.0.0.7 MASTER_PORT=29500 POD=g-2"


def test_a_group_that_is_not_there_is_an_error(eq: Command) -> None:
    done = eq("rank", "other", plugin=podgroup)
    assert done.code == 1
    assert done.err == 'error: no PodGroup and no group ConfigMap "other" in team-a namespace\n'


def test_a_group_that_is_not_placed_says_so(api: Api, eq: Command) -> None:
    api.objects["pods"] = [member("g-0", "")]
    done = eq("rank", "g", plugin=podgroup)
    assert (done.out, done.err) == ("", "No member of group ConfigMap team-a/g is placed.\n")


def test_status_counts_the_pods(eq: Command) -> None:
    header, row = eq("status", "-A", plugin=podgroup).out.splitlines()
    assert header.split() == [
        *("NAMESPACE", "NAME", "DIALECT", "PHASE", "MIN", "BOUND", "RUNNING", "PENDING", "SUCCEEDED"),
        *("FAILED", "TOPOLOGY", "REASON", "AGE"),
    ]
    why = ["3", "of", "the", "4", "members", "that", "start", "together", "are", "bound"]
    assert row.split() == ["team-a", "g", "configmap", "Scheduling", *"433100", "rack:spread/2", *why, "5m"]


def test_constraints_that_no_scheduler_enforces_are_pointed_out(api: Api, eq: Command) -> None:
    assert "not enforced" not in eq("topology", "g", plugin=podgroup).err
    for config_map in api.objects["configmaps"]:
        if "size" in config_map["data"]:
            config_map["data"]["reason"] = "not enforced: 3 of 3 members are with other"
    assert eq("topology", "g", plugin=podgroup).err.splitlines()[-1] == (
        "note: the topology constraints of group ConfigMap team-a/g are not enforced: "
        "3 of 3 members are with other"
    )


def test_a_group_in_detail_says_where_it_is(eq: Command) -> None:
    lines = eq("status", "g", plugin=podgroup).out.splitlines()
    (placed,) = [line for line in lines if line.startswith("Placed on:")]
    assert placed.split() == ["Placed", "on:", "rack", "rack-0:", "2,", "rack-1:", "1"]


def test_the_tree_shows_use_and_where_the_group_sits(eq: Command) -> None:
    done = eq("topology", "g", plugin=podgroup)
    assert done.out.splitlines() == [
        "UNIT         CPU USED   CPU FREE   PODS",
        "root         3          9          3",
        "  rack-0     2          6          2",
        "    node-0   1          3          g-0(0)",
        "    node-1   1          3          g-2(1)",
        "  rack-1     1          3          1",
        "    node-2   1          3          g-1(2)",
    ]
    assert done.err == "note: nodes that are not in the topology: node-3\n"


def test_without_named_resources_the_extended_ones_of_nodes_are_shown(api: Api, eq: Command) -> None:
    """Also beside a ConfigMap that names none; what takes part in no placement by amount is left out."""
    del api.objects["configmaps"][0]["data"]["resource-names"]
    more = {
        "nvidia.com/gpu": "4",
        "example.com/none": "0",
        "hugepages-2Mi": "1Gi",
        "ephemeral-storage": "9Gi",
    }
    more |= {"attachable-volumes-csi": "8", "flavor.muster.dev/h100": "4"}
    room = api.objects["nodes"][0]["status"]["allocatable"] | more
    api.objects["nodes"][0]["status"] = {"allocatable": room, "capacity": room}
    busy = pod_object("team-b", "busy", "node-0", cpu="1", **{"nvidia.com/gpu": "3"})
    api.objects["pods"].append(busy)
    found = {
        unit["name"]: unit for unit in json.loads(eq("topology", "-o", "json", plugin=podgroup).out)["units"]
    }
    assert list(found["root"]["total"]) == ["cpu", "memory", "nvidia.com/gpu"]
    assert found["root"]["used"]["nvidia.com/gpu"] == found["rack-0"]["used"]["nvidia.com/gpu"] == "3"
    assert found["node-0"]["total"]["nvidia.com/gpu"] == "4"
    assert found["node-1"]["total"]["nvidia.com/gpu"] == "0"
    assert "node-0: 75% used" in eq("topology", "-o", "svg", plugin=podgroup).out
    header = eq("topology", plugin=podgroup).out.splitlines()[0]
    assert header.split("   ")[-3:] == ["NVIDIA.COM/GPU USED", "NVIDIA.COM/GPU FREE", "PODS"]


def test_the_drawing_has_a_box_for_every_unit(eq: Command) -> None:
    root = ElementTree.fromstring(eq("topology", "g", "-o", "svg", plugin=podgroup).out)
    boxes = [element.get("data-unit") for element in root.iter() if element.get("data-unit")]
    assert boxes == ["root", "rack-0", "node-0", "node-1", "rack-1", "node-2"]


def test_a_user_who_may_not_list_nodes_still_sees_ranks(api: Api, eq: Command) -> None:
    api.forbidden.add(("nodes", ""))
    done = eq("rank", "g", plugin=podgroup)
    assert len(done.out.splitlines()) == 4
    assert done.err.startswith("note: you may not list nodes")


@pytest.mark.parametrize(("kind", "namespace"), [("nodes", ""), ("configmaps", "")])
def test_without_the_topology_the_labels_of_the_members_give_the_ranks(
    api: Api, eq: Command, kind: str, namespace: str
) -> None:
    if kind == "nodes":
        del api.objects["configmaps"][0]
    api.forbidden.add((kind, namespace))
    done = eq("rank", "g", "--topology-namespace", "", plugin=podgroup)
    assert [line.split() for line in done.out.splitlines()] == [
        ["RANK", "POD", "NODE", "HOPS"],
        ["0", "g-0", "node-0", "?"],
        ["1", "g-2", "node-1", "?"],
        ["2", "g-1", "node-2", "?"],
    ]
    assert done.err.startswith(f"note: you may not list {kind}")


def test_without_topology_and_labels_it_says_why_no_rank_is_known(api: Api, eq: Command) -> None:
    del api.objects["configmaps"][0]
    api.forbidden.add(("nodes", ""))
    for pod in api.objects["pods"]:
        pod["metadata"]["labels"].pop("sakkara.member.rank", None)
    done = eq("rank", "g", plugin=podgroup)
    assert (done.code, done.out) == (1, "")
    assert "3 members of group ConfigMap team-a/g have a node, but their ranks are not known" in done.err
    assert "you may not list nodes" in done.err


def test_a_group_that_may_not_be_seen_is_not_called_missing(api: Api, eq: Command) -> None:
    api.forbidden |= {("configmaps", "team-a"), ("configmaps", "")}
    done = eq("rank", "g", plugin=podgroup)
    assert done.code == 1
    assert "you may not list configmaps" in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param("", "pack", id="nothing is pack everywhere"),
        pytest.param('{"rack": {"hard": true}}', "rack:hard-pack", id="a hard rule says so"),
        pytest.param('{"node": {"type": "spread", "min": 2, "max": 4}}', "node:spread[2..4]", id="a range"),
        pytest.param('{"node": {"factor": 4}}', "node:packx4", id="a factor"),
    ],
)
def test_constraints_are_told_in_short(given: str, text: str) -> None:
    spec = GroupSpec("g", 4, 0, parse_constraints(given))
    gang = Gang(GroupRef("ConfigMap", "team-a", "g"), "u", "1", 0.0, 4, group=spec)
    assert constraints_text(gang) == text


def test_solvers_are_compared_on_the_cluster_without_the_members(eq: Command) -> None:
    done = eq("topology", "g", "--solver", "greedy", plugin=podgroup)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "SOLVER   RACK SQUARES   NODE UNITS   HOPS   PLACEMENT",
        "greedy   8              2            28     node-0=2 node-2=2",
        "exact    8              2            28     node-0=2 node-2=2",
    ]
    alone = eq("topology", "g", "--solver", "exact", "--no-headers", plugin=podgroup).out
    assert len(alone.splitlines()) == 1


def test_a_placement_that_is_worse_is_seen_to_be(api: Api, eq: Command) -> None:
    """The example of docs/cli.md: the rack with the most room is not the one with room on one node."""
    for node, cpus in zip(api.objects["nodes"], "4461", strict=True):
        node["status"]["allocatable"] = node["status"]["allocatable"] | {"cpu": cpus}
    tree = '{"rack-0": {"node-0": {}, "node-1": {}}, "rack-1": {"node-2": {}, "node-3": {}}}'
    api.objects["configmaps"][0]["data"]["tree"] = tree
    data = {"name": "g", "size": "6", "constraints": '{"rack": {}, "node": {}}'}
    api.objects["configmaps"][1] = config_map("team-a", "g", "sakkara.group", data)
    found = eq("topology", "g", "--solver", "greedy", plugin=podgroup).out
    text = (Path(__file__).parents[4] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert found in text
    assert [line.split()[:4] for line in found.splitlines()[1:]] == [
        ["greedy", "1", "2", "46"],
        ["exact", "1", "1", "30"],
    ]


def test_a_solver_that_finds_nothing_says_so_beside_the_one_that_does(api: Api, eq: Command) -> None:
    constraints = json.dumps({"node": {"min": 3, "max": 4}})
    data = {"name": "g", "size": "9", "constraints": constraints}
    api.objects["configmaps"][1] = config_map("team-a", "g", "sakkara.group", data)
    rows = eq("topology", "g", "--solver", "greedy", "--no-headers", plugin=podgroup).out.splitlines()
    assert rows[0].split(maxsplit=4)[4] == "solver greedy found no place for 9 members; there is one"
    assert rows[1].split()[-3:] == ["node-0=3", "node-1=3", "node-2=3"]


def test_what_keeps_members_from_a_node_counts(api: Api, eq: Command) -> None:
    api.objects["nodes"][0]["spec"] = {"unschedulable": True}
    found = eq("topology", "g", "--solver", "exact", "--no-headers", plugin=podgroup).out
    assert "node-0" not in found


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("g", "--solver", "chic"), 1, 'error: no solver "chic"; known are exact, greedy'),
        (("--solver", "greedy"), 2, "needs the NAME of a group"),
        (("g", "--solver", "greedy", "-o", "svg"), 2, "needs the NAME of a group"),
        (("other", "--solver", "greedy"), 1, 'no group ConfigMap "other"'),
    ],
)
def test_what_cannot_be_compared(eq: Command, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = eq("topology", *arguments, plugin=podgroup)
    assert done.code == code
    assert said in done.err


def test_a_group_without_pods_cannot_be_placed(api: Api, eq: Command) -> None:
    api.objects["pods"] = []
    assert "has no pods" in eq("topology", "g", "--solver", "greedy", plugin=podgroup).err
