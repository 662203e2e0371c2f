"""NodeName, NodeUnschedulable, TaintToleration and NodeAffinity: what they say, in which words, and hints."""

from __future__ import annotations

import pytest

from scheduler_core.framework.status import Code
from scheduler_core.model.pods.affinity import read_node_affinity
from scheduler_core.plugins.node_affinity import NodeAffinity
from scheduler_core.plugins.node_name import NodeName
from scheduler_core.plugins.node_unschedulable import NodeUnschedulable
from scheduler_core.plugins.taint_toleration import TaintToleration
from scheduler_core.state.cluster import ClusterState
from tests.support.asking import ask, cluster, cycle_for, fitting, put, score, wakes
from tests.support.builders import Raw, make_node, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def required(*expressions: Raw, fields: list[Raw] | None = None) -> Raw:
    term: Raw = {"matchExpressions": list(expressions)} | ({"matchFields": fields} if fields else {})
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def three() -> ClusterState:
    return cluster(
        make_node("a").label("disk", "ssd").label("cores", "8").allocatable(cpu="4").obj(),
        make_node("b").label("disk", "hdd").label("cores", "64").allocatable(cpu="4").obj(),
        make_node("c").label("cores", "many").allocatable(cpu="4").obj(),
    )


def test_a_pod_with_a_node_name_fits_there_only() -> None:
    found = ask(NodeName(), three(), make_pod("x/p").on("b").obj())
    elsewhere = {"node(s) didn't match the requested node name"}
    assert found == {"a": elsewhere, "b": set(), "c": elsewhere}


def test_a_pod_that_names_a_node_that_is_not_there_fits_nowhere_until_it_comes() -> None:
    state, pod = three(), make_pod("x/p").on("z").obj()
    assert fitting(NodeName(), state, pod) == []
    assert not wakes(NodeName(), state, pod, put(state, make_node("y").allocatable(cpu="1").obj()))
    assert wakes(NodeName(), state, pod, put(state, make_node("z").allocatable(cpu="1").obj()))


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    state = cluster(make_node("a").allocatable(cpu="1").unschedulable().obj())
    assert ask(NodeUnschedulable(), state, make_pod("x/p").obj()) == {"a": {"node(s) were unschedulable"}}
    tolerant = make_pod("x/p").tolerates("node.kubernetes.io/unschedulable", "NoSchedule").obj()
    assert fitting(NodeUnschedulable(), state, tolerant) == ["a"]


def test_uncordoning_wakes_and_cordoning_does_not() -> None:
    state, pod = cluster(make_node("a").allocatable(cpu="1").obj()), make_pod("x/p").obj()
    assert not wakes(NodeUnschedulable(), state, pod, put(state, make_node("a").unschedulable().obj()))
    assert wakes(NodeUnschedulable(), state, pod, put(state, make_node("a").obj()))


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        pytest.param({}, False, id="a toleration of nothing"),
        pytest.param({"operator": "Exists"}, True, id="everything is tolerated"),
        pytest.param({"key": "team", "operator": "Exists"}, True, id="any value of the key"),
        pytest.param({"key": "team", "value": "red"}, True, id="the value"),
        pytest.param({"key": "team", "value": "blue"}, False, id="another value"),
        pytest.param({"key": "team", "value": "red", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"key": "team", "value": "red", "effect": "NoSchedule"}, True, id="the effect"),
        pytest.param({"value": "red"}, False, id="Equal needs a key"),
    ],
)
def test_tolerations(toleration: Raw, fits: bool) -> None:
    state = cluster(make_node("a").taint("team", "red").allocatable(cpu="1").obj())
    pod = make_pod("x/p").spec(tolerations=[toleration]).obj()
    reason = set() if fits else {"node(s) had untolerated taint {team: red}"}
    assert ask(TaintToleration(), state, pod) == {"a": reason}


def test_only_the_first_untolerated_taint_is_named_and_soft_taints_never() -> None:
    node = make_node("a").taint("soft", effect="PreferNoSchedule").taint("b", "1").taint("c", "2")
    state = cluster(node.allocatable(cpu="1").obj())
    found = ask(TaintToleration(), state, make_pod("x/p").obj())
    assert found == {"a": {"node(s) had untolerated taint {b: 1}"}}


def test_fewer_untolerated_soft_taints_score_higher() -> None:
    soft = "PreferNoSchedule"
    state = cluster(
        make_node("a").taint("k", "1", soft).taint("l", "1", soft).allocatable(cpu="1").obj(),
        make_node("b").taint("k", "1", soft).allocatable(cpu="1").obj(),
        make_node("c").allocatable(cpu="1").obj(),
    )
    assert score(TaintToleration(), state, make_pod("x/p").obj()) == {"a": 0, "b": 50, "c": 100}
    tolerant = make_pod("x/p").tolerates("k", soft).obj()
    assert score(TaintToleration(), state, tolerant) == {"a": 0, "b": 100, "c": 100}
    hard = make_pod("x/p").tolerates("k", "NoSchedule").obj()
    assert score(TaintToleration(), state, hard)["b"] == 50


