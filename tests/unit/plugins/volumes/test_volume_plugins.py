"""VolumeRestrictions, VolumeZone and NodeVolumeLimits."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.events import remove_object
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.volumes.node_volume_limits import NodeVolumeLimits
from scheduler_core.plugins.volumes.volume_binding import VolumeBinding
from scheduler_core.plugins.volumes.volume_restrictions import VolumeRestrictions
from scheduler_core.plugins.volumes.volume_zone import VolumeZone
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from tests.support.asking import ask, cluster, cycle_for, fitting, put, wakes
from tests.support.builders import PodBuilder, Raw, make_node, make_pod
from tests.support.storage_builders import (
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_volume,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
LEGACY_ZONE = "failure-domain.beta.kubernetes.io/zone"
NO_DISK = {"node(s) had no available disk"}
ONE_POD = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


def claims(key: str, *names: str) -> PodBuilder:
    volumes = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)
    ]
    return make_pod(key).spec(volumes=volumes)


def disk(key: str, **source: Raw) -> PodBuilder:
    return make_pod(key).spec(volumes=[{"name": "v", **source}])


def node(name: str, **labels: str) -> Any:
    made = make_node(name).allocatable(cpu="4")
    for key, value in labels.items():
        made.label({"zone": ZONE, "region": REGION, "legacy": LEGACY_ZONE}[key], value)
    return made.obj()


# VolumeRestrictions


@pytest.mark.parametrize(
    ("used", "asked", "free"),
    [
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {"gcePersistentDisk": {"pdName": "d"}},
            False,
            id="a GCE disk",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            True,
            id="a GCE disk that both only read",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
            False,
            id="an EBS volume even for reading",
        ),
        pytest.param(
            {"iscsi": {"iqn": "q", "targetPortal": "t", "lun": 0}},
            {"iscsi": {"iqn": "q", "targetPortal": "t", "lun": 1, "readOnly": True}},
            False,
            id="one iSCSI target where one writes",
        ),
        pytest.param(
            {"rbd": {"monitors": ["m1", "m2"], "image": "i"}},
            {"rbd": {"monitors": ["m2", "m3"], "image": "i"}},
            False,
            id="an RBD image by a common monitor",
        ),
        pytest.param(
            {"rbd": {"monitors": ["m1"], "image": "i"}},
            {"rbd": {"monitors": ["m1"], "image": "i", "pool": "other"}},
            True,
            id="an RBD image of another pool",
        ),
    ],
)
def test_inline_disks(used: Raw, asked: Raw, free: bool) -> None:
    state = cluster(node("n"), disk("x/a", **used).on("n").obj())
    found = ask(VolumeRestrictions(), state, disk("x/p", **asked).obj())
    assert found == {"n": set() if free else NO_DISK}


def test_a_claim_for_one_pod_is_refused_everywhere_while_in_use() -> None:
    claim = make_claim("x/c").modes("ReadWriteOncePod").obj()
    state = cluster(node("n"), node("m"), claim, claims("x/a", "c").on("n").obj())
    pod = claims("x/p", "c").obj()
    assert ask(VolumeRestrictions(), state, pod) == {"n": {ONE_POD}, "m": {ONE_POD}}
    assert fitting(VolumeRestrictions(), state, claims("y/p").obj()) == ["n", "m"]
    events = state.remove_pod("x/a")
    assert wakes(VolumeRestrictions(), state, pod, events)
    assert fitting(VolumeRestrictions(), state, pod) == ["n", "m"]


def test_the_same_claim_name_in_another_namespace_is_another_claim() -> None:
    both = [make_claim(f"{namespace}/c").modes("ReadWriteOncePod").obj() for namespace in "xy"]
    state = cluster(node("n"), *both, claims("x/a", "c").on("n").obj())
    assert fitting(VolumeRestrictions(), state, claims("y/p", "c").obj()) == ["n"]


@pytest.mark.parametrize("plugin", [VolumeRestrictions(), VolumeZone()])
def test_a_claim_that_is_not_there(plugin: Any) -> None:
    state, pod = cluster(node("n")), claims("x/p", "c").obj()
    assert ask(plugin, state, pod) == 'persistentvolumeclaim "c" not found'
    other = put(state, make_claim("x/d").obj())
    assert not wakes(plugin, state, pod, other)
    assert wakes(plugin, state, pod, put(state, make_claim("x/c").obj()))


def test_conflicts_of_disks_and_claims_can_be_resolved_by_evictions() -> None:
    cycle = cycle_for(ClusterState(), make_pod("x/p").obj())
    assert all(reason.resolvable for reason in VolumeRestrictions().reasons(cycle))
    assert all(reason.resolvable for reason in NodeVolumeLimits().reasons(cycle))
    assert not any(reason.resolvable for reason in VolumeZone().reasons(cycle))


# VolumeZone


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [
        pytest.param(
            {ZONE: "a"}, ["a", "legacy", "bare"], id="one zone; nodes without zones take everything"
        ),
        pytest.param({ZONE: "a__b"}, ["a", "b", "legacy", "bare"], id="several zones"),
        pytest.param({LEGACY_ZONE: "b"}, ["b", "bare"], id="the old label, matched by the new one on nodes"),
        pytest.param({REGION: "r"}, ["a", "bare"], id="a region that only one node names"),
        pytest.param({ZONE: "a", REGION: "r"}, ["a", "bare"], id="both must hold"),
        pytest.param({"media": "ssd"}, ["a", "b", "legacy", "bare"], id="other labels say nothing"),
        pytest.param(
            {ZONE: "a____b"}, ["a", "b", "legacy", "bare"], id="a list with a nameless zone is ignored"
        ),
    ],
)
def test_zones(labels: dict[str, str], nodes: list[str]) -> None:
    volume = make_volume("v")
    for key, value in labels.items():
        volume.label(key, value)
    state = cluster(
        node("a", zone="a", region="r"),
        node("b", zone="b"),
        make_node("legacy").label(LEGACY_ZONE, "a").label(ZONE, "a").allocatable(cpu="1").obj(),
        node("bare"),
        volume.obj(),
        make_claim("x/c").bound("v").obj(),
    )
    assert fitting(VolumeZone(), state, claims("x/p", "c").obj()) == nodes


def test_zone_refusals_before_any_node() -> None:
    state = cluster(
        node("n"), make_class("now").provisioner("csi").immediate().obj(), make_class("late").obj()
    )
    pod = claims("x/p", "c").obj()
    for claim, text in (
        (make_claim("x/c"), "PersistentVolumeClaim had no pv name and storageClass name"),
        (make_claim("x/c").storage_class("no"), 'storageclass.storage.k8s.io "no" not found'),
        (make_claim("x/c").storage_class("now"), "PersistentVolume had no name"),
        (make_claim("x/c").bound("gone"), 'persistentvolume "gone" not found'),
    ):
        put(state, claim.obj())
        assert ask(VolumeZone(), state, pod) == text
    put(state, make_claim("x/c").storage_class("late").obj())
    assert fitting(VolumeZone(), state, pod) == ["n"]


# NodeVolumeLimits


def attached(count: int | None, *pods: Pod) -> ClusterState:
    """A node that can attach `count` volumes of driver csi, with five such volumes claimed by c0..c4."""
    state = cluster(node("n"), make_csi_node("n").driver("csi", count).obj())
    for i in range(5):
        put(state, make_volume(f"v{i}").csi("csi", f"h{i}").obj())
        put(state, make_claim(f"x/c{i}").bound(f"v{i}").obj())
    for pod in pods:
        put(state, pod)
    return state


@pytest.mark.parametrize(
    ("count", "asked", "fits"),
    [
        pytest.param(3, ["c2"], True, id="the limit is reached"),
        pytest.param(3, ["c2", "c3"], False, id="the limit is passed"),
        pytest.param(2, ["c0"], True, id="what is attached already costs nothing"),
        pytest.param(2, ["c0", "c2"], False, id="one of the two is new"),
        pytest.param(0, ["c0", "c1"], True, id="nothing is new on a node that is over its limit"),
        pytest.param(None, ["c2", "c3", "c4"], True, id="no limit is known"),
    ],
)
def test_limits(count: int | None, asked: list[str], fits: bool) -> None:
    state = attached(count, claims("x/a", "c0").on("n").obj(), claims("x/b", "c0", "c1").on("n").obj())
    found = ask(NodeVolumeLimits(), state, claims("x/p", *asked).obj())
    assert found == {"n": set() if fits else {"node(s) exceed max volume count"}}


def test_a_claim_still_to_be_provisioned_counts_for_its_class() -> None:
    state = attached(1, claims("x/a", "c0").on("n").obj())
    put(state, make_class("fast").provisioner("csi").obj())
    put(state, make_claim("x/new").storage_class("fast").obj())
    pod = claims("x/p", "new").obj()
    assert fitting(NodeVolumeLimits(), state, pod) == []
    raised = put(state, make_csi_node("n").driver("csi", 2).obj())
    assert wakes(NodeVolumeLimits(), state, pod, raised)
    assert fitting(NodeVolumeLimits(), state, pod) == ["n"]


def test_volumes_of_other_drivers_and_sorts_do_not_count() -> None:
    state = attached(1, claims("x/a", "c0").on("n").obj())
    put(state, make_volume("other").csi("elsewhere", "h").obj())
    put(state, make_claim("x/other").bound("other").obj())
    put(state, make_volume("local").obj())
    put(state, make_claim("x/local").bound("local").obj())
    assert fitting(NodeVolumeLimits(), state, claims("x/p", "other", "local").obj()) == ["n"]


def test_a_count_follows_a_claim_that_is_bound_after_its_pod_was_placed() -> None:
    state = cluster(node("n"), make_csi_node("n").driver("csi", 1).obj())
    put(state, claims("x/a", "c").on("n").obj())
    put(state, make_volume("v").csi("csi", "h").obj())
    put(state, make_volume("w").csi("csi", "i").obj())
    put(state, make_claim("x/d").bound("w").obj())
    pod = claims("x/p", "d").obj()
    assert fitting(NodeVolumeLimits(), state, pod) == ["n"]
    put(state, make_claim("x/c").bound("v").obj())
    assert fitting(NodeVolumeLimits(), state, pod) == []
    state.remove_object(state.storage.claims["x/c"], EventKind.VOLUME)
    assert fitting(NodeVolumeLimits(), state, pod) == ["n"]


def test_limits_of_a_node_that_comes_after_its_drivers() -> None:
    state = cluster(make_csi_node("n").driver("csi", 0).obj(), node("n"))
    put(state, make_volume("v").csi("csi", "h").obj())
    put(state, make_claim("x/c").bound("v").obj())
    assert fitting(NodeVolumeLimits(), state, claims("x/p", "c").obj()) == []


def test_a_node_without_a_driver_that_must_be_there_takes_no_volume_of_it() -> None:
    with_driver, without = make_csi_node("n").driver("csi", 3), make_csi_node("m").driver("other", 3)
    state = cluster(node("n"), node("m"), node("bare"), with_driver.obj(), without.obj())
    put(state, make_volume("v").csi("csi", "h").obj())
    put(state, make_claim("x/c").bound("v").obj())
    pod = claims("x/p", "c").obj()
    assert fitting(NodeVolumeLimits(), state, pod) == ["n", "m", "bare"]
    put(state, make_csi_driver("csi").required_on_node().obj())
    missing = {"csi CSI driver is not installed on the node"}
    assert ask(NodeVolumeLimits(), state, pod) == {"n": set(), "m": missing, "bare": missing}
    assert wakes(NodeVolumeLimits(), state, pod, put(state, make_csi_node("m").driver("csi", None).obj()))
    assert fitting(NodeVolumeLimits(), state, pod) == ["n", "m"]
    driver = state.storage.drivers["csi"]
    assert wakes(NodeVolumeLimits(), state, pod, remove_object(state, driver, 0.0))
    assert fitting(NodeVolumeLimits(), state, pod) == ["n", "m", "bare"]


def test_a_missing_driver_says_so_where_another_one_is_full() -> None:
    state = attached(1, claims("x/a", "c0").on("n").obj())
    put(state, make_csi_driver("else").required_on_node().obj())
    put(state, make_volume("w").csi("else", "h").obj())
    put(state, make_claim("x/d").bound("w").obj())
    found = ask(NodeVolumeLimits(), state, claims("x/p", "c1", "d").obj())
    assert found == {"n": {"else CSI driver is not installed on the node"}}


def test_a_pod_with_claims_that_ends_wakes() -> None:
    state = attached(1, claims("x/a", "c0").on("n").obj(), make_pod("x/b").on("n").obj())
    pod = claims("x/p", "c1").obj()
    assert not wakes(NodeVolumeLimits(), state, pod, state.remove_pod("x/b"))
    assert wakes(NodeVolumeLimits(), state, pod, state.remove_pod("x/a"))


@pytest.mark.parametrize("plugin", [VolumeRestrictions(), VolumeZone(), NodeVolumeLimits(), VolumeBinding()])
def test_a_filter_can_be_asked_after_another_plugin_ended_the_attempt(plugin: Any) -> None:
    """Nobody ran this plugin's PreFilter, or it refused: the filter prepares itself, and never fails."""
    state = attached(1, claims("x/a", "c0").on("n").obj())
    view = NodeView.all(state.nodes)
    for name in ("c1", "missing"):
        cycle = cycle_for(state, claims("x/p", name).obj())
        # Its node is full; and what is missing, it says of all nodes.
        refused = isinstance(plugin, NodeVolumeLimits)
        assert plugin.filter(cycle, view).tolist() == [int(refused)]
