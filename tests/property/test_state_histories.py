"""Random histories of a cluster: every invariant after every step, equal to a state built from scratch.

Trials on the way must leave nothing behind.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.events import put_object, remove_object
from scheduler_core.model.names import CHARGED_ANNOTATION
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, Charge, ReservationLedger
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.first_pods import place_first_pods
from scheduler_core.state.placed.grid import EMPTY
from scheduler_core.state.trial import Trial
from scheduler_core.state.unplaced import IGNORED_SECONDS
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.searches import cases

NODES = ("n0", "n1", "n2")
NAMESPACES = ("a", "b", "c")
OURS = "ours"
STEPS = 120


class History:
    """Objects as the API would have them, and the state that was told of every change."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.state = started()
        self.nodes: dict[str, Any] = {}
        self.quotas: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        self.serial = 0
        self.ledgers: dict[str, ReservationLedger] = {}
        self.now = 0.0

    def pod(self, key: str) -> PodBuilder:
        rng = self.rng
        pod = make_pod(key).uid(key).requests(cpu=rng.randint(0, 3), memory=rng.randint(0, 3))
        if rng.random() < 0.2:
            pod.requests(gpu=rng.randint(1, 2))
        return pod.priority(rng.randint(0, 2))

    def step(self) -> None:
        action = self.rng.choice(
            [self.add_pod, self.add_pod, self.assume, self.confirm, self.forget, self.resize, self.end,
             self.delete, self.put_node, self.drop_node, self.put_quota, self.drop_quota, self.terminate,
             self.nominate, self.charge_at_creation, self.admit, self.drop_ledger, self.wait]
        )  # fmt: skip
        action()

    def add_pod(self) -> None:
        self.serial += 1
        pod = self.pod(f"{self.rng.choice(NAMESPACES)}/p{self.serial}")
        if self.rng.random() < 0.5:
            pod.on(self.rng.choice([*NODES, "unknown"]))
        self.put(pod)

    def put(self, pod: PodBuilder) -> None:
        parsed = pod.obj()
        self.pods[parsed.uid] = pod
        self.state.put_pod(parsed)

    def charge_at_creation(self) -> None:
        """Another scheduler's pod that admission has charged; or one that loses the mark again."""
        pod = self.some(assigned=False)
        if pod is not None and self.rng.random() < 0.3:
            self.put(pod.annotation(CHARGED_ANNOTATION, "false"))
            return
        self.serial += 1
        fresh = self.pod(f"{self.rng.choice(NAMESPACES)}/p{self.serial}")
        if self.rng.random() < 0.2:
            fresh.raw["spec"]["schedulerName"] = OURS
        self.put(fresh.annotation(CHARGED_ANNOTATION, "true"))

    def admit(self) -> None:
        """Charges of pods that may come, that are there, and that are to be resized."""
        namespace = self.rng.choice(NAMESPACES)
        there = [uid for uid in self.pods if uid.startswith(f"{namespace}/")]
        coming = [f"{namespace}/p{self.serial + more}" for more in (1, 2, 3)]
        # Whoever forges a review may name any uid: of a pod elsewhere, too, that may not have been seen yet.
        other = self.rng.choice(NAMESPACES)
        forged = [*self.rng.sample(list(self.pods), min(1, len(self.pods))), f"{other}/p{self.serial + 1}"]
        uids = {self.rng.choice([*there, *coming, *forged]) for _ in range(self.rng.randint(0, 3))}
        charges = [Charge(uid, uid, "", {"cpu": 1000 * self.rng.randint(0, 4), "pods": 1}) for uid in uids]
        self.ledgers[namespace] = made = ReservationLedger(
            namespace, charges=tuple(charges), name=ELASTIC_NAME
        )
        put_object(self.state, made, self.now)

    def drop_ledger(self) -> None:
        if self.ledgers:
            _, gone = self.ledgers.popitem()
            remove_object(self.state, gone, self.now)

    def wait(self) -> None:
        """Some promises are overdue; after a while the namespaces are believed again."""
        self.now += self.rng.choice((0.5, 1.5, IGNORED_SECONDS))
        self.state.unplaced.lapse(self.now)

    def some(self, *, assigned: bool) -> PodBuilder | None:
        found = [pod for pod in self.pods.values() if bool(pod.raw["spec"].get("nodeName")) is assigned]
        return self.rng.choice(found) if found else None

    def assume(self) -> None:
        pod = self.some(assigned=False)
        taken = {*self.state.placed, *unplaced(self.state)}
        if pod is not None and self.nodes and pod.obj().uid not in taken:
            slot = self.state.nodes.slot(self.rng.choice(list(self.nodes)))
            assert slot is not None
            self.state.assume(self.state.pods[pod.obj().uid], slot, 5.0)

    def nominate(self) -> None:
        pod = self.some(assigned=False)
        if pod is not None and pod.obj().uid not in self.state.placed:
            known = self.state.pods[pod.obj().uid]
            self.state.nominations.put(known, self.rng.choice(NODES), self.state.vector(known))

    def assumed(self) -> str:
        found = [uid for uid, item in self.state.placed.items() if item.assumed]
        return self.rng.choice(found) if found else ""

    def confirm(self) -> None:
        uid = self.assumed()
        if uid:
            node = self.state.nodes.names[self.state.placed[uid].slot]
            self.put(self.pods[uid].on(node if self.rng.random() < 0.8 else self.rng.choice(NODES)))

    def forget(self) -> None:
        self.state.forget(self.assumed())

    def resize(self) -> None:
        pod = self.some(assigned=True)
        if pod is not None:
            self.put(pod.requests(cpu=self.rng.randint(0, 4)))

    def terminate(self) -> None:
        pod = self.some(assigned=True)
        if pod is not None:
            self.put(pod.deleting(50.0))

    def end(self) -> None:
        pod = self.some(assigned=True)
        if pod is not None:
            self.put(pod.status(phase=self.rng.choice(["Succeeded", "Failed"])))

    def delete(self) -> None:
        if self.pods:
            uid = self.rng.choice(list(self.pods))
            del self.pods[uid]
            self.state.remove_pod(uid)

    def put_node(self) -> None:
        name = self.rng.choice(NODES)
        self.nodes[name] = make_node(name).allocatable(cpu=self.rng.randint(1, 8), memory=9)
        self.state.put_node(self.nodes[name].obj())

    def drop_node(self) -> None:
        name = self.rng.choice(NODES)
        if self.nodes.pop(name, None) is not None:
            self.state.remove_node(name)

    def put_quota(self) -> None:
        key = f"{self.rng.choice(NAMESPACES)}/{self.rng.choice('xy')}"
        quota = (
            make_quota(key)
            .min(cpu=self.rng.randint(0, 4))
            .max(cpu=self.rng.choice((2, 4, 9)))
            .created(self.rng.randint(1, 5))
        )
        self.quotas[key] = quota
        self.state.put_quota(quota.obj())

    def drop_quota(self) -> None:
        if self.quotas:
            quota = self.quotas.pop(self.rng.choice(list(self.quotas)))
            self.state.remove_quota(quota.obj())

    def believed(self, namespace: str, uid: str) -> bool:
        promise = self.state.unplaced.pending_charges.find(namespace, uid)
        return promise is not None and (uid in self.pods or not promise.met)

    def rebuilt(self, *, together: bool) -> ClusterState:
        """The same cluster, told of everything at once; assumptions are made again.

        `together`: the state learns all pods in one call."""
        fresh = started()
        for quota in self.quotas.values():
            fresh.put_quota(quota.obj())
        for node in self.nodes.values():
            fresh.put_node(node.obj())
        pods = [pod.obj() for pod in self.pods.values()]
        for pod in place_first_pods(fresh, pods, self.now) if together else pods:
            fresh.put_pod(pod)
        for ledger in self.ledgers.values():
            # A new process cannot know of a pod that it was there and is gone, nor what was believed.
            known = tuple(charge for charge in ledger.charges if self.believed(ledger.namespace, charge.uid))
            put_object(fresh, msgspec.structs.replace(ledger, charges=known), self.now)
        for uid, item in self.state.placed.items():
            if item.assumed:
                slot = fresh.nodes.slot(self.state.nodes.names[item.slot])
                if slot is None:
                    slot = fresh.nodes.place(item.pod, self.state.nodes.names[item.slot], item.vector)
                    fresh.nodes.unplace(item.pod, slot, item.vector)
                    continue
                fresh.assume(fresh.pods[uid], slot, 5.0)
        return fresh


