"""What one tenant writes into pods: nobody else waits longer for it, and nothing of it ends the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.errors import TooLarge
from scheduler_core.model.names import CHARGED_ANNOTATION, CPU, MEMORY, PROTECTED_GROUP_LABEL
from scheduler_core.model.pods.affinity import PodNodeAffinity
from scheduler_core.model.pods.limits import (
    MOST_CONSTRAINTS,
    MOST_GATES,
    MOST_HOST_PORTS,
    MOST_LABEL_REQUIREMENTS,
    MOST_LABEL_VALUES,
    MOST_LABELS,
    MOST_NODE_REQUIREMENTS,
    MOST_NODE_VALUES,
    MOST_TERMS,
    MOST_TOLERATIONS,
    MOST_VOLUMES,
    READ_ANNOTATIONS,
)
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.resources import MOST_READ
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.cost import measured
from tests.support.gang_scheduler import GangScheduler, placed, rejected
from tests.support.kept import entries

_MOST_SECONDS = 0.25


def hostile(name: str) -> PodBuilder:
    return make_pod(f"evil/{name}").uid(name)


def normal(name: str = "p", **requests: Any) -> PodBuilder:
    return make_pod(f"good/{name}").uid(name).requests(**(requests or {"cpu": 1}))


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral_storage", "gpu"])
def test_pods_that_name_a_node_may_request_more_than_a_number_holds(resource: str) -> None:
    """Nobody asks whether they fit there; the kubelet refuses them later."""
    world = GangScheduler([4, 4])
    for number in range(5):
        world.put(hostile(f"h{number}").requests(**{resource: "9E"}).on("n0", "Pending"))
    world.put(hostile("small").requests(cpu=1).on("n0", "Running"))
    world.put(normal())
    assert placed(world.step()) == {"p": "n1"}
    for number in range(5):
        world.scheduler.remove(hostile(f"h{number}").obj(), world.now)
    world.put(*(normal(f"q{number}") for number in range(6)))
    assert sorted(placed(world.step(later=20)).values()) == ["n0"] * 3 + ["n1"] * 3


def test_the_use_of_a_quota_may_exceed_64_bits() -> None:
    """Others reclaim all the same."""
    world = GangScheduler([4])
    for name, minimum in (("evil", 1), ("good", 3)):
        quota = make_quota(f"{name}/q").min(cpu=minimum, memory="1Gi").max(cpu=8)
        world.scheduler.put(quota.obj(), world.now)
    for number in range(4):
        world.put(hostile(f"b{number}").requests(cpu=1).on("n0", "Running"))
        world.put(hostile(f"h{number}").requests(memory="9E").on("nowhere", "Pending"))
    world.put(normal(cpu=1, memory="1Mi"))
    decisions = world.step()
    assert [item.reason for item in rejected(decisions).values()] == ["Unschedulable"], decisions


def test_resources_that_pods_invent_leave_room_for_those_of_nodes() -> None:
    world = GangScheduler([4])
    for number in range(40):
        world.put(hostile(f"h{number}").requests(**{f"evil.io/r{number}": 1}))
    assert len(rejected(world.step())) == 40
    world.put(normal(gpu=1))
    assert not placed(world.step())
    world.scheduler.put(make_node("n1").allocatable(cpu=4, gpu=2).obj(), world.now)
    assert placed(world.step(later=20)) == {"p": "n1"}


def test_a_resource_requested_before_any_node_had_it_counts_once_one_does() -> None:
    world = GangScheduler([4])
    for number in range(40):
        world.put(hostile(f"h{number}").requests(**{f"evil.io/r{number}": 1}))
    world.put(normal("early", gpu=2).on("n0", "Running"), normal(gpu=1))
    world.step()
    world.scheduler.put(make_node("n0").allocatable(cpu=4, gpu=2).obj(), world.now)
    assert not placed(world.step(later=20))
    world.scheduler.remove(normal("early", gpu=2).on("n0", "Running").obj(), world.now)
    assert placed(world.step(later=20)) == {"p": "n0"}


def test_label_keys_that_no_node_has_are_not_kept() -> None:
    world = GangScheduler([4])
    keys = {f"k{number}": "v" for number in range(MOST_NODE_REQUIREMENTS)}
    before = entries(world.state.nodes)
    world.put(hostile("h").spec(nodeSelector=keys))
    world.step()
    assert entries(world.state.nodes) - before < 10 < len(keys)
    world.scheduler.put(make_node("n1").allocatable(cpu=4, pods=9).labels(**keys).obj(), world.now)
    assert placed(world.step(later=20)) == {"h": "n1"}


def test_a_resize_while_the_binding_is_under_way_counts() -> None:
    world = GangScheduler([4])
    world.put(normal("grows", cpu=1))
    assert placed(world.step()) == {"grows": "n0"}
    world.put(normal("grows", cpu=3))
    world.put(normal("grows", cpu=3).on("n0", "Running"), normal("other", cpu=2))
    assert not placed(world.step())
    assert world.state.ledger.used("good")[CPU] == 3000
    world.put(normal("grows", cpu=1).on("n0", "Running"))
    assert placed(world.step(later=20)) == {"other": "n0"}


def _term(number: int) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": f"l{number}", "operator": "DoesNotExist"}]}
    return {"topologyKey": f"t{number}", "labelSelector": selector, "namespaceSelector": {}}


def _affinity(kind: str, count: int) -> dict[str, Any]:
    preferred = [{"weight": 1, "podAffinityTerm": _term(number)} for number in range(count)]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def _spread(count: int) -> dict[str, Any]:
    constraints = [
        {"maxSkew": 1, "topologyKey": f"t{number}", "whenUnsatisfiable": "DoNotSchedule"}
        for number in range(count)
    ]
    return {"topologySpreadConstraints": constraints}


def _node_terms(count: int, operator: str = "DoesNotExist") -> dict[str, Any]:
    value = {"values": ["1"]} if operator == "Gt" else {}
    term = {"matchExpressions": [{"key": "zone", "operator": operator} | value for _ in range(count)]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _wide_selector(count: int) -> dict[str, Any]:
    labels = {f"l{number}": "v" for number in range(count)}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _values(count: int, operator: str = "In") -> dict[str, Any]:
    return {"key": "app", "operator": operator, "values": [f"v{number}" for number in range(count)]}


def _neighbour(**more: Any) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, **more}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _label_values(count: int, operator: str = "In") -> dict[str, Any]:
    return _neighbour(labelSelector={"matchExpressions": [_values(count, operator)]})


def _lists(field: str, count: int) -> dict[str, Any]:
    """One value is that of the selector."""
    return _neighbour(**{field: [f"v{number}" for number in range(count - 1)]})


def _spread_keys(count: int) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "matchLabelKeys": [f"k{i}" for i in range(count)]}
    return {"topologySpreadConstraints": [constraint]}


def _node_values(count: int, operator: str) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": [_values(count, operator)]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _ports(count: int) -> dict[str, Any]:
    ports = [{"hostPort": port, "protocol": "UDP"} for port in range(1, count + 1)]
    asked = {"requests": {"cpu": "1", "memory": "1Gi"}}
    return {"containers": [{"name": "c", "ports": ports, "resources": asked}]}


def _monitors(count: int) -> dict[str, Any]:
    rbd = {"monitors": [f"m{number}" for number in range(count)], "image": "i"}
    return {"volumes": [{"name": "v", "rbd": rbd}]}


def _claims(count: int) -> dict[str, Any]:
    return {
        "volumes": [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}}
            for number in range(count)
        ]
    }


LIMITS = [
    ("affinity", lambda n: _affinity("podAffinity", n), MOST_TERMS),
    ("anti-affinity", lambda n: _affinity("podAntiAffinity", n), MOST_TERMS),
    ("spread", _spread, MOST_CONSTRAINTS),
    ("node affinity", _node_terms, MOST_NODE_REQUIREMENTS),
    ("node affinity, compared", lambda n: _node_terms(n, "Gt"), MOST_NODE_REQUIREMENTS),
    ("node selector", lambda n: {"nodeSelector": {f"k{i}": "v" for i in range(n)}}, MOST_NODE_REQUIREMENTS),
    ("one selector", _wide_selector, MOST_LABEL_REQUIREMENTS),
    ("values of a term", _label_values, MOST_LABEL_VALUES),
    ("values that others have", lambda n: _label_values(n, "NotIn"), MOST_LABEL_VALUES),
    ("namespaces of a term", lambda n: _lists("namespaces", n), MOST_LABEL_VALUES),
    ("keys of a term", lambda n: _lists("mismatchLabelKeys", n), MOST_LABEL_VALUES),
    ("keys of a spread constraint", _spread_keys, MOST_LABEL_VALUES),
    ("nodes by name", lambda n: _node_values(n, "In"), MOST_NODE_VALUES),
    ("all nodes but some", lambda n: _node_values(n, "NotIn"), MOST_NODE_VALUES),
    ("tolerations", lambda n: {"tolerations": [{"key": f"t{i}"} for i in range(n)]}, MOST_TOLERATIONS),
    ("gates", lambda n: {"schedulingGates": [{"name": f"g{i}"} for i in range(n)]}, MOST_GATES),
    ("host ports", _ports, MOST_HOST_PORTS),
    ("monitors of an image", _monitors, MOST_VOLUMES),
    ("claims", _claims, MOST_VOLUMES),
]


@pytest.mark.parametrize(("spec", "most"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_terms_beyond_the_limit_are_refused_while_a_pod_waits(spec: Any, most: int) -> None:
    with pytest.raises(TooLarge, match=rf"has {most + 1} .*, at most {most} are read"):
        hostile("h").spec(**spec(most + 1)).obj()
    bound = hostile("h").requests(cpu=1, memory="1Gi").spec(**spec(most + 1)).on("n0", "Running").obj()
    assert (bound.requests[CPU], bound.requests[MEMORY]) == (1000, 1 << 30)
    assert (bound.spread, bound.node_selector) == ((), ())
    assert not bound.pod_affinity.preferred
    assert not bound.pod_anti_affinity.preferred
    assert not bound.pod_anti_affinity.required
    assert bound.node_affinity == PodNodeAffinity()
    lists = bound.tolerations, bound.gates, bound.host_ports, bound.volumes
    assert max(map(len, lists)) in (0, most), "of a list, the first ones count"
    assert f"has {most + 1} " in bound.left_out


@pytest.mark.parametrize(("spec", "most"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_a_pod_at_the_limit_costs_little_and_others_nothing(spec: Any, most: int) -> None:
    """Seconds of processor time at 1,000 nodes, with a wide margin for a busy machine."""
    world = GangScheduler()
    for number in range(1000):
        node = make_node(f"n{number}").allocatable(cpu=8, pods=9).labels(zone=f"z{number}")
        world.scheduler.put(node.obj(), world.now)
    world.put(normal("first"))
    world.scheduler.step(world.now)
    world.put(hostile("h").spec(**spec(most)))
    _, seconds = measured(lambda: world.scheduler.step(world.now))
    assert seconds < _MOST_SECONDS
    world.put(normal("second"))
    decisions, seconds = measured(lambda: world.scheduler.step(world.now))
    assert placed(decisions)
    assert seconds < _MOST_SECONDS / 5


def test_terms_of_placed_pods_about_everybody_cost_others_little() -> None:
    """Preferences by topology keys that no node has say nothing, whoever they speak of."""
    world = GangScheduler()
    for number in range(1000):
        world.scheduler.put(make_node(f"n{number}").allocatable(cpu=8, pods=9).obj(), world.now)
    for number in range(30):
        preferred = [
            {"weight": 1, "podAffinityTerm": _term(number * MOST_TERMS + term)} for term in range(MOST_TERMS)
        ]
        affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        world.put(hostile(f"h{number}").spec(affinity=affinity).on(f"n{number}", "Running"))
    world.put(normal("first"))
    world.scheduler.step(world.now)
    world.put(normal("second"))
    decisions, seconds = measured(lambda: world.scheduler.step(world.now))
    assert placed(decisions)
    # 25 ms alone, and 270 where each key had domains of its own.
    assert seconds < 0.2


def test_labels_beyond_the_limit() -> None:
    labels = {f"k{number:04}": "v" for number in range(MOST_LABELS + 1)} | {PROTECTED_GROUP_LABEL: "u"}
    with pytest.raises(
        TooLarge, match=rf"metadata.labels: has {MOST_LABELS + 2} labels, at most {MOST_LABELS}"
    ):
        hostile("h").labels(**labels).obj()
    found = hostile("h").labels(**labels).on("n0", "Running").obj().labels
    assert len(found) == MOST_LABELS
    assert PROTECTED_GROUP_LABEL in found
    assert "k0000" in found


def test_resources_beyond_the_limit_leave_those_of_kubernetes() -> None:
    amounts = {f"a.io/r{number}": 1 for number in range(MOST_READ)}
    with pytest.raises(TooLarge, match=rf"has {MOST_READ + 2} resources, at most {MOST_READ} are read"):
        hostile("h").requests(cpu=1, memory="1Gi", **amounts).obj()
    found = hostile("h").requests(cpu=1, memory="1Gi", **amounts).on("n0", "Running").obj()
    assert len(found.requests) == MOST_READ
    assert (found.requests[CPU], found.requests[MEMORY]) == (1000, 1 << 30)
    assert f"has {MOST_READ + 2} resources" in found.left_out


def annotated(annotations: dict[str, str]) -> Pod:
    return parse_pod({"metadata": {"name": "h", "namespace": "evil", "annotations": annotations}, "spec": {}})


def test_annotations_that_nobody_reads_are_not_kept_beyond_the_limit() -> None:
    few = {"note": "x" * 1000, CHARGED_ANNOTATION: "yes"}
    assert annotated(few).annotations == few
    for many in ({"note": "x" * 100_000}, {f"k{number}": "" for number in range(2000)}):
        found = annotated(many | {CHARGED_ANNOTATION: "yes" * 9999}).annotations
        assert found.keys() == {CHARGED_ANNOTATION} & READ_ANNOTATIONS
        assert len(found[CHARGED_ANNOTATION]) <= 4096


def test_texts_that_no_server_bounds_are_not_kept() -> None:
    """A server takes any text as the name of an image, a disk or an owner."""
    long = "x" * 100_000
    owner = {"apiVersion": "v1", "kind": "A", "name": long, "uid": "u", "controller": True}
    rbd = {"monitors": ["m", long], "pool": "p", "image": long}
    disks = [{"name": "a", "rbd": rbd}, {"name": "b", "gcePersistentDisk": {"pdName": long}}]
    spec = {"containers": [{"name": "c", "image": long}], "volumes": disks, "schedulerName": long}
    one, other = (
        parse_pod({"metadata": {"name": name, "namespace": "evil", "ownerReferences": [owner]}, "spec": spec})
        for name in "ab"
    )
    assert one.images == ()
    assert one.controller is None
    assert len(one.scheduler_name) < 300
    assert max(len(volume.disk) for volume in one.volumes) < 1000
    assert one.volumes == other.volumes, "the same disk is still the same"


def test_resources_of_many_containers_have_the_same_limit() -> None:
    containers = [
        {"name": f"c{number}", "resources": {"requests": {f"a.io/r{number}-{i}": "1" for i in range(100)}}}
        for number in range(3)
    ]
    with pytest.raises(TooLarge, match=rf"has 300 resources, at most {MOST_READ} are read"):
        hostile("h").spec(containers=containers).obj()
    assert len(hostile("h").spec(containers=containers).on("n0").obj().requests) == MOST_READ
