"""What is set aside for claims, what pods use of volumes, and how many are attached where."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.volumes.attachments import UNLIMITED
from tests.support.builders import make_node, make_pod
from tests.support.storage_builders import make_claim, make_class, make_csi_node, make_volume


def state_of(*objects: object) -> ClusterState:
    state = ClusterState()
    for name in ("m", "n"):
        state.put_node(make_node(name).allocatable(cpu=9).obj())
    for obj in objects:
        state.put_object(obj, EventKind.VOLUME)
    return state


def gone(state: ClusterState, obj: object) -> None:
    state.remove_object(obj, EventKind.VOLUME)


def user(uid: str, *claims: str, node: str = "n") -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return make_pod(f"a/{uid}").uid(uid).spec(volumes=volumes).on(node).obj()


def reserved(state: ClusterState, key: str = "a/c") -> list[str]:
    return [volume.name for volume in state.storage.reserved_for(make_claim(key).obj())]


def free(state: ClusterState) -> list[str]:
    table = state.storage.table
    found = [table.volumes[row] for row in table.candidates(make_claim("a/any").obj())]
    return sorted(volume.name for volume in found if volume is not None)


def attached(state: ClusterState, driver: str = "csi") -> list[int]:
    found: list[int] = state.storage.attachments.attached(driver).tolist()
    return found


# What is set aside


def test_a_volume_that_names_a_claim_is_set_aside_for_it() -> None:
    state = state_of(make_volume("v").claimed("a/c").obj(), make_volume("w").obj())
    assert (reserved(state), free(state)) == (["v"], ["w"])
    state.put_object(make_volume("v").claimed("a/d").obj(), EventKind.VOLUME)
    assert (reserved(state), reserved(state, "a/d")) == ([], ["v"])
    gone(state, make_volume("v").obj())
    assert (reserved(state, "a/d"), free(state)) == ([], ["w"])


def test_a_volume_of_an_older_claim_of_that_name_is_not() -> None:
    state = state_of(
        make_volume("v").claimed("a/c", "older").obj(),
        make_volume("w").claimed("a/c", "uid-a/c").obj(),
        make_volume("x").claimed("a/c").obj(),
    )
    assert reserved(state) == ["w", "x"]


def test_an_assumed_volume_lasts_until_it_is_forgotten() -> None:
    state = state_of(*(make_volume(name).obj() for name in "vwx"))
    state.storage.assume("w", "a/c", "p")
    state.storage.assume("v", "a/c", "p")
    state.storage.assume("x", "a/c", "q")
    assert (reserved(state), free(state)) == (["v", "w", "x"], [])
    state.storage.forget("p")
    assert (reserved(state), free(state)) == (["x"], ["v", "w"])
    state.storage.forget("stranger")
    assert set(state.storage.assumed) == {"x"}


def test_an_assumed_volume_is_replaced_by_the_watched_one() -> None:
    state = state_of(make_volume("v").obj())
    state.storage.assume("v", "a/c", "p")
    state.put_object(make_volume("v").labels(a="b").obj(), EventKind.VOLUME)
    assert (free(state), list(state.storage.assumed)) == ([], ["v"]), "an older form says nothing of it"
    state.put_object(make_volume("v").claimed("a/c").obj(), EventKind.VOLUME)
    assert (reserved(state), state.storage.assumed) == (["v"], {})
    state.storage.forget("p")
    assert free(state) == [], "it is not ours to give back"


def test_a_volume_that_is_gone_is_set_aside_for_nobody() -> None:
    state = state_of(make_volume("v").obj())
    state.storage.assume("v", "a/c", "p")
    gone(state, make_volume("v").obj())
    assert (reserved(state), state.storage.assumed) == ([], {})
    state.storage.assume("never", "a/c", "p")
    assert reserved(state) == []
    state.storage.forget("p")


# Which volume stands behind a claim

HANDLES = [
    ("a claim that is not there", [], None),
    ("a CSI volume", [make_claim("a/c").bound("v"), make_volume("v").csi("csi", "h")], ("csi", "h")),
    ("a volume of another sort", [make_claim("a/c").bound("v"), make_volume("v")], None),
    ("a driver without a handle", [make_claim("a/c").bound("v"), make_volume("v").csi("csi", "")], None),
    ("no class", [make_claim("a/c")], None),
    (
        "a class that makes volumes",
        [make_claim("a/c").storage_class("k"), make_class("k").provisioner("csi")],
        ("csi", "claim a/c"),
    ),
    ("a class that makes none", [make_claim("a/c").storage_class("k"), make_class("k")], None),
]


@pytest.mark.parametrize(("objects", "handle"), [h[1:] for h in HANDLES], ids=[h[0] for h in HANDLES])
def test_the_volume_behind_a_claim(objects: list[Any], handle: tuple[str, str] | None) -> None:
    state = state_of(*(item.obj() for item in objects))
    assert state.storage.handle("a/c") == handle
    state.put_pod(user("p", "c"))
    assert attached(state) == [0, int(handle is not None)]


# Use


def test_a_volume_counts_once_on_a_node_however_many_use_it() -> None:
    state = state_of(make_volume("v").csi("csi", "h").obj(), make_claim("a/c").bound("v").obj())
    for uid, node in (("p", "n"), ("q", "n"), ("r", "m")):
        state.put_pod(user(uid, "c", node=node))
    assert attached(state) == [1, 1]
    assert sorted(state.storage.attachments.slots_with(("csi", "h"))) == [0, 1]
    state.remove_pod("p")
    assert attached(state) == [1, 1]
    state.remove_pod("q")
    assert attached(state) == [1, 0]
    state.remove_pod("r")
    assert (attached(state), list(state.storage.used)) == ([0, 0], [])


def test_two_claims_of_one_volume_attach_it_once() -> None:
    both = [make_claim(f"a/{name}").bound("v").obj() for name in "cd"]
    state = state_of(make_volume("v").csi("csi", "h").obj(), *both)
    state.put_pod(user("p", "c", "d"))
    assert attached(state) == [0, 1]
    state.remove_pod("p")
    assert attached(state) == [0, 0]


def test_disks_in_use_tell_readers_from_writers() -> None:
    disk = {"name": "d", "gcePersistentDisk": {"pdName": "x", "readOnly": True}}
    state = state_of()
    state.put_pod(make_pod("a/p").uid("p").spec(volumes=[disk]).on("n").obj())
    ((key, read_only),) = state.storage.disks
    assert (read_only, list(state.storage.disks.slots((key, True)))) == (True, [1])
    state.remove_pod("p")
    assert list(state.storage.disks) == []


CHANGES = [
    ("the claim is bound to another volume", make_claim("a/c").bound("w"), False, [("csi", 0), ("other", 1)]),
    ("the claim goes", make_claim("a/c").bound("v"), True, [("csi", 0), ("other", 0)]),
    ("the volume is another driver's", make_volume("v").csi("other", "h"), False, [("csi", 0), ("other", 1)]),
    (
        "the volume goes and the class makes none",
        make_volume("v").csi("csi", "h"),
        True,
        [("csi", 0), ("other", 0)],
    ),
    ("a volume that is not used", make_volume("x").csi("other", "h"), False, [("csi", 1), ("other", 0)]),
]


@pytest.mark.parametrize(("obj", "remove", "counts"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_use_follows_the_objects_behind_it(obj: Any, remove: bool, counts: list[tuple[str, int]]) -> None:
    state = state_of(
        make_volume("v").csi("csi", "h").obj(),
        make_volume("w").csi("other", "i").obj(),
        make_claim("a/c").bound("v").obj(),
    )
    state.put_pod(user("p", "c"))
    if remove:
        gone(state, obj.obj())
    else:
        state.put_object(obj.obj(), EventKind.VOLUME)
    assert [(driver, attached(state, driver)[1]) for driver, _ in counts] == counts
    state.remove_pod("p")
    assert (attached(state), attached(state, "other")) == ([0, 0], [0, 0])


def test_use_follows_the_class_that_will_make_the_volume() -> None:
    state = state_of(make_claim("a/c").storage_class("k").obj(), make_claim("a/d").storage_class("l").obj())
    state.put_pod(user("p", "c", "d", "unknown"))
    assert attached(state) == [0, 0]
    state.put_object(make_class("k").provisioner("csi").obj(), EventKind.VOLUME)
    assert attached(state) == [0, 1]
    gone(state, make_class("k").obj())
    assert attached(state) == [0, 0]


# Limits


def test_limits_are_those_of_the_nodes_drivers() -> None:
    state = state_of(make_csi_node("n").driver("csi", 3).obj(), make_csi_node("later").driver("csi", 5).obj())
    limits = state.storage.attachments
    assert limits.limit("csi").tolist() == [UNLIMITED, 3]
    assert limits.limit("other").tolist() == [UNLIMITED, UNLIMITED]
    state.put_node(make_node("later").allocatable(cpu=1).obj())
    assert limits.limit("csi").tolist() == [UNLIMITED, 3, 5]
    state.put_object(make_csi_node("n").driver("other", 7).obj(), EventKind.VOLUME)
    assert (limits.limit("csi").tolist(), limits.limit("other").tolist()) == (
        [UNLIMITED, UNLIMITED, 5],
        [UNLIMITED, 7, UNLIMITED],
    )
    gone(state, make_csi_node("n").obj())
    assert limits.limit("other").tolist() == [UNLIMITED] * 3


def test_limits_go_with_the_node_and_not_with_its_slot() -> None:
    state = state_of(make_csi_node("n").driver("csi", 3).obj())
    assert state.storage.attachments.limit("csi").tolist() == [UNLIMITED, 3]
    state.remove_node("n")
    state.put_node(make_node("other").allocatable(cpu=1).obj())
    assert state.storage.attachments.limit("csi").tolist() == [UNLIMITED, UNLIMITED]


def test_columns_of_drivers_grow_with_the_cluster() -> None:
    state = state_of(make_volume("v").csi("csi", "h").obj(), make_claim("a/c").bound("v").obj())
    state.put_pod(user("p", "c"))
    for number in range(100):
        state.put_node(make_node(f"x{number}").allocatable(cpu=1).obj())
    state.put_object(make_csi_node("x99").driver("csi", 2).obj(), EventKind.VOLUME)
    assert attached(state) == [0, 1] + [0] * 100
    assert state.storage.attachments.limit("csi").tolist() == [UNLIMITED] * 101 + [2]
