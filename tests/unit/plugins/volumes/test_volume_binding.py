"""VolumeBinding: where a pod's volumes are or can be had, and the writes that settle it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.config import default_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Decision, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.allocation import capacity_ratio
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.writes import Patch
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.plugins.volumes.volume_binding import VolumeBinding
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from tests.support.asking import ask, cluster, fitting, put, score, wakes
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.storage_builders import (
    PoolBuilder,
    label_term,
    make_claim,
    make_class,
    make_csi_driver,
    make_pool,
    make_volume,
)

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NOTHING = {"node(s) didn't find available persistent volumes to bind"}
CONFLICT = {"node(s) didn't match PersistentVolume's node affinity"}


def claims(key: str, *names: str) -> PodBuilder:
    volumes = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)
    ]
    return make_pod(key).uid(key).scheduler("default-scheduler").spec(volumes=volumes)


def nodes() -> list[Any]:
    zones = {"n1": "a", "n2": "a", "n3": "b"}
    return [make_node(n).label(ZONE, zone).allocatable(cpu="4").obj() for n, zone in zones.items()]


def local(*objects: Any) -> ClusterState:
    """Three nodes in two zones, the classes `local` (existing volumes) and `fast` (provisioned)."""
    classes = [make_class("local").obj(), make_class("fast").provisioner("csi").obj()]
    return cluster(*nodes(), *classes, *objects)


# Bound claims


def test_a_bound_claim_ties_the_pod_to_where_its_volume_can_be_reached() -> None:
    state = local(make_volume("v").on(HOST, "n2").obj(), make_claim("x/c").bound("v").obj())
    found = ask(VolumeBinding(), state, claims("x/p", "c").obj())
    assert found == {"n1": CONFLICT, "n2": set(), "n3": CONFLICT}


def test_a_volume_without_node_affinity_can_be_reached_from_everywhere() -> None:
    state = local(make_volume("v").obj(), make_claim("x/c").bound("v").obj())
    assert fitting(VolumeBinding(), state, claims("x/p", "c").obj()) == ["n1", "n2", "n3"]


def test_a_claim_bound_to_a_volume_that_is_gone_waits_for_it() -> None:
    state, pod = local(make_claim("x/c").bound("v").obj()), claims("x/p", "c").obj()
    gone = {"node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"}
    assert ask(VolumeBinding(), state, pod) == {"n1": gone, "n2": gone, "n3": gone}
    assert wakes(VolumeBinding(), state, pod, put(state, make_volume("v").claimed("x/c").obj()))


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(
            make_claim("x/c"), "pod has unbound immediate PersistentVolumeClaims", id="no class at all"
        ),
        pytest.param(
            make_claim("x/c").storage_class("unknown"),
            "pod has unbound immediate PersistentVolumeClaims",
            id="a class that is not there",
        ),
        pytest.param(
            make_claim("x/c").storage_class("local").spec(volumeName="v"),
            "pod has unbound immediate PersistentVolumeClaims",
            id="a volume is named, the binding is not complete",
        ),
        pytest.param(
            make_claim("x/c").bound("v").phase("Lost"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="lost",
        ),
        pytest.param(
            make_claim("x/c").bound("v").deleting(1.0),
            'persistentvolumeclaim "c" is being deleted',
            id="being deleted",
        ),
        pytest.param(make_claim("x/d"), 'persistentvolumeclaim "c" not found', id="not there"),
    ],
)
def test_claims_that_cannot_be_used(claim: Any, text: str) -> None:
    assert ask(VolumeBinding(), local(claim.obj()), claims("x/p", "c").obj()) == text


def test_a_claim_of_an_immediate_class_is_bound_before_its_pod_is_tried() -> None:
    storage = make_class("now").immediate().obj(), make_claim("x/c").storage_class("now").obj()
    refused = ask(VolumeBinding(), local(*storage), claims("x/p", "c").obj())
    assert refused == "pod has unbound immediate PersistentVolumeClaims"


def test_a_generic_ephemeral_volume_must_have_been_made_for_this_pod() -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}
    pod = make_pod("x/p").uid("pod-uid").spec(volumes=[volume]).obj()
    state = local()
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert ask(VolumeBinding(), state, pod) == waiting
    put(state, make_claim("x/p-scratch").storage_class("fast").obj())
    alien = "PVC x/p-scratch was not created for pod x/p (pod is not owner)"
    assert ask(VolumeBinding(), state, pod) == alien
    put(state, make_claim("x/p-scratch").storage_class("fast").owned_by("pod-uid").obj())
    assert fitting(VolumeBinding(), state, pod) == ["n1", "n2", "n3"]


# Claims that wait for their first consumer


@pytest.mark.parametrize(
    ("volume", "fits"),
    [
        pytest.param(make_volume("v"), ["n2"], id="a volume that fits"),
        pytest.param(make_volume("v").capacity("4Gi"), [], id="too small"),
        pytest.param(make_volume("v").modes("ReadOnlyMany"), [], id="another access mode"),
        pytest.param(make_volume("v").spec(volumeMode="Block"), [], id="another volume mode"),
        pytest.param(make_volume("v").phase("Released"), [], id="not available any more"),
        pytest.param(make_volume("v").deleting(1.0), [], id="being deleted"),
        pytest.param(make_volume("v").claimed("x/other"), [], id="reserved for another claim"),
        pytest.param(make_volume("v").claimed("x/c"), ["n2"], id="reserved for this claim"),
        pytest.param(make_volume("v").claimed("x/c", "older-uid"), [], id="reserved for an older claim"),
        pytest.param(make_volume("v").spec(volumeAttributesClassName="gold"), [], id="other attributes"),
    ],
)
def test_existing_volumes(volume: Any, fits: list[str]) -> None:
    if "storageClassName" not in volume.raw["spec"]:
        volume.storage_class("local").on(HOST, "n2")
    state = local(volume.obj(), make_claim("x/c").storage_class("local").obj())
    found = ask(VolumeBinding(), state, claims("x/p", "c").obj())
    assert found == {name: set() if name in fits else NOTHING for name in ("n1", "n2", "n3")}


def test_a_selector_chooses_among_volumes() -> None:
    state = local(
        make_volume("slow").storage_class("local").on(HOST, "n1").obj(),
        make_volume("quick").storage_class("local").on(HOST, "n2").label("media", "ssd").obj(),
        make_claim("x/c").storage_class("local").spec(selector={"matchLabels": {"media": "ssd"}}).obj(),
    )
    assert fitting(VolumeBinding(), state, claims("x/p", "c").obj()) == ["n2"]


def test_two_claims_of_a_pod_need_two_volumes() -> None:
    two = [make_claim(f"x/{name}").storage_class("local").obj() for name in "cd"]
    state = local(
        make_volume("v1").storage_class("local").on(HOST, "n1").obj(),
        make_volume("v2").storage_class("local").on(HOST, "n2").obj(),
        make_volume("zonal").storage_class("local").terms(label_term(ZONE, "a", "c")).obj(),
        *two,
    )
    assert fitting(VolumeBinding(), state, claims("x/p", "c", "d").obj()) == ["n1", "n2"]


def test_provisioning_heeds_the_topologies_of_the_class() -> None:
    state = local(make_claim("x/c").storage_class("zonal").obj())
    put(state, make_class("zonal").provisioner("csi").only_in(ZONE, "b").obj())
    pod = claims("x/p", "c").obj()
    assert fitting(VolumeBinding(), state, pod) == ["n3"]
    wider = put(state, make_class("zonal").provisioner("csi").only_in(ZONE, "a", "b").obj())
    assert wakes(VolumeBinding(), state, pod, wider)
    assert fitting(VolumeBinding(), state, pod) == ["n1", "n2", "n3"]


def test_a_volume_that_is_being_made_for_a_node_keeps_the_pod_there() -> None:
    state = local(make_claim("x/c").storage_class("fast").selected("n3").obj())
    assert fitting(VolumeBinding(), state, claims("x/p", "c").obj()) == ["n3"]


# Writes


def scheduler(state: ClusterState) -> Scheduler:
    return Scheduler(state, build_profiles(default_config(), FACTORIES, KNOWN_PLUGINS))


def only(decisions: list[Decision]) -> Any:
    assert len(decisions) == 1, decisions
    return decisions[0]


def test_an_existing_volume_is_reserved_before_the_pod_is_bound() -> None:
    """The smallest that fits, once, under its resourceVersion."""
    state = local(
        make_volume("big").capacity("90Gi").storage_class("local").on(HOST, "n1").version("7").obj(),
        make_volume("v").uid("vu").storage_class("local").on(HOST, "n1").version("8").obj(),
        make_claim("x/c").storage_class("local").obj(),
        make_claim("x/d").storage_class("local").obj(),
    )
    engine = scheduler(state)
    engine.put(claims("x/p", "c").obj(), 0.0)
    placed = only(engine.step(0.0))
    assert isinstance(placed, Placed)
    assert placed.node == "n1"
    (write,) = placed.pre_bind
    assert isinstance(write, Patch)
    assert (write.resource.kind, write.name, write.uid, write.resource_version) == (
        "PersistentVolume",
        "v",
        "vu",
        "8",
    )
    assert write.body == {
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "x",
                "name": "c",
                "uid": "uid-x/c",
            }
        },
    }
    engine.put(claims("x/q", "d").obj(), 0.0)
    assert only(engine.step(0.0)).pre_bind[0].name == "big"


def test_pods_that_share_a_claim_share_its_volume() -> None:
    volumes = [make_volume(f"v{i}").storage_class("local").on(HOST, "n1", "n2").obj() for i in range(2)]
    state = local(*volumes, make_claim("x/c").storage_class("local").obj())
    engine = scheduler(state)
    engine.put(claims("x/p", "c").obj(), 0.0)
    engine.put(claims("x/q", "c").obj(), 0.0)
    first, second = engine.step(0.0)
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    assert first.pre_bind[0].name == second.pre_bind[0].name


def test_a_failed_binding_gives_the_volume_back() -> None:
    state = local(
        make_volume("v").storage_class("local").on(HOST, "n1").obj(),
        make_claim("x/c").storage_class("local").obj(),
        make_claim("x/d").storage_class("local").obj(),
    )
    engine = scheduler(state)
    pod = claims("x/p", "c").obj()
    engine.put(pod, 0.0)
    engine.step(0.0)
    other = claims("x/q", "d").obj()
    assert fitting(VolumeBinding(), state, other) == []
    engine.bind_failed(pod, 0.0)
    assert fitting(VolumeBinding(), state, other) == ["n1"]


def test_a_reservation_that_the_api_shows_outlives_the_failed_binding() -> None:
    volume = make_volume("v").storage_class("local").on(HOST, "n1")
    state = local(
        volume.obj(),
        make_claim("x/c").storage_class("local").obj(),
        make_claim("x/d").storage_class("local").obj(),
    )
    engine = scheduler(state)
    pod = claims("x/p", "c").obj()
    engine.put(pod, 0.0)
    engine.step(0.0)
    engine.put(volume.claimed("x/c", "uid-x/c").obj(), 0.0)
    engine.bind_failed(pod, 0.0)
    assert fitting(VolumeBinding(), state, claims("x/q", "d").obj()) == []
    assert fitting(VolumeBinding(), state, pod) == ["n1"]


def test_a_volume_to_be_made_is_asked_for_and_the_pod_waits_on_its_node() -> None:
    state = local(make_claim("x/c").storage_class("fast").version("3").obj())
    engine = scheduler(state)
    engine.put(claims("x/p", "c").obj(), 0.0)
    rejected = only(engine.step(0.0))
    assert isinstance(rejected, Rejected)
    node = rejected.nominated
    assert rejected.message == f"waiting for volumes to be provisioned on node {node} for claims: c"
    (write,) = rejected.writes
    assert isinstance(write, Patch)
    assert (write.resource.kind, write.name, write.resource_version) == ("PersistentVolumeClaim", "c", "3")
    assert write.body == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}}
    assert state.nominations.get("x/p") is not None
    assert "x/p" not in state.placed


def test_of_several_volumes_to_be_made_only_those_without_a_node_are_asked_for() -> None:
    made = make_claim("x/c").storage_class("fast")
    state = local(made.selected("n1").obj(), make_claim("x/d").storage_class("fast").obj())
    engine = scheduler(state)
    engine.put(claims("x/p", "c", "d").obj(), 0.0)
    rejected = only(engine.step(0.0))
    assert isinstance(rejected, Rejected)
    assert rejected.message == "waiting for volumes to be provisioned on node n1 for claims: c, d"
    assert [write.name for write in rejected.writes if isinstance(write, Patch)] == ["d"]


def test_the_pod_is_bound_when_the_volume_is_there_and_not_before() -> None:
    state = local(make_claim("x/c").storage_class("fast").obj())
    engine = scheduler(state)
    engine.put(claims("x/p", "c").obj(), 0.0)
    node = only(engine.step(0.0)).nominated
    engine.put(make_claim("x/c").storage_class("fast").selected(node).obj(), 20.0)
    assert engine.step(20.0) == []
    engine.put(make_volume("made").on(HOST, node).storage_class("fast").claimed("x/c").obj(), 20.0)
    engine.step(20.0)
    engine.put(make_claim("x/c").storage_class("fast").selected(node).bound("made").obj(), 40.0)
    placed = only(engine.step(60.0))
    assert isinstance(placed, Placed)
    assert (placed.node, placed.pre_bind) == (node, ())


def test_a_provisioner_that_gives_up_frees_the_choice_of_node() -> None:
    state = local(make_claim("x/c").storage_class("fast").selected("n1").obj())
    pod = claims("x/p", "c").obj()
    assert fitting(VolumeBinding(), state, pod) == ["n1"]
    assert wakes(VolumeBinding(), state, pod, put(state, make_claim("x/c").storage_class("fast").obj()))
    assert fitting(VolumeBinding(), state, pod) == ["n1", "n2", "n3"]


# Free space of pools

FULL = {"node(s) did not have enough free storage"}


def pooled(*pools: PoolBuilder) -> ClusterState:
    """The driver of the class `fast` reports its pools."""
    return local(make_csi_driver("csi").reports_capacity().obj(), *(pool.obj() for pool in pools))


def new_claim(size: str = "5Gi", name: str = "c", storage_class: str = "fast") -> Any:
    return make_claim(f"x/{name}").storage_class(storage_class).asks(size).obj()


@pytest.mark.parametrize(
    ("pools", "full"),
    [
        pytest.param([], {"n1", "n2", "n3"}, id="no pool"),
        pytest.param([make_pool("k/p", "fast", "5Gi").on(**{ZONE: "a"})], {"n3"}, id="just large enough"),
        pytest.param(
            [make_pool("k/p", "fast", "5367709119").on(**{ZONE: "a"})],
            {"n1", "n2", "n3"},
            id="a byte too small",
        ),
        pytest.param(
            [make_pool("k/p", "other", "9Gi").on(**{ZONE: "a"})], {"n1", "n2", "n3"}, id="of another class"
        ),
        pytest.param([make_pool("k/p", "fast", "9Gi")], {"n1", "n2", "n3"}, id="no node reaches it"),
        pytest.param([make_pool("k/p", "fast", "9Gi").on()], set(), id="every node reaches it"),
        pytest.param([make_pool("k/p", "fast").on(**{ZONE: "a"})], {"n1", "n2", "n3"}, id="no size is told"),
        pytest.param(
            [make_pool("k/p", "fast", "9Gi").largest("4Gi").on(**{ZONE: "a"})],
            {"n1", "n2", "n3"},
            id="the largest volume is too small",
        ),
        pytest.param(
            [make_pool("k/p", "fast", "1Gi").largest("6Gi").on(**{ZONE: "a"})],
            {"n3"},
            id="the largest volume counts",
        ),
        pytest.param(
            [
                make_pool("k/p", "fast", "1Gi").on(**{ZONE: "a"}),
                make_pool("k/q", "fast", "9Gi").on(**{ZONE: "a"}),
                make_pool("k/r", "fast", "3Gi").on(**{ZONE: "a"}),
            ],
            {"n3"},
            id="the largest of several",
        ),
        pytest.param(
            [
                make_pool("k/p", "fast", "9Gi").on(**{ZONE: "b", HOST: "n3"}),
                make_pool("k/q", "fast", "9Gi").selected_by(
                    {"key": HOST, "operator": "NotIn", "values": ["n1", "n3"]}
                ),
            ],
            {"n1"},
            id="by several labels, and by a rule",
        ),
    ],
)
def test_a_volume_is_made_only_where_a_pool_has_room(pools: list[PoolBuilder], full: set[str]) -> None:
    state = pooled(*pools)
    put(state, new_claim())
    found = ask(VolumeBinding(), state, claims("x/p", "c").obj())
    assert found == {name: FULL if name in full else set() for name in ("n1", "n2", "n3")}


def test_pools_follow_their_objects_and_the_labels_of_nodes() -> None:
    state, pod = pooled(), claims("x/p", "c").obj()
    put(state, new_claim())
    pool = make_pool("k/p", "fast", "9Gi").on(**{HOST: "n2"})
    assert wakes(VolumeBinding(), state, pod, put(state, pool.obj()))
    assert fitting(VolumeBinding(), state, pod) == ["n2"]
    put(state, make_pool("k/p", "fast", "9Gi").on(**{HOST: "n9"}).obj())
    assert fitting(VolumeBinding(), state, pod) == []
    put(state, make_node("n9").allocatable(cpu="4").obj())
    assert fitting(VolumeBinding(), state, pod) == ["n9"]
    # More values than the first arrays hold.
    for number in range(20):
        put(state, make_pool(f"k/{number}", "fast", "9Gi").on(**{HOST: f"m{number}"}).obj())
    put(state, make_node("m19").allocatable(cpu="4").obj())
    assert fitting(VolumeBinding(), state, pod) == ["n9", "m19"]
    assert not wakes(VolumeBinding(), state, pod, put(state, make_pool("k/q", "fast", "4Gi").obj()))
    state.remove_object(pool.obj(), EventKind.VOLUME)
    assert fitting(VolumeBinding(), state, pod) == ["m19"]
    silent = make_csi_driver("csi").obj()
    assert wakes(VolumeBinding(), state, pod, put(state, silent))
    assert fitting(VolumeBinding(), state, pod) == ["n1", "n2", "n3", "n9", "m19"]


def test_the_first_claim_that_a_node_cannot_serve_says_why() -> None:
    state = pooled(make_pool("k/p", "fast", "9Gi").on(**{HOST: "n1"}))
    put(state, new_claim())
    put(state, new_claim(name="d", storage_class="local"))
    found = ask(VolumeBinding(), state, claims("x/p", "c", "d").obj())
    assert found == {"n1": NOTHING, "n2": FULL, "n3": FULL}


@pytest.mark.parametrize(
    ("shape", "points"),
    [
        pytest.param([(0, 10), (100, 0)], {"n1": 50, "n2": 80, "n3": 0}, id="emptier is better"),
        pytest.param([(0, 0), (100, 10)], {"n1": 50, "n2": 20, "n3": 100}, id="fuller is better"),
    ],
)
def test_nodes_are_scored_by_how_full_their_pools_would_be(
    shape: list[tuple[int, int]], points: dict[str, int]
) -> None:
    sizes = {"n1": "10Gi", "n2": "25Gi", "n3": "5Gi"}
    state = pooled(*(make_pool(f"k/{name}", "fast", size).on(**{HOST: name}) for name, size in sizes.items()))
    put(state, new_claim())
    assert score(VolumeBinding(capacity_ratio(shape)), state, claims("x/p", "c").obj()) == points


def test_volumes_of_one_pool_add_up_and_classes_are_averaged() -> None:
    state = pooled(make_pool("k/p", "fast", "20Gi").on(), make_pool("k/q", "slow", "40Gi").on())
    put(state, make_class("slow").provisioner("csi").obj())
    for name in ("a", "b"):
        put(state, new_claim(name=name))
    put(state, new_claim(name="d", storage_class="slow"))
    # Half of one pool and an eighth of the other: 50, and 88 of 87.5 rounded down to whole percent of use.
    found = score(VolumeBinding(), state, claims("x/p", "a", "b", "d").obj())
    assert set(found.values()) == {69}
    # Together more than there is: full.
    put(state, new_claim("15Gi", "b"))
    assert set(score(VolumeBinding(), state, claims("x/p", "a", "b", "d").obj()).values()) == {44 + 0}


def test_existing_volumes_are_scored_by_the_room_that_they_leave() -> None:
    state = local(
        make_volume("small").storage_class("local").capacity("10Gi").on(HOST, "n1").obj(),
        make_volume("large").storage_class("local").capacity("50Gi").on(HOST, "n2").obj(),
        new_claim(storage_class="local"),
    )
    found = score(VolumeBinding(), state, claims("x/p", "c").obj())
    assert found == {"n1": 50, "n2": 90, "n3": 0}


def test_sizes_beyond_all_disks_do_no_harm() -> None:
    state = pooled(make_pool("k/p", "fast", "9223372036854775807").on())
    for name in ("a", "b", "c"):
        put(state, new_claim("9223372036854775807", name))
    assert set(score(VolumeBinding(), state, claims("x/p", "a", "b", "c").obj()).values()) == {0}