def started() -> ClusterState:
    """An empty state that knows its own scheduler."""
    state = ClusterState()
    state.unplaced.own = frozenset({OURS})
    return state


def facts(state: ClusterState) -> dict[str, Any]:
    """What a state says, independent of slots, rows and the order of things."""
    index, nodes, table = state.index, state.nodes, state.table
    named = {
        name: {
            "requested": {r: int(nodes.requested[row, slot]) for row, r in enumerate(index.names)
                          if nodes.requested[row, slot]},
            "allocatable": {r: int(nodes.allocatable[row, slot]) for row, r in enumerate(index.names)
                            if nodes.allocatable[row, slot]},
            "nonzero": nodes.nonzero[:, slot].tolist(),
            "alive": bool(nodes.alive[slot]),
            "pods": set(nodes.pods[slot]),
        }
        for slot, name in enumerate(nodes.names)
        if nodes.slot(name) == slot and (nodes.nodes[slot] is not None or nodes.pods[slot])
    }  # fmt: skip
    rows = {
        uid: (
            nodes.names[item.slot],
            int(table.priority[item.row]),
            bool(table.leaving[item.row]),
            {r: int(table.requests[i, item.row]) for i, r in enumerate(index.names[: len(table.requests)])
             if table.requests[i, item.row]},
        )
        for uid, item in state.placed.items()
    }  # fmt: skip
    ledger = state.ledger
    return {
        "nodes": named,
        "rows": rows,
        "used": {name: nonzero(ledger.used(name)) for name in NAMESPACES},
        "charges": {name: set(ledger.charges(name)) for name in NAMESPACES},
        "quotas": sorted(quota.key for quota in ledger.quotas()),
        "unplaced": set(ledger.unplaced_pods()),
        "sums": [
            nonzero(ledger.in_use(after_leaving=leaving, guaranteed=guaranteed))
            for leaving in (False, True)
            for guaranteed in (False, True)
        ],
        "total_min": ledger.total_min,
    }


