"""Topologies, groups and constraints at admission: what cannot be read or can never hold is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.kinds import NODES
from tests.unit.webhook.http.reviews import ask, denial, synced
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.view.cache import Cache

Obj = dict[str, Any]

RACKS = {"rack-0": {"node-0": {}, "node-1": {}}, "rack-1": {"node-2": {}}}


def config_map(named: str, label: str, namespace: str = "a", **data: str) -> Obj:
    meta = {"name": named, "namespace": namespace, "labels": {label: ""}}
    fields = {key.replace("_", "-"): value for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": fields}


def topology(tree: Any = RACKS, name: str = "tree") -> Obj:
    levels = '["rack", "node"]'
    return config_map(
        name, "sakkara.topology", "sakkara", name="t", level_names=levels, tree=json.dumps(tree)
    )


def group(constraints: Any = None, size: str = "8", **more: str) -> Obj:
    return config_map(
        "g", "sakkara.group", name="g", size=size, constraints=json.dumps(constraints or {}), **more
    )


class Server:
    """Knows topologies and nothing else."""

    def __init__(self, *topologies: Obj) -> None:
        self.found = [parse_config_map(obj) for obj in topologies]
        self.asked = 0

    def topologies(self) -> list[ConfigMap]:
        self.asked += 1
        return self.found


class DeadServer(Server):
    """Answers nothing."""

    def topologies(self) -> list[ConfigMap]:
        raise ServiceUnavailable(503, "ServiceUnavailable", "no")


def service(*topologies: Obj) -> ReviewDispatcher:
    server: Any = Server(*topologies)
    return ReviewDispatcher(synced(), live=server)


def pod_group(
    constraints: str, members: int = 4, version: str = "incubator.scheduling.k8s.io/v1alpha1"
) -> Obj:
    notes = {"muster.dev/topology-constraints": constraints}
    spec: Obj = {"minMembers": members, "minMember": members}
    if version == "scheduling.k8s.io/v1beta1":
        spec = {"schedulingPolicy": {"gang": {"minCount": members}}}
    meta = {"name": "pg", "namespace": "a", "annotations": notes}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        pytest.param(
            {"rack": {"type": "spread", "partitions": 3}},
            "rack.partitions=3 exceeds the 2 units that a parent has at most",
            id="more parts than racks",
        ),
        pytest.param({"node": {"min": 5, "max": 4}}, "node.min=5 exceeds node.max=4", id="min above max"),
        pytest.param(
            {"node": {"factor": 3}}, "the size 8 is not a multiple of node.factor=3", id="a remainder"
        ),
        pytest.param(
            {"row": {}}, "row is not a level of the topology; its levels are rack, node", id="no such level"
        ),
        pytest.param(
            {"rack": {"type": "pack", "factor": 2}, "node": {"hard": True, "type": "spread"}},
            "node.hard=spread cannot hold for a group of 8 on 3 units of level node",
            id="the smallest conflict is named, not all that is asked",
        ),
    ],
)
def test_constraints_that_can_never_be_met_are_refused(constraints: Any, said: str) -> None:
    text = denial(service(topology()), group(constraints))
    assert text == f"ConfigMap a/g: data.constraints: {said}, on the topology of ConfigMap sakkara/tree"


def test_constraints_that_can_be_met_pass() -> None:
    fine = {"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}
    assert denial(service(topology()), group(fine)) == ""


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        pytest.param(
            group(size="0"), "ConfigMap a/g: data.size: is 0, must be between", id="a group of none"
        ),
        pytest.param(group({"rack": {"factor": 0}}), "data.constraints.rack.factor: is 0", id="factor 0"),
        pytest.param(group({"rack": {"kind": "pack"}}), "is not a known field", id="an unknown field"),
        pytest.param(
            topology({"r": {"n": {}}, "s": {"n": {}}}),
            "ConfigMap sakkara/tree: data.tree.s.n: node n is already at r.n",
            id="a node in two places",
        ),
        pytest.param(
            topology({"r": {}}), "every branch must reach level node", id="a branch that ends early"
        ),
    ],
)
def test_a_malformed_object_is_refused(obj: Obj, said: str) -> None:
    response = ask(service(topology()).validate, obj)
    assert not response["allowed"]
    assert said in response["status"]["message"]
    assert response["status"]["code"] == 422


def test_one_topology_that_fits_is_enough() -> None:
    wish = group({"rack": {"type": "spread", "partitions": 3}})
    wide = topology({f"rack-{index}": {f"node-{index}": {}} for index in range(4)}, "wide")
    assert denial(service(topology(), wide), wish) == ""
    assert denial(service(topology()), wish) != ""


def test_without_an_answer_only_the_text_is_judged() -> None:
    wish = group({"rack": {"type": "spread", "partitions": 3}})
    dead: Any = DeadServer()
    assert denial(ReviewDispatcher(synced(), live=dead), wish) == ""
    server: Any = Server()
    assert denial(ReviewDispatcher(Cache(), live=server), wish) == "", "nodes are not listed yet"
    assert denial(service(), group({})) == ""
    assert denial(service(), group({"node": {"min": 2, "max": 4}})) == ""


@pytest.mark.parametrize(
    ("constraints", "size", "said"),
    [
        pytest.param(
            {"node": {"min": 5, "max": 3}}, "8", "node.min=5 exceeds node.max=3", id="min above max"
        ),
        pytest.param(
            {"node": {"factor": 4}}, "10", "the size 10 is not a multiple of node.factor=4", id="a remainder"
        ),
        pytest.param(
            {"rak": {"type": "pack"}, "node": {}},
            "8",
            "rak is not a level of the topology; its levels are node",
            id="no such level",
        ),
    ],
)
def test_without_a_topology_what_can_never_hold_is_refused(constraints: Any, size: str, said: str) -> None:
    flat = "on the flat topology of a cluster without a topology ConfigMap"
    text = denial(service(), group(constraints, size))
    assert text == f"ConfigMap a/g: data.constraints: {said}, {flat}"
    annotated = denial(service(), pod_group(json.dumps(constraints), int(size)))
    assert annotated.endswith(f": {said}, {flat}")


def test_a_label_of_the_nodes_may_be_a_level() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"zone": "a"}}}
    server: Any = Server()
    cache = synced(node)
    made = ReviewDispatcher(cache, live=server)
    assert denial(made, group({"zone": {"partitions": 2}, "node": {"type": "spread"}})) == ""
    assert "zone.min=5 exceeds zone.max=3" in denial(made, group({"zone": {"min": 5, "max": 3}}))
    assert "rak is not a level" in denial(made, group({"rak": {}, "zone": {}}))
    cache.sink(Event("DELETED", NODES, "n"))
    assert "zone is not a level" in denial(made, group({"zone": {}}))


def test_results_that_are_written_back_make_no_request() -> None:
    server: Any = Server(topology())
    wish = {"rack": {"type": "spread", "partitions": 3}}
    old, new = group(wish), group(wish, status="Bound")
    assert denial(ReviewDispatcher(synced(), live=server), new, old) == ""
    assert server.asked == 0


def test_other_config_maps_are_not_judged() -> None:
    other = config_map("settings", "app", tree="{")
    assert denial(service(topology()), other) == ""


VERSIONS = (
    "incubator.scheduling.k8s.io/v1alpha1",
    "scheduling.x-k8s.io/v1alpha1",
    "scheduling.k8s.io/v1beta1",
)


@pytest.mark.parametrize("version", VERSIONS)
def test_constraints_of_pod_groups_are_judged_alike(version: str) -> None:
    field = "metadata.annotations[muster.dev/topology-constraints]"
    bad = pod_group('{"rack": {"partitions": 3}}', version=version)
    assert denial(service(topology()), bad).startswith(f"PodGroup a/pg: {field}: rack.partitions=3 exceeds")
    assert field in denial(service(topology()), pod_group("{", version=version))
    assert denial(service(topology()), pod_group('{"rack": {"partitions": 2}}', version=version)) == ""


@pytest.mark.parametrize("version", VERSIONS)
def test_results_are_written_whatever_became_of_the_constraints(version: str) -> None:
    old = pod_group('{"rack": {"partitions": 3}}', version=version)
    new = pod_group('{"rack": {"partitions": 3}}', version=version)
    new["metadata"]["annotations"]["muster.dev/topology-results"] = '{"status":"Bound"}'
    assert denial(service(topology()), new, old=old) == ""
    shrunk = pod_group('{"rack": {"partitions": 3}}', members=5, version=version)
    assert "rack.partitions=3" in denial(service(topology()), shrunk, old=old)


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        pytest.param({"zone": "a"}, True, id="no node has it"),
        pytest.param({"rack": "a"}, False, id="a node has it"),
        pytest.param(None, False, id="no node is known"),
    ],
)
def test_a_topology_key_that_no_node_has_is_warned_of(labels: Obj | None, warned: bool) -> None:
    nodes = [] if labels is None else [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]
    for node in nodes:
        node["metadata"] = {"name": "n", "labels": labels}
    server: Any = Server()
    native = pod_group("", version="scheduling.k8s.io/v1beta1")
    native["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    answer = ask(ReviewDispatcher(synced(*nodes), live=server).validate, native)
    assert answer["allowed"]
    assert answer.get("warnings", []) == (
        [
            "spec.schedulingConstraints.topology[0].key=rack: no node has this label, and a domain is one "
            "value of it, so the group waits until a node has it"
        ]
        if warned
        else []
    )
