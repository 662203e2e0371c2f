"""However it came about, a state answers as one that is told of nothing but the objects there are now.

Random histories of every kind of object; every kind of question is asked on the way, so that what is kept for
the next answer is kept, and all answers are compared with those of a fresh state. Answers name nodes and
pods: slots and rows may differ.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from scheduler_core.load.spec import Estimation, LoadSpec, Thresholds
from scheduler_core.model.names import CHECKPOINTED_AT_ANNOTATION
from scheduler_core.model.selectors import IN, Requirement, Selector
from scheduler_core.model.timestamps import format_time
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from scheduler_core.state.first_pods import place_first_pods
from scheduler_core.state.gangs.gangs import take_census
from scheduler_core.state.neighbours.domains import EACH_NODE
from scheduler_core.state.neighbours.selections import Selection
from scheduler_core.state.placed.grid import EMPTY
from scheduler_core.state.trial import Trial
from tests.support.builders import (
    Builder,
    NodeBuilder,
    PodBuilder,
    make_group,
    make_node,
    make_pod,
    make_quota,
)
from tests.support.every import every_seed
from tests.support.load_builders import NOW, condition, make_metric
from tests.support.searches import cases
from tests.support.storage_builders import (
    PoolBuilder,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_pool,
    make_volume,
)

NODES = tuple(f"n{i}" for i in range(5))
AMOUNTS, TIMES = ("room", "prod_room", "load", "prod_load", "usage"), ("updated", "expires", "scored_until")
SPACES, APPS, ZONE = ("a", "b"), ("web", "db"), "zone"
SPEC = LoadSpec(("cpu", "memory"), Estimation((85, 70), 100, 0, True), Thresholds((60, 80), (50, 0)))
SELECTED = [
    Selection(spaces, Selector((Requirement("app", IN, (app,)),)), live=live)
    for spaces in (None, frozenset("a"))
    for app in APPS
    for live in (True, False)
]
ASKING = [
    make_pod(f"{space}/asks")
    .labels(app=app)
    .spec(
        containers=[{"name": "m", "image": "i", "ports": [{"hostPort": port, "containerPort": 1, **address}]}]
    )
    .obj()
    for space, app, port, address in (
        ("a", "web", 80, {}),
        ("b", "db", 80, {"hostIP": "10.0.0.1"}),
        ("a", "db", 81, {"protocol": "UDP"}),
    )
]
CLAIMS = [make_claim(f"{space}/c{i}").obj() for space in SPACES for i in range(2)]


def answers(state: ClusterState) -> dict[str, Any]:
    """Everything that may be asked of a state, by the names of nodes and pods."""
    nodes = state.nodes
    there = {name: slot for name in NODES if (slot := nodes.slot(name)) is not None and nodes.nodes[slot]}
    placed = {uid: nodes.names[item.slot] for uid, item in state.placed.items()}
    state.table.share_out()
    return {
        "nodes": {name: _node(state, slot) for name, slot in there.items()},
        "cluster": (nodes.count, nodes.allocatable_total(), [nodes.ordinary(row) for row in (0, 1, 3)]),
        "names": sorted(there, key=lambda name: nodes.name_ranks()[there[name]]),
        "placed": placed,
        "quotas": {
            space: (_some(state.ledger.used(space)), _some(state.ledger.leaving(space))) for space in SPACES
        },
        "pods": {uid: _row(state, item.row) for uid, item in state.placed.items()},
        "removal": [pod.uid for pod in state.table.of(state.table.removal_order(_alive(state)))],
        "nominated": {item.pod.uid: item.node for item in state.nominations.waiting(lambda *_: True)},
        "nominated sums": {key: _some(sums) for key, sums in state.nominations.sums.items()},
        "groups": {key: take_census(state, key) for key in ("a/g PodGroup", "b/g PodGroup")},
        "storage": _storage(state),
        "near": _near(state),
        "claims in use": {claim.key: len(state.storage.used.slots(claim.key)) for claim in CLAIMS},
    }


def _some(amounts: Any) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if value}


def _alive(state: ClusterState) -> Any:
    return state.table.alive[: state.table.size]


def _node(state: ClusterState, slot: int) -> dict[str, Any]:
    nodes, names = state.nodes, state.index.names

    def amounts(array: Any) -> dict[str, int]:
        return {name: int(array[row, slot]) for row, name in enumerate(names) if array[row, slot]}

    load = state.load.columns(SPEC)
    column = state.table.grid.rows(state.table, nodes.size)[:, slot]
    attached = state.storage.attachments
    found = [dict(zip(*(side.tolist() for side in state.images.find(app)), strict=True)) for app in APPS]
    grid = [state.table.pods[row] for row in column.tolist() if row != EMPTY]
    return {
        "allocatable": amounts(nodes.allocatable),
        "requested": amounts(nodes.requested),
        "divisor": [nodes.divisor[row, slot] for row in range(4)],
        "nonzero": nodes.nonzero[:, slot].tolist(),
        "flags": (bool(nodes.alive[slot]), bool(nodes.unschedulable[slot])),
        "taints": nodes.taint_sets.values[nodes.taint_set[slot]],
        "pods": sorted(nodes.pods[slot]),
        "grid": [pod.uid for pod in grid if pod is not None],
        "kept": _some(dict(zip(names, state.nominations.room([])[:, slot].tolist(), strict=True))),
        "ports": [bool(state.ports.taken(pod.host_ports, nodes.size)[slot]) for pod in ASKING],
        "volumes": (int(attached.attached("csi")[slot]), int(attached.limit("csi")[slot])),
        "images": [images.get(slot) for images in found],
        "load": [getattr(load, name)[..., slot].tolist() for name in AMOUNTS],
        "old": [float(np.nan_to_num(getattr(load, name)[slot], nan=-1)) for name in TIMES],
    }


def _row(state: ClusterState, row: int) -> tuple[Any, ...]:
    table = state.table
    space = table.namespaces.values[table.namespace[row]]
    asked = [int(value) for value in table.requests[:4, row]]
    return (
        int(table.priority[row]),
        float(table.start[row]),
        float(table.since[row]),
        float(table.lasts[row]),
        bool(table.leaving[row]),
        space,
        asked,
    )


def _storage(state: ClusterState) -> dict[str, Any]:
    storage, table = state.storage, state.storage.table
    names = {claim.key: [table.volumes[row] for row in table.candidates(claim)] for claim in CLAIMS}
    return {
        "candidates": {
            key: sorted(volume.name for volume in found if volume) for key, found in names.items()
        },
        "reserved": {claim.key: [volume.name for volume in storage.reserved_for(claim)] for claim in CLAIMS},
        "handles": {claim.key: storage.handle(claim.key) for claim in CLAIMS},
    }


def _near(state: ClusterState) -> dict[str, Any]:
    near, zones, each = state.neighbours, state.neighbours.domains(ZONE), state.neighbours.domains(EACH_NODE)
    values = state.nodes.column(ZONE).values.values
    alive = {
        name: slot
        for name in NODES
        if (slot := state.nodes.slot(name)) is not None and state.nodes.nodes[slot]
    }
    found: dict[str, Any] = {
        "zones": {name: int(zones.ids[slot]) >= 0 and values[zones.ids[slot]] for name, slot in alive.items()}
    }
    for number, selection in enumerate(SELECTED):
        sums = near.selected(selection, zones)
        by_zone = {value: int(sums[i]) for i, value in enumerate(values) if sums[i]}
        by_node = {name: int(near.selected(selection, each)[slot]) for name, slot in alive.items()}
        found[f"selection {number}"] = by_zone, by_node
    for pod in ASKING:
        groups = near.terms_about(pod)
        found[f"terms about {pod.key}"] = {
            group.term: _some({value: int(near.carried(group)[i]) for i, value in enumerate(values)})
            for group in groups
        }
    return found


class World:
    """Objects by kind and name as the API has them, and what the scheduler decided on top."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.objects: dict[tuple[str, str], Builder] = {}
        self.assumed: dict[str, str] = {}
        self.evicted: set[str] = set()
        self.serial = 0
        self.state = ClusterState()

    # Objects

    def node(self, name: str) -> NodeBuilder:
        rng = self.rng
        node = make_node(name).allocatable(cpu=rng.randint(4, 9), memory=rng.randint(0, 9))
        if rng.random() < 0.7:
            node.label(ZONE, rng.choice("xyz"))
        if rng.random() < 0.3:
            node.allocatable(cpu=4, memory=4, gpu=rng.randint(1, 4))
        if rng.random() < 0.3:
            node.taint("t", effect=rng.choice(["NoSchedule", "NoExecute"]))
        if rng.random() < 0.2:
            node.unschedulable()
        if rng.random() < 0.1:
            node.raw.pop("status")
        images = [{"names": [app], "sizeBytes": rng.randint(1, 3)} for app in APPS if rng.random() < 0.5]
        node.part("status")["images"] = images
        return node

    def pod(self) -> PodBuilder:
        rng = self.rng
        self.serial += 1
        pod = (
            make_pod(f"{rng.choice(SPACES)}/p{self.serial}")
            .uid(f"p{self.serial}")
            .labels(app=rng.choice(APPS))
        )
        ports = [
            {"containerPort": 1, "hostPort": rng.choice((80, 81)), "protocol": rng.choice(("TCP", "UDP"))}
        ]
        if rng.random() < 0.5:
            ports[0]["hostIP"] = "10.0.0.1"
        asked = {"cpu": rng.randint(0, 2), "memory": rng.randint(0, 2)} | (
            {"nvidia.com/gpu": 1} if rng.random() < 0.2 else {}
        )
        container = {
            "name": "m",
            "image": "i",
            "resources": {"requests": {k: str(v) for k, v in asked.items()}},
        }
        pod.containers(container | ({"ports": ports} if rng.random() < 0.4 else {})).priority(
            rng.randint(0, 2)
        )
        pod.started(self.serial * 37 % 101).status(
            conditions=[condition("PodScheduled", NOW - rng.randint(1, 300))]
        )
        if rng.random() < 0.2:
            pod.annotation(CHECKPOINTED_AT_ANNOTATION, format_time(rng.randint(0, 200)))
        if rng.random() < 0.3:
            pod.group("g")
        if rng.random() < 0.3:
            pod.spec(activeDeadlineSeconds=rng.randint(1, 9))
        if rng.random() < 0.4:
            volume: dict[str, Any] = {"persistentVolumeClaim": {"claimName": rng.choice(("c0", "c1"))}}
            pod.spec(volumes=[{"name": "v", **volume}])
        if rng.random() < 0.4:
            term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}}}
            kind = rng.choice(["podAffinity", "podAntiAffinity"])
            pod.spec(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
        return pod

    def volume(self) -> Builder:
        rng, number = self.rng, self.rng.randint(0, 3)
        volume = make_volume(f"v{number}").capacity(f"{rng.randint(3, 9)}Gi")
        if rng.random() < 0.7:
            volume.csi(rng.choice(("csi", "other")), f"h{rng.randint(0, 3)}")
        if rng.random() < 0.3:
            volume.on(ZONE, "x")
        if rng.random() < 0.3:
            volume.claimed(rng.choice(CLAIMS).key)
        return volume

    def claim(self) -> Builder:
        claim = make_claim(self.rng.choice(CLAIMS).key)
        if self.rng.random() < 0.5:
            claim.storage_class("fast")
        return claim.bound(f"v{self.rng.randint(0, 3)}") if self.rng.random() < 0.7 else claim

    def quota(self) -> Builder:
        return make_quota(f"{self.rng.choice(SPACES)}/q").min(cpu=self.rng.randint(1, 9))

    def pool(self) -> PoolBuilder:
        made = make_pool(f"x/{self.rng.choice('ab')}", "fast", f"{self.rng.randint(1, 20)}Gi")
        return made.on(**{"kubernetes.io/hostname": self.rng.choice(NODES)})

    def metric(self) -> Builder:
        rng = self.rng
        metric = make_metric(rng.choice(NODES)).usage(
            cpu=str(rng.randint(0, 9)), memory=str(rng.randint(0, 9))
        )
        pods = [builder.obj().key for (kind, _), builder in self.objects.items() if kind == "Pod"]  # type: ignore[attr-defined]
        for key in rng.sample(pods, min(len(pods), 3)):
            metric.pod(key, rng.choice(("koord-prod", "koord-batch")), cpu="1")
        return metric.updated(NOW + rng.randint(-200, 0))

    # Steps

    def step(self) -> None:
        rng, roll = self.rng, self.rng.random()
        if roll < 0.25:
            pod = self.pod()
            self.put("Pod", pod if rng.random() < 0.3 else pod.on(rng.choice(NODES)))
        elif roll < 0.45:
            self.change_a_pod()
        elif roll < 0.6:
            self.decide()
        elif roll < 0.72:
            self.put("Node", self.node(rng.choice(NODES)))
        elif roll < 0.92:
            kind, made = rng.choice(
                [
                    ("PersistentVolume", self.volume),
                    ("PersistentVolumeClaim", self.claim),
                    ("NodeMetric", self.metric),
                    ("StorageClass", lambda: make_class("fast").provisioner("csi")),
                    ("CSINode", lambda: make_csi_node(rng.choice(NODES)).driver("csi", rng.randint(1, 4))),
                    ("CSIDriver", lambda: make_csi_driver("csi").reports_capacity()),
                    ("CSIStorageCapacity", self.pool),
                    ("PodGroup", lambda: make_group(f"{rng.choice(SPACES)}/g").needs(2)),
                    ("ElasticQuota", lambda: self.quota()),
                ]
            )
            self.put(kind, made())
        elif self.objects:
            self.remove(rng.choice(sorted(self.objects)))

    def put(self, kind: str, builder: Builder) -> None:
        key = (
            builder.meta.get("uid")
            if kind == "Pod"
            else f"{builder.meta.get('namespace', '')}/{builder.meta['name']}"
        )
        self.objects[kind, str(key)] = builder
        if kind == "Pod" and (
            "nodeName" in builder.raw["spec"] or builder.raw["status"].get("phase") == "Failed"
        ):
            self.assumed.pop(str(key), None)
        tell(self.state, kind, builder, gone=False)

    def remove(self, which: tuple[str, str]) -> None:
        self.assumed.pop(which[1], None)
        self.evicted.discard(which[1])
        builder = self.objects.pop(which)
        for uid in [uid for uid, node in self.assumed.items() if which == ("Node", f"/{node}")]:
            del self.assumed[uid]
            self.state.forget(uid)
        tell(self.state, which[0], builder, gone=True)

    def change_a_pod(self) -> None:
        found = sorted(name for kind, name in self.objects if kind == "Pod")
        if not found:
            return
        pod: Any = self.objects["Pod", self.rng.choice(found)]
        bound = "nodeName" in pod.raw["spec"]
        match self.rng.randrange(6):
            case 5:
                pod.annotation(CHECKPOINTED_AT_ANNOTATION, format_time(self.rng.randint(0, 200)))
            case 0:
                pod.labels(app=self.rng.choice(APPS))
            case 1 if bound:
                pod.status(phase=self.rng.choice(("Succeeded", "Failed")))
            case 2 if bound:
                pod.deleting(50.0)
            case 3 if bound:
                pod.raw["spec"]["containers"][0]["resources"] = {
                    "requests": {"cpu": str(self.rng.randint(0, 3))}
                }
            case 4 if not bound and pod.meta["uid"] in self.assumed:
                pod.on(self.assumed[pod.meta["uid"]])
        self.put("Pod", pod)

    def decide(self) -> None:
        """What the scheduler does: assume, forget, mark as leaving, reprieve, nominate, try."""
        state, rng = self.state, self.rng
        waiting = sorted(
            uid
            for uid, pod in state.pods.items()
            if uid not in state.placed and not pod.assigned and not pod.finished
        )
        alive = [
            name for name in NODES if (slot := state.nodes.slot(name)) is not None and state.nodes.alive[slot]
        ]
        match rng.randrange(5):
            case 0 if waiting and alive:
                uid, node = rng.choice(waiting), rng.choice(alive)
                self.assume(state, uid, node)
                self.assumed[uid] = node
            case 1 if self.assumed:
                uid = rng.choice(sorted(self.assumed))
                del self.assumed[uid]
                state.forget(uid)
            case 2 if state.placed:
                uid = rng.choice(sorted(state.placed))
                self.evicted.add(uid)
                state.mark_leaving(uid)
            case 3 if self.evicted:
                uid = rng.choice(sorted(self.evicted))
                self.evicted.discard(uid)
                state.reprieve(uid)
            case 4:
                self.in_a_trial(waiting, alive)
        self.evicted &= set(state.placed)

    @staticmethod
    def assume(state: ClusterState, uid: str, node: str) -> None:
        slot = state.nodes.slot(node)
        assert slot is not None
        state.assume(state.pods[uid], slot, 5.0)

    def in_a_trial(self, waiting: list[str], alive: list[str]) -> None:
        rng, state = self.rng, self.state
        with Trial(state, 5.0) as trial:
            for uid in rng.sample(sorted(state.placed), min(3, len(state.placed))):
                trial.remove_placed(uid)
            for uid in waiting[:2] if alive else ():
                slot = state.nodes.slot(rng.choice(alive))
                assert slot is not None
                trial.place(state.pods[uid], slot)
            answers(state)

    def fresh(self, *, at_once: bool) -> ClusterState:
        """A state that is told of all objects, nodes first, and of what is decided still.

        `at_once`: it learns all pods together.
        """
        state = ClusterState()
        in_order = sorted(self.objects.items(), key=lambda item: (item[0][0] != "Node", item[0]))
        for (kind, _), builder in in_order:
            if kind != "Pod" or not at_once:
                tell(state, kind, builder, gone=False)
        if at_once:
            pods: list[Any] = [builder for (kind, _), builder in in_order if kind == "Pod"]
            for pod in place_first_pods(state, [builder.obj() for builder in pods], 5.0):
                state.put_pod(pod, 5.0)
        for uid, node in self.assumed.items():
            self.assume(state, uid, node)
        for uid in self.evicted:
            state.mark_leaving(uid)
        return state


FOLLOWED = {
    "PersistentVolume": EventKind.VOLUME,
    "PersistentVolumeClaim": EventKind.VOLUME,
    "StorageClass": EventKind.VOLUME,
    "CSINode": EventKind.VOLUME,
    "CSIDriver": EventKind.VOLUME,
    "CSIStorageCapacity": EventKind.VOLUME,
    "NodeMetric": EventKind.NODE_METRIC,
}


def tell(state: ClusterState, kind: str, builder: Any, *, gone: bool) -> None:
    """What the loop does with an object of a watch."""
    obj = builder.obj()
    match kind:
        case "Node":
            state.remove_node(obj.name) if gone else state.put_node(obj)
        case "Pod":
            state.remove_pod(obj.uid) if gone else state.put_pod(obj, 5.0)
        case "PodGroup":
            state.remove_gang(obj) if gone else state.put_gang(obj)
        case "ElasticQuota":
            state.remove_quota(obj) if gone else state.put_quota(obj)
        case _:
            (state.remove_object if gone else state.put_object)(obj, FOLLOWED[kind])


def differing(known: Any, fresh: Any) -> dict[str, Any]:
    """What is not the same in both, with the way to it."""
    if not isinstance(known, dict) or not isinstance(fresh, dict):
        return {} if known == fresh else {"": (known, fresh)}
    return {
        f"{key}/{rest}": both
        for key in {**known, **fresh}
        for rest, both in differing(known.get(key, "absent"), fresh.get(key, "absent")).items()
    }


@every_seed(range(cases(96)), each=4)
def test_answers_do_not_depend_on_the_history(seed: int) -> None:
    world = World(seed)
    for name in NODES[:3]:
        world.put("Node", world.node(name))
    for step in range(60):
        world.step()
        known = answers(world.state)
        assert world.state.check() == []
        if step % 6 == 5:
            for at_once in (False, True):
                fresh = world.fresh(at_once=at_once)
                assert fresh.check() == []
                assert differing(known, answers(fresh)) == {}
