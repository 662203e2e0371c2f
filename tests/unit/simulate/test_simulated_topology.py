"""Groups on the topology from end to end in a simulation: what is placed, who waits and why, who must go."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import load_scenarios

Obj = dict[str, Any]

PLUGIN = "ClusterTopologyPlacementGroup"
RACKS = {"rack-0": ["node-0", "node-1"], "rack-1": ["node-2", "node-3"]}


def profile(**args: Any) -> Obj:
    entry: Obj = {"schedulerName": "batch", "plugins": {"multiPoint": {"enabled": [{"name": PLUGIN}]}}}
    if args:
        entry["pluginConfig"] = [{"name": PLUGIN, "args": args}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [entry],
    }


def node(name: str, cpu: int = 4, labels: Mapping[str, str] | None = None) -> Obj:
    room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    marks = {"kubernetes.io/hostname": name, **(labels or {})}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": marks}, "status": status}


def nodes(number: int = 4, cpu: int = 4) -> list[Obj]:
    return [node(f"node-{index}", cpu) for index in range(number)]


def config_map(name: str, label: str, data: Mapping[str, str], namespace: str = "default") -> Obj:
    meta = {"name": name, "namespace": namespace, "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def topology(
    racks: Mapping[str, Iterable[str]] = RACKS, name: str = "topology", namespace: str = "default"
) -> Obj:
    tree: Obj = {rack: {leaf: {} for leaf in leaves} for rack, leaves in racks.items()}
    data = {"name": "tree", "level-names": '["rack", "node"]', "tree": json.dumps(tree)}
    return config_map(name, "sakkara.topology", data, namespace)


def group(name: str, size: int, constraints: Any = None, priority: int = 0) -> Obj:
    text = json.dumps(constraints or {})
    data = {"name": name, "size": str(size), "priority": str(priority), "constraints": text}
    return config_map(name, "sakkara.group", data)


def pod(name: str, group_name: str = "", cpu: int = 1, priority: int = 0, **meta: Any) -> Obj:
    labels = {"sakkara.group.name": group_name} if group_name else {}
    requests = {"resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, **meta},
        "spec": {
            "schedulerName": "batch",
            "priority": priority,
            "containers": [{"name": "c", "image": "pause", **requests}],
        },
    }


def members(name: str, number: int, cpu: int = 1, priority: int = 0, start: int = 0) -> list[Obj]:
    return [pod(f"{name}-{index}", name, cpu, priority) for index in range(start, start + number)]


def play(objects: list[Obj], *steps: Obj, config: Obj | None = None) -> list[Obj]:
    text = json.dumps({"name": "s", "config": config or profile(), "objects": objects, "steps": list(steps)})
    (scenario,) = load_scenarios(text)
    report: list[Obj] = run_scenario(scenario)["steps"]
    return report


def per_node(step: Obj, prefix: str = "") -> dict[str, int]:
    return dict(Counter(node for name, node in step["bound"].items() if prefix in name))


def why(step: Obj) -> set[str]:
    return {item["message"] for item in step["pending"].values()}


def result(step: Obj, name: str = "g") -> Obj:
    found: Obj = step["status"][f"ConfigMap default/{name}"]
    return found


def test_the_group_config_map_tells_the_result() -> None:
    (step,) = play([*nodes(), topology()], {"create": [group("g", 3), *members("g", 3)]})
    found = result(step)
    assert found["status"] == "Bound"
    assert found["rank"] == "[(g-0,0) (g-1,1) (g-2,2)]"
    assert json.loads(found["placement"]) == {
        "root": {"rack-0": {"node-0": {"g-0": {}, "g-1": {}, "g-2": {}}}}
    }
    assert (found["hopCost"], found["bestHopCost"], found["optimal"]) == ("6", "6", "true")


def test_pods_wait_for_their_group_config_map() -> None:
    first, second = play([*nodes(), topology()], {"create": members("g", 2)}, {"create": [group("g", 2)]})
    assert why(first) == {"group ConfigMap default/g does not exist; its pods wait until it is created"}
    assert per_node(second) == {"node-0": 2}


def test_too_few_pods_wait_and_extra_pods_are_refused() -> None:
    start = [*nodes(), topology(), group("g", 3)]
    first, second = play(start, {"create": members("g", 2)}, {"create": members("g", 2, start=2)})
    assert why(first) == {"group ConfigMap default/g has size 3: 2 pods wait, 0 have a node, 0 succeeded"}
    assert len(second["bound"]) == 3
    assert list(second["pending"]) == ["default/g-3"]
    assert why(second) == {"group ConfigMap default/g has size 3, and so many members are placed or done"}


def test_a_replacement_goes_where_the_placement_stays_valid_and_takes_the_free_rank() -> None:
    start = [*nodes(), topology(), group("g", 4, {"node": {"type": "spread", "factor": 2}}), *members("g", 4)]
    gone = {"kind": "Pod", "metadata": {"namespace": "default", "name": "g-1"}}
    before, after = play(start, {}, {"delete": [gone], "create": [pod("again", "g")]})
    assert after["bound"]["default/again"] == before["bound"]["default/g-1"]
    kept = {name: where for name, where in before["bound"].items() if name != "default/g-1"}
    assert kept.items() <= after["bound"].items()
    assert ["again", 1] in after["groups"]["default/g"]["ranks"]


def on_node(obj: Obj, name: str, rank: int) -> Obj:
    obj["metadata"]["labels"]["sakkara.member.rank"] = str(rank)
    obj["spec"]["nodeName"] = name
    return obj


def test_members_placed_before_the_scheduler_started_keep_nodes_and_ranks() -> None:
    old = [on_node(pod(f"g-{n}", "g"), "node-2", rank) for n, rank in ((0, 2), (1, 0))]
    start = [*nodes(), topology(), group("g", 3, {"rack": {"hard": True}}), *old]
    before, after = play(start, {}, {"create": [pod("g-2", "g")]})
    assert before["groups"]["default/g"]["ranks"] == [["g-1", 0], ["g-0", 2]]
    assert after["groups"]["default/g"]["ranks"] == [["g-1", 0], ["g-2", 1], ["g-0", 2]]
    assert after["bound"]["default/g-2"] in ("node-2", "node-3")
    assert result(after)["status"] == "Bound"


def test_a_group_waits_where_there_are_no_nodes() -> None:
    first, second = play([], {"create": [group("g", 2), *members("g", 2)]}, {"create": [node("node-0")]})
    assert "0 free" in "".join(why(first))
    assert per_node(second) == {"node-0": 2}


def test_pods_of_a_faulty_config_map_are_placed_once_it_is_right() -> None:
    bad = group("g", 2)
    bad["data"]["size"] = "none"
    start = [*nodes(), topology()]
    first, second = play(start, {"create": [bad, *members("g", 2)]}, {"update": [group("g", 2)]})
    assert not first["bound"]
    assert per_node(second) == {"node-0": 2}
    assert "reason" not in result(second)


def test_master_is_rank_0_wherever_it_stands() -> None:
    pods = [*members("g", 2), pod("z-master", "g")]
    (step,) = play([*nodes(), topology()], {"create": [group("g", 3), *pods]})
    assert step["groups"]["default/g"]["ranks"][0] == ["z-master", 0]


def test_a_faulty_topology_keeps_the_old_tree_and_is_told() -> None:
    bad = topology()
    bad["data"]["tree"] = '{"rack-0": {"node-0": {}}, "rack-1": {"node-0": {}}}'
    ask = {"create": [group("g", 2, {"rack": {"type": "spread"}}), *members("g", 2)]}
    told, placed = play([*nodes(), topology()], {"update": [bad]}, ask)
    (event,) = told["events"]
    assert (event["object"], event["reason"]) == ("ConfigMap default/topology", "InvalidTopology")
    assert "node node-0 is already at rack-0.node-0" in event["message"]
    assert per_node(placed) == {"node-0": 1, "node-2": 1}


def test_a_changed_topology_is_used_in_the_next_cycle() -> None:
    whole = {"rack-0": ["node-0", "node-1", "node-2", "node-3"]}
    start = [
        *nodes(cpu=2),
        topology(),
        group("g", 6, {"rack": {"type": "pack", "hard": True}}),
        *members("g", 6),
    ]
    first, second = play(start, {}, {"update": [topology(whole)]})
    assert "rack.hard=pack" in "".join(why(first))
    assert len(second["bound"]) == 6


def test_of_several_topologies_the_oldest_counts() -> None:
    other = topology({"rack-9": ["node-3"]}, name="a-later-one")
    (step,) = play([*nodes(), topology(), other], {"create": [group("g", 2), *members("g", 2)]})
    assert per_node(step) == {"node-0": 2}


def test_the_topology_is_read_in_the_namespace_of_the_argument() -> None:
    maps = [topology({"rack-0": ["node-0"]}), topology({"rack-1": ["node-3"]}, namespace="sakkara")]
    config = profile(topologyConfigMapNameSpace="sakkara")
    (step,) = play([*nodes(), *maps], {"create": [group("g", 2), *members("g", 2)]}, config=config)
    assert per_node(step) == {"node-3": 2}


def test_the_seeds_own_configuration_works() -> None:
    named = {"enabled": [{"name": PLUGIN}]}
    points = ("preEnqueue", "postFilter", "preScore", "reserve", "permit", "postBind")
    config = profile(topologyConfigMapNameSpace="sakkara")
    config["leaderElection"] = {"leaderElect": False}
    config["profiles"][0]["plugins"] = {
        **dict.fromkeys(points, named),
        "queueSort": {**named, "disabled": [{"name": "*"}]},
        "score": {"enabled": [{"name": PLUGIN, "weight": 10}]},
    }
    urgent = [group("late", 4, priority=9), *members("late", 4)]
    create = {"create": [group("g", 4), *members("g", 4), *urgent]}
    (step,) = play([*nodes(1), topology(namespace="sakkara")], create, config=config)
    assert len(step["bound"]) == 4
    assert all(name.startswith("default/late") for name in step["bound"])


def test_without_a_topology_the_tree_is_flat() -> None:
    spread = {"node": {"type": "spread"}}
    (step,) = play(nodes(), {"create": [group("g", 4, spread), *members("g", 4)]})
    assert per_node(step) == {f"node-{index}": 1 for index in range(4)}


def test_a_topology_is_read_from_node_labels() -> None:
    labelled = [node(f"node-{index}", 2, {"zone": f"zone-{index % 2}"}) for index in range(4)]
    config = profile(topologyLabels=["zone", "kubernetes.io/hostname"])
    (step,) = play(
        labelled, {"create": [group("g", 4, {"zone": {"hard": True}}), *members("g", 4)]}, config=config
    )
    assert per_node(step) in ({"node-0": 2, "node-2": 2}, {"node-1": 2, "node-3": 2})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        pytest.param("constraints", "{", "is not JSON", id="constraints that are no JSON"),
        pytest.param(
            "constraints", '{"row": {}}', "is not a level of the topology", id="a level that is not"
        ),
        pytest.param("constraints", '{"rack": {"type": "stack"}}', "must be", id="a type that is not"),
        pytest.param("constraints", '{"rack": {"factor": 0}}', "must be between 1", id="factor 0"),
        pytest.param(
            "constraints", '{"rack": {"min": 3, "max": 2}}', "rack.min=3 with rack.max=2", id="min > max"
        ),
        pytest.param("size", "eight", "must be a whole number", id="a size that is no number"),
    ],
)
def test_a_faulty_group_waits_with_what_is_wrong(field: str, value: str, said: str) -> None:
    bad = group("g", 3)
    bad["data"][field] = value
    (step,) = play([*nodes(), topology()], {"create": [bad, *members("g", 3)]})
    assert not step["bound"]
    assert all(said in message for message in why(step))
    assert result(step)["status"] == "Pending"
    assert said in result(step)["reason"]


def test_members_that_differ_are_placed_with_the_largest_request_and_that_is_told() -> None:
    pods = [pod("g-0", "g", 1), pod("g-1", "g", 3), pod("g-2", "g", 1)]
    (step,) = play([*nodes(), topology()], {"create": [group("g", 3), *pods]})
    assert max(per_node(step).values()) == 1
    assert "largest request" in result(step)["reason"]


def test_nodes_beyond_the_tree_are_not_used_and_leaves_beyond_the_cluster_have_no_room() -> None:
    racks = {"rack-0": ["node-0", "node-8"], "rack-1": ["node-9"]}
    first, second = play(
        [*nodes(), topology(racks)],
        {"create": [group("g", 4), *members("g", 4)]},
        {"create": [group("h", 1), *members("h", 1)]},
    )
    assert per_node(first) == {"node-0": 4}
    assert "3 nodes of the cluster are not in the topology" in "".join(why(second))


def test_every_requested_resource_counts() -> None:
    small = node("node-0")
    small["status"]["allocatable"]["memory"] = "1Gi"
    pods = members("g", 2)
    for item in pods:
        item["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    (step,) = play([small, *nodes()[1:], topology()], {"create": [group("g", 2), *pods]})
    assert per_node(step) == {"node-1": 2}


def test_nodes_that_other_filters_refuse_are_left_out() -> None:
    tainted = node("node-0")
    tainted["spec"] = {"taints": [{"key": "reserved", "effect": "NoSchedule"}]}
    (step,) = play([tainted, *nodes()[1:], topology()], {"create": [group("g", 4), *members("g", 4)]})
    assert per_node(step) == {"node-1": 4}


def test_affinity_between_members_is_respected() -> None:
    apart = {
        "labelSelector": {"matchLabels": {"sakkara.group.name": "g"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    pods = members("g", 3)
    for item in pods:
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        item["spec"]["affinity"] = {"podAntiAffinity": rule}
    (step,) = play([*nodes(), topology()], {"create": [group("g", 3), *pods]})
    assert sorted(per_node(step).values()) == [1, 1, 1]


def test_an_even_placement_passes_a_limit_on_unevenness_on_its_way() -> None:
    pods = members("g", 8)
    skew = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    for item in pods:
        selector = {"labelSelector": {"matchLabels": {"sakkara.group.name": "g"}}}
        item["spec"]["topologySpreadConstraints"] = [skew | selector]
    wish = {"rack": {"type": "spread"}, "node": {"type": "spread"}}
    (step,) = play([*nodes(), topology()], {"create": [group("g", 8, wish), *pods]})
    assert per_node(step) == dict.fromkeys(("node-0", "node-1", "node-2", "node-3"), 2)
    assert result(step)["optimal"] == "true"


def test_a_wish_gives_way_to_filters_between_pods_and_a_strict_rule_does_not() -> None:
    def skewed(wish: Any) -> Obj:
        pods = members("g", 8)
        skew = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
        for item in pods:
            selector = {"labelSelector": {"matchLabels": {"sakkara.group.name": "g"}}}
            item["spec"]["topologySpreadConstraints"] = [skew | selector]
        (step,) = play([*nodes(), topology()], {"create": [group("g", 8, wish), *pods]})
        return step

    step = skewed({"node": {"type": "pack"}})
    assert per_node(step) == dict.fromkeys(("node-0", "node-1", "node-2", "node-3"), 2)
    assert result(step)["optimal"] == "false"
    assert skewed({"rack": {"hard": True}})["bound"] == {}


def test_a_group_preempts_only_whole_groups_of_lower_priority() -> None:
    start = [
        *nodes(),
        topology(),
        group("low", 8, {"rack": {"hard": True}}),
        *members("low", 8),
        {**pod("alone", cpu=4), "spec": {**pod("alone", cpu=4)["spec"], "nodeName": "node-2"}},
    ]
    high = [group("high", 8, {"rack": {"hard": True}}, 5), *members("high", 8, priority=5)]
    (step,) = play(start, {"create": high})
    assert {item["pod"] for item in step["evicted"]} == {f"default/low-{index}" for index in range(8)}
    assert per_node(step, "/high-") == {"node-0": 4, "node-1": 4}
    assert step["bound"]["default/alone"] == "node-2"


def test_a_soft_constraint_evicts_no_pod() -> None:
    start = [*nodes(), topology(), group("low", 4), *members("low", 4)]
    high = [group("high", 12, {"rack": {"type": "pack"}}, 5), *members("high", 12, priority=5)]
    (step,) = play(start, {"create": high})
    assert step["evicted"] == []
    assert len(per_node(step, "/high-")) == 3


def test_no_group_is_evicted_if_that_would_not_help() -> None:
    start = [*nodes(), topology(), group("low", 4), *members("low", 4)]
    high = [group("high", 20, priority=5), *members("high", 20, priority=5)]
    (step,) = play(start, {"create": high})
    assert step["evicted"] == []
    assert len(step["pending"]) == 20


def quota(namespace: str, low: int, high: int) -> Obj:
    spec = {"min": {"cpu": str(low)}, "max": {"cpu": str(high)}}
    meta = {"name": "quota", "namespace": namespace}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": meta,
        "spec": spec,
    }


def with_quotas() -> Obj:
    config = profile()
    config["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": "CapacityScheduling"})
    return config


def test_a_quota_holds_for_the_group_as_a_whole() -> None:
    create = {"create": [group("g", 4), *members("g", 4)]}
    (step,) = play([*nodes(), topology(), quota("default", 3, 3)], create, config=with_quotas())
    assert step["bound"] == {}
    assert all("ElasticQuota default/quota" in message for message in why(step))


def test_priority_takes_nothing_from_groups_of_another_quota() -> None:
    low = [group("low", 16), *members("low", 16)]
    for item in low:
        item["metadata"]["namespace"] = "other"
    start = [*nodes(), topology(), quota("default", 0, 16), quota("other", 16, 16), *low]
    high = [group("high", 4, priority=5), *members("high", 4, priority=5)]
    (step,) = play(start, {"create": high}, config=with_quotas())
    assert step["evicted"] == []
    (without,) = play(start, {"create": high})
    assert len(without["evicted"]) == 16


def test_the_fewest_groups_go_then_the_cheapest() -> None:
    small = [[group(f"low-{n}", 4, priority=n), *members(f"low-{n}", 4)] for n in range(4)]
    start = [*nodes(), topology(), *(obj for objs in small for obj in objs)]
    high = [group("high", 4, {"node": {"hard": True}}, 9), *members("high", 4, priority=9)]
    (step,) = play(start, {"create": high})
    assert {item["pod"].rpartition("-")[0] for item in step["evicted"]} == {"default/low-0"}


def pod_group(name: str, number: int, constraints: Any) -> Obj:
    notes = {"muster.dev/topology-constraints": json.dumps(constraints)}
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {"minMembers": number},
    }


def grouped(number: int, name: str) -> list[Obj]:
    notes = {"scheduling.k8s.io/group-name": name}
    return [pod(f"{name}-{index}", annotations=notes) for index in range(number)]


def test_a_pod_group_with_the_annotation_is_placed_under_its_constraints() -> None:
    wish = {"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}
    (step,) = play([*nodes(), topology()], {"create": [pod_group("pg", 4, wish), *grouped(4, "pg")]})
    assert per_node(step) == {"node-0": 2, "node-2": 2}


def test_members_beyond_min_members_join_if_the_constraints_let_them() -> None:
    wish = {"rack": {"hard": True}}
    (step,) = play([*nodes(cpu=2), topology()], {"create": [pod_group("pg", 3, wish), *grouped(5, "pg")]})
    assert len(step["bound"]) == 4
    racks = {rack for rack, leaves in RACKS.items() for leaf in leaves if leaf in step["bound"].values()}
    assert len(racks) == 1
    assert any("cannot be placed under rack.hard=pack" in message for message in why(step))


def test_as_many_members_start_as_the_constraints_allow() -> None:
    wish = {"node": {"factor": 2}}
    first, second = play(
        [*nodes(), topology()],
        {"create": [pod_group("pg", 2, wish), *grouped(7, "pg")]},
        {"create": [pod("pg-7", annotations={"scheduling.k8s.io/group-name": "pg"})]},
    )
    assert sorted(per_node(first).values()) == [2, 4]
    assert len(second["bound"]) == 8
    assert sorted(per_node(second).values()) == [4, 4]


def test_a_label_without_a_value_marks_a_group_as_on_an_api_server() -> None:
    marked = [topology(), group("g", 2)]
    for obj in marked:
        obj["metadata"]["labels"] = dict.fromkeys(obj["metadata"]["labels"])
    (step,) = play([*nodes(), *marked], {"create": members("g", 2)})
    assert per_node(step) == {"node-0": 2}


def test_a_native_pod_group_stays_in_one_domain_of_its_topology_key() -> None:
    labelled = [node(f"node-{index}", 2, {"zone": f"zone-{index % 2}"}) for index in range(4)]
    native = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "n", "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
        },
    }
    pods = members("n", 4)
    for item in pods:
        item["metadata"]["labels"] = {}
        item["spec"]["schedulingGroup"] = {"podGroupName": "n"}
    (step,) = play(labelled, {"create": [native, *pods]})
    assert per_node(step) in ({"node-0": 2, "node-2": 2}, {"node-1": 2, "node-3": 2})
