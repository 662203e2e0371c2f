"""Claims and volumes on all nodes at once, beside a plain search node by node."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from scheduler_core.framework.view import NodeView
from scheduler_core.framework.volumes.matching import match_claims
from scheduler_core.model.node import Node
from scheduler_core.model.selectors import NodeTerm
from scheduler_core.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from tests.support.builders import make_node
from tests.support.every import every_seed
from tests.support.storage_builders import VolumeBuilder, label_term, make_claim, make_volume

TERMS: tuple[list[dict[str, Any]], ...] = (
    [],
    [label_term("zone", "1")],
    [label_term("zone", "2")],
    [label_term("zone", "9")],
    [label_term("disk", "ssd")],
    [label_term("zone", "1", "2")],
    [label_term("zone", "1"), label_term("disk", "ssd")],
    [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}],
)
NODES = [
    ("a", {"zone": "1"}),
    ("b", {"zone": "2", "disk": "ssd"}),
    ("c", {"disk": "hdd"}),
    ("d", {"zone": "1"}),
]


def volume(dice: random.Random, name: str) -> VolumeBuilder:
    made = make_volume(name).storage_class(dice.choice(["late", "late", "late", "other"]))
    made.capacity(f"{dice.choice([1, 2, 2, 3, 5])}Gi")
    made.modes(*dice.choice([["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadOnlyMany"]]))
    terms = dice.choice(TERMS)
    if terms:
        made.terms(*terms)
    if dice.random() < 0.2:
        made.spec(volumeMode="Block")
    if dice.random() < 0.3:
        made.claimed(f"a/claim-{dice.randrange(3)}", dice.choice(["", "another"]))
    if dice.random() < 0.1:
        made.deleting(1.0)
    return made


def allows(terms: tuple[NodeTerm, ...] | None, node: Node) -> bool:
    if terms is None:
        return True
    return any(
        not term.empty and all(part.matches(node.labels) for part in term.expressions) for term in terms
    )


def may_serve(one: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that nobody has could be the claim's."""
    return (
        not one.claim
        and not one.deleting
        and one.storage_class == claim.storage_class
        and one.volume_mode == claim.volume_mode
        and one.capacity >= claim.request
        and claim.modes <= one.modes
    )


def plainly(
    volumes: list[PersistentVolume], claims: list[PersistentVolumeClaim], node: Node
) -> list[str | None]:
    """The volume of each claim on one node: smaller claims choose first, and the smallest volume."""
    found: list[str | None] = [None] * len(claims)
    for number in sorted(range(len(claims)), key=lambda n: claims[n].request):
        claim = claims[number]
        own = [one for one in volumes if one.claim == claim.key and one.claim_uid in ("", claim.uid)]
        own = [one for one in own if one.capacity >= claim.request and one.volume_mode == claim.volume_mode]
        own = [one for one in own if not one.deleting]
        free = [one for one in volumes if may_serve(one, claim) and one.name not in found]
        # One that is set aside for the claim is the only choice.
        choice = own[:1] or sorted(free, key=lambda one: one.capacity)
        found[number] = next((one.name for one in choice if allows(one.terms, node)), None)
    return found


@every_seed(range(60))
def test_claims_get_the_volumes_that_a_plain_search_finds(seed: int) -> None:
    dice = random.Random(seed)
    state = ClusterState()
    nodes = [make_node(name).labels(**labels).allocatable(cpu=1).obj() for name, labels in NODES]
    for node in nodes:
        state.put_node(node)
    volumes = [volume(dice, f"v{number:02}").obj() for number in range(dice.randint(0, 20))]
    for one in volumes:
        state.put_object(one, EventKind.VOLUME)
    claims = [
        make_claim(f"a/claim-{number}").storage_class("late").asks(f"{dice.choice([1, 2, 3])}Gi").obj()
        for number in range(dice.randint(1, 4))
    ]
    rows = match_claims(state.storage, NodeView.all(state.nodes), claims)
    table = state.storage.table.volumes
    for slot, node in enumerate(nodes):
        names = [getattr(table[row], "name", None) if row >= 0 else None for row in rows[:, slot].tolist()]
        assert names == plainly(volumes, claims, node), node.name
    some = NodeView(state.nodes, np.array([3, 1], dtype=np.int64))
    assert match_claims(state.storage, some, claims).tolist() == rows[:, [3, 1]].tolist()
