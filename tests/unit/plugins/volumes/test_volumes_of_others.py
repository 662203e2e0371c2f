"""Volumes of another team: a tenant writes pods and claims of its own namespace, and nothing else.

Team a has a quota; b is another team, with one too. What a tries neither uses a volume of b, nor evicts a pod
of b, nor keeps from b what b is guaranteed, or what is left beside the quota of a.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.decisions import Evicted, Placed, Rejected
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed, rejected
from tests.support.storage_builders import (
    ClaimBuilder,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
)

HOST = "kubernetes.io/hostname"
BOUND = "pv.kubernetes.io/bind-completed"
ANOTHER = 'persistentvolumeclaim "c" names a volume of another claim'


def pod(key: str, *claims: str, cpu: int = 1) -> PodBuilder:
    volumes = [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(claims)
    ]
    return make_pod(key).uid(key).requests(cpu=cpu).spec(volumes=volumes)


def as_if_bound(key: str, volume: str) -> ClaimBuilder:
    """What a tenant may write itself: the name, and the mark that the volume controller leaves."""
    return make_claim(key).storage_class("fast").spec(volumeName=volume).annotation(BOUND, "yes")


class Teams(GangScheduler):
    """Two nodes; b has the volume `theirs` on n1, of a driver that attaches two volumes to a node."""

    def __init__(self, most: int = 8) -> None:
        super().__init__()
        for name in ("n0", "n1"):
            self.add(make_node(name).allocatable(cpu=4).label(HOST, name))
            self.add(make_csi_node(name).driver("csi", 2))
        self.add(make_class("fast").provisioner("csi"), make_class("local"))
        self.add(make_quota("a/q").min(cpu=4).max(cpu=most), make_quota("b/q").min(cpu=4))
        theirs = make_volume("theirs").storage_class("fast").csi("csi", "theirs").on(HOST, "n1")
        self.add(theirs.claimed("b/data", "uid-b/data").phase("Bound"))
        self.add(make_claim("b/data").storage_class("fast").bound("theirs").annotation(BOUND, "yes"))

    def add(self, *builders: Any) -> None:
        for builder in builders:
            self.scheduler.put(builder.obj(), self.now)


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        pytest.param(as_if_bound("a/c", "theirs"), ANOTHER, id="as if it were bound"),
        pytest.param(
            make_claim("a/c").storage_class("fast").spec(volumeName="theirs"), ANOTHER, id="that it asks for"
        ),
        pytest.param(
            as_if_bound("a/c", "theirs").annotation("volume.kubernetes.io/selected-node", "n1"),
            ANOTHER,
            id="with a node that it selected",
        ),
    ],
)
def test_a_claim_that_names_a_volume_of_others_starts_no_pod_and_tells_no_node(
    claim: ClaimBuilder, told: str
) -> None:
    teams = Teams()
    teams.add(claim)
    teams.put(pod("a/p", "c"))
    found = rejected(teams.step())["p"]
    assert told in found.message
    assert not found.nominated
    teams.put(pod("b/p", "data"))
    assert placed(teams.step()) == {"p": "n1"}


def test_an_earlier_claim_of_the_same_name_is_another_claim() -> None:
    teams = Teams()
    teams.add(make_volume("old").storage_class("fast").claimed("a/c", "uid of the first").phase("Bound"))
    teams.add(as_if_bound("a/c", "old"))
    teams.put(pod("a/p", "c"))
    assert ANOTHER in rejected(teams.step())["p"].message


@pytest.mark.parametrize("order", ["volumes first", "claims first"])
def test_volumes_of_others_that_placed_pods_name_fill_no_node(order: str) -> None:
    """A pod that its owner gave a node counts there, with all volumes: a node attaches two."""
    teams = Teams()
    volumes = [
        make_volume(f"v{at}").storage_class("fast").csi("csi", f"v{at}").claimed(f"b/d{at}", f"uid-b/d{at}")
        for at in range(4)
    ]
    claims = [as_if_bound(f"a/c{at}", f"v{at}") for at in range(4)]
    given = [*volumes, *claims] if order == "volumes first" else [*claims, *volumes]
    for at, name in enumerate(("n0", "n1")):
        teams.put(pod(f"a/p{at}", *(f"c{number}" for number in range(4))).on(name))
    teams.add(*given)
    teams.put(pod("b/p", "data"))
    assert placed(teams.step()) == {"p": "n1"}


def test_pods_that_wait_for_volumes_that_nobody_makes_hold_their_own_quota_and_no_more() -> None:
    teams = Teams(most=4)
    for at in range(6):
        teams.add(make_claim(f"a/c{at}").storage_class("fast"))
        teams.put(pod(f"a/p{at}", f"c{at}", cpu=2))
    waiting = rejected(teams.step())
    assert sum(bool(item.nominated) for item in waiting.values()) == 2
    teams.put(pod("b/p0", cpu=2), pod("b/p1", cpu=2))
    assert {name for name in placed(teams.step(1.0)) if name.startswith("p")} == {"p0", "p1"}


def test_pods_that_borrow_and_wait_for_volumes_keep_nobody_from_its_min() -> None:
    teams = Teams()
    for at in range(4):
        teams.add(make_claim(f"a/c{at}").storage_class("fast"))
        teams.put(pod(f"a/p{at}", f"c{at}", cpu=2))
    assert sum(bool(item.nominated) for item in rejected(teams.step()).values()) == 4
    teams.put(pod("b/big", cpu=4))
    assert placed(teams.step(1.0)).keys() == {"big"}


def alone(key: str) -> ClaimBuilder:
    return make_claim(key).storage_class("fast").modes("ReadWriteOncePod")


def test_a_claim_for_one_pod_concerns_claims_of_its_namespace_alone() -> None:
    teams = Teams()
    teams.add(alone("b/c").bound("vb"), alone("a/c").bound("va"))
    teams.add(*(make_volume(f"v{team}").claimed(f"{team}/c", f"uid-{team}/c") for team in "ab"))
    teams.put(pod("b/p", "c").on("n0"))
    teams.put(pod("a/p", "c").priority(1_000))
    decisions = teams.step()
    assert placed(decisions) == {"p": placed(decisions)["p"]}
    assert not evicted(decisions)


def test_an_inline_disk_of_others_evicts_nobody_who_borrows_nothing() -> None:
    disk = {"name": "d", "gcePersistentDisk": {"pdName": "data"}}
    teams = Teams()
    for at, name in enumerate(("n0", "n1")):
        teams.put(make_pod(f"b/p{at}").uid(f"b/p{at}").requests(cpu=2).spec(volumes=[disk]).on(name))
    teams.put(make_pod("a/p").uid("a/p").requests(cpu=1).spec(volumes=[disk]).priority(1_000))
    decisions = teams.step()
    assert not [item for item in decisions if isinstance(item, Evicted | Placed)]
    (found,) = (item for item in decisions if isinstance(item, Rejected))
    assert "node(s) had no available disk" in found.message


def test_an_ephemeral_volume_takes_no_claim_that_its_pod_does_not_own() -> None:
    teams = Teams()
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    teams.add(make_claim("a/p-data").storage_class("fast"), make_claim("b/p-data").storage_class("fast"))
    teams.put(make_pod("a/p").uid("a/p").requests(cpu=1).spec(volumes=[volume]))
    assert (
        "PVC a/p-data was not created for pod a/p (pod is not owner)" in rejected(teams.step())["p"].message
    )