def test_a_node_that_loses_its_taint_wakes() -> None:
    state, pod = cluster(make_node("a").taint("k").obj()), make_pod("x/p").obj()
    assert not wakes(TaintToleration(), state, pod, put(state, make_node("a").taint("l").obj()))
    assert wakes(TaintToleration(), state, pod, put(state, make_node("a").obj()))


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [
        pytest.param({"key": "disk", "operator": "In", "values": ["ssd"]}, ["a"], id="in"),
        pytest.param(
            {"key": "disk", "operator": "NotIn", "values": ["ssd"]}, ["b", "c"], id="not in, or absent"
        ),
        pytest.param({"key": "disk", "operator": "Exists"}, ["a", "b"], id="exists"),
        pytest.param({"key": "disk", "operator": "DoesNotExist"}, ["c"], id="does not exist"),
        pytest.param({"key": "cores", "operator": "Gt", "values": ["8"]}, ["b"], id="greater, numbers only"),
        pytest.param({"key": "cores", "operator": "Lt", "values": ["9"]}, ["a"], id="less, numbers only"),
    ],
)
def test_required_affinity(expression: Raw, nodes: list[str]) -> None:
    pod = make_pod("x/p").spec(affinity=required(expression)).obj()
    assert fitting(NodeAffinity(), three(), pod) == nodes


@pytest.mark.parametrize(
    ("bounds", "nodes"),
    [
        ([("Gt", "1"), ("Gt", "3")], ["n4", "n5"]),
        ([("Lt", "5"), ("Lt", "3")], ["n1", "n2"]),
        ([("Gt", "1"), ("Lt", "5"), ("Gt", "2")], ["n3", "n4"]),
        ([("Gt", "3"), ("Lt", "4")], []),
        ([("Gt", "1"), ("Gt", "many")], []),
    ],
)
def test_all_comparisons_of_one_label_must_hold(bounds: list[tuple[str, str]], nodes: list[str]) -> None:
    state = cluster(*(make_node(f"n{number}").labels(cores=str(number)).obj() for number in range(1, 6)))
    terms = [{"key": "cores", "operator": operator, "values": [value]} for operator, value in bounds]
    pod = make_pod("x/p").spec(affinity=required(*terms)).obj()
    assert fitting(NodeAffinity(), state, pod) == nodes


def test_fields_select_by_name_and_an_empty_term_selects_nothing() -> None:
    by_name = required(fields=[{"key": "metadata.name", "operator": "In", "values": ["b"]}])
    assert fitting(NodeAffinity(), three(), make_pod("x/p").spec(affinity=by_name).obj()) == ["b"]
    found = ask(NodeAffinity(), three(), make_pod("x/p").spec(affinity=required()).obj())
    assert found == {name: {"node(s) didn't match Pod's node affinity/selector"} for name in "abc"}


def test_the_selector_and_the_affinity_must_both_hold() -> None:
    pod = make_pod("x/p").selector(disk="ssd").spec(affinity=required({"key": "cores", "operator": "Exists"}))
    assert fitting(NodeAffinity(), three(), pod.obj()) == ["a"]


def test_preferences_add_up_and_the_best_node_gets_100() -> None:
    preferred = [
        {"weight": 30, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}},
        {
            "weight": 10,
            "preference": {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["9"]}]},
        },
        {"weight": 50, "preference": {}},
    ]
    pod = make_pod("x/p").spec(affinity={"nodeAffinity": {PREFERRED: preferred}}).obj()
    assert score(NodeAffinity(), three(), pod) == {"a": 75, "b": 100, "c": 0}


def test_added_affinity_applies_to_every_pod_with_a_reason_of_its_own() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    added = {REQUIRED: {"nodeSelectorTerms": [term]}, PREFERRED: [{"weight": 5, "preference": term}]}
    plugin = NodeAffinity(read_node_affinity(added))
    pod = make_pod("x/p").selector(disk="hdd").obj()
    enforced = "node(s) didn't match scheduler-enforced node affinity"
    own = "node(s) didn't match Pod's node affinity/selector"
    assert ask(plugin, three(), pod) == {"a": {own}, "b": set(), "c": {own, enforced}}
    assert score(plugin, three(), make_pod("x/p").obj()) == {"a": 100, "b": 100, "c": 0}


def test_without_any_rule_the_plugin_steps_aside() -> None:
    cycle = cycle_for(three(), make_pod("x/p").obj())
    assert NodeAffinity().pre_filter(cycle).code is Code.SKIP


def test_no_eviction_helps_against_labels_and_taints() -> None:
    state = cluster(make_node("a").taint("k").allocatable(cpu="1").obj())
    pod = make_pod("x/p").selector(disk="ssd").obj()
    for plugin in (NodeName(), NodeUnschedulable(), TaintToleration(), NodeAffinity()):
        cycle = cycle_for(state, pod)
        ask(plugin, state, pod)
        assert not any(reason.resolvable for reason in plugin.reasons(cycle)), plugin.name