def unplaced(state: ClusterState) -> set[str]:
    """Pods (uids) that count without a node."""
    return {uid for _, uid in state.ledger.unplaced_pods()}


def nonzero(amounts: Any) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if value}


@every_seed(range(cases(60)), each=20)
def test_a_history_ends_as_if_told_at_once(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.step()
        assert history.state.check() == []
    lost = [uid for uid, item in history.state.placed.items() if item.assumed and not_known(history, item)]
    for uid in lost:
        history.state.forget(uid)
    for together in (False, True):
        rebuilt = history.rebuilt(together=together)
        assert rebuilt.check() == []
        assert facts(history.state) == facts(rebuilt)


def not_known(history: History, item: Any) -> bool:
    """An assumed pod on a node that is gone meanwhile."""
    return history.state.nodes.names[item.slot] not in history.nodes


@every_seed(range(cases(60)), each=20)
def test_a_trial_leaves_nothing_behind(seed: int) -> None:
    history = History(1000 + seed)
    for _ in range(40):
        history.step()
    state, rng = history.state, history.rng
    for pod in state.pods.values():
        # Resources that are seen for the first time give every array a row.
        state.vector(pod)
    state.table.cover(len(state.index))
    assert state.check() == []
    before, bits = facts(state), arrays(state)
    with Trial(state, 9.0) as trial:
        for _ in range(30):
            play(trial, rng)
            assert state.check() == []
        middle = trial.checkpoint()
        there = facts(state)
        play(trial, rng)
        trial.rollback(middle)
        assert facts(state) == there
    assert state.check() == []
    assert facts(state) == before
    after = arrays(state)
    assert set(after) == set(bits)
    assert [path for path, array in bits.items() if array != after[path]] == []


def arrays(state: ClusterState) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Shape and bytes of every array that the state holds, found wherever it is, by its path.

    Rows that belong to no pod are left out, of the pod table and where the grid of nodes has room for more:
    nobody reads them.
    """
    found: dict[str, NDArray] = {}
    collect(state, "state", found, set())
    dead = ~state.table.alive
    for path, array in found.items():
        if path == "state.table.grid.cells":
            found[path] = array[(array != EMPTY).any(axis=1)]
        elif path.startswith("state.table.") and array.shape[-1] == len(dead):
            array[..., dead] = 0
    return {path: (array.shape, array.tobytes()) for path, array in found.items()}


def collect(value: Any, path: str, found: dict[str, NDArray], seen: set[int]) -> None:
    """Copies of all arrays that can be reached from a value through our own objects and containers."""
    if isinstance(value, np.ndarray):
        found[path] = value.copy()
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parts = [(f"{path}[{key}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    elif type(value).__module__.startswith("scheduler_core"):
        slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
        names = [name for name in (*getattr(value, "__dict__", ()), *slots) if hasattr(value, name)]
        parts = [(f"{path}.{name}", getattr(value, name)) for name in names]
    else:
        parts = []
    for name, item in parts:
        collect(item, name, found, seen)


def play(trial: Trial, rng: random.Random) -> None:
    """Lift a placed pod, or place a waiting one."""
    state = trial.state
    others = {*state.placed, *unplaced(state)}
    waiting = [pod for uid, pod in state.pods.items() if uid not in others]
    alive = [slot for slot in range(state.nodes.size) if state.nodes.alive[slot]]
    if waiting and alive and rng.random() < 0.5:
        trial.place(rng.choice(waiting), rng.choice(alive))
    elif state.placed:
        trial.remove_placed(rng.choice(sorted(state.placed)))
