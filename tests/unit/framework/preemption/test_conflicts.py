"""Which nodes victims on other nodes could open, and who that would be: each pod looked at by itself."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

from scheduler_core.framework.preemption import conflicts
from scheduler_core.framework.preemption.conflicts import Conflicts
from scheduler_core.model.names import LABEL_HOSTNAME, LABEL_ZONE
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.every import every_seed

KEYS: Final = {"zone": LABEL_ZONE, "host": LABEL_HOSTNAME}


@dataclass(frozen=True)
class Term:
    """What a pod avoids: pods of an app in some namespaces (None: in all), as near as a topology key says."""

    key: str
    app: str
    namespaces: tuple[str, ...] | None

    def wire(self) -> dict[str, Any]:
        term: dict[str, Any] = {
            "topologyKey": KEYS[self.key],
            "labelSelector": {"matchLabels": {"app": self.app}},
        }
        if self.namespaces is None:
            term["namespaceSelector"] = {}
        else:
            term["namespaces"] = list(self.namespaces)
        return term

    def term_selects(self, pod: Runs) -> bool:
        return pod.app == self.app and (self.namespaces is None or pod.namespace in self.namespaces)


@dataclass(frozen=True)
class Runs:
    """A pod, which avoids others or not; `key` is that of a spread constraint over pods of its own app."""

    name: str
    namespace: str
    app: str
    node: str = ""
    going: bool = False
    eligible: bool = False
    avoids: tuple[Term, ...] = ()
    key: str = ""
    priority: int = 0

    def built(self) -> PodBuilder:
        made = make_pod(f"{self.namespace}/{self.name}").uid(self.name).labels(app=self.app)
        made.priority(self.priority).started(1.0)
        if self.avoids:
            terms = [term.wire() for term in self.avoids]
            made.spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
        if self.key:
            constraint = {
                "maxSkew": 1,
                "topologyKey": KEYS[self.key],
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": self.app}},
            }
            made.spec(topologySpreadConstraints=[constraint])
        if self.node:
            made.on(self.node)
        return made.deleting(1.0) if self.going else made


@dataclass(frozen=True)
class Given:
    """Zones of nodes (empty: without the label), who runs, and who asks."""

    zones: dict[str, str]
    running: tuple[Runs, ...]
    asking: Runs

    def state(self) -> ClusterState:
        state = ClusterState()
        for name, zone in self.zones.items():
            node = make_node(name).allocatable(cpu=1)
            state.put_node((node.label(LABEL_ZONE, zone) if zone else node).obj())
        for pod in self.running:
            state.put_pod(pod.built().obj())
        return state

    def domain(self, key: str, node: str) -> str:
        return node if key == "host" else self.zones[node]

    def reasons(self) -> list[tuple[str, list[Runs], bool]]:
        """(topology key, pods that count, whether all of them must go) of each that keeps the pod off."""
        found = [
            (term.key, [pod for pod in self.running if term.term_selects(pod)], True)
            for term in self.asking.avoids
        ]
        for term in {term for pod in self.running for term in pod.avoids}:
            if term.term_selects(self.asking):
                found.append((term.key, [pod for pod in self.running if term in pod.avoids], True))
        if self.asking.key:
            same = (self.asking.namespace, self.asking.app)
            counted = [pod for pod in self.running if (pod.namespace, pod.app) == same and not pod.going]
            found.append((self.asking.key, counted, False))
        return found

    def price(self, node: str) -> int:
        """How many pods in the domains of a node may go, each once for every reason; 0 if that is no help."""
        total = 0
        for key, pods, all_go in self.reasons():
            here = [
                pod
                for pod in pods
                if self.domain(key, node) and self.domain(key, pod.node) == self.domain(key, node)
            ]
            may_go = [pod for pod in here if pod.eligible or pod.going]
            if all_go and len(may_go) < len(here):
                return 0
            total += len(may_go)
        return total

    def near(self, node: str) -> set[Runs]:
        return {
            pod
            for key, pods, _ in self.reasons()
            for pod in pods
            if self.domain(key, node) and self.domain(key, pod.node) == self.domain(key, node)
        }

    def kind(self, node: str) -> tuple[str, ...]:
        return tuple(self.domain(key, node) for key, _, _ in self.reasons())


def drawn(rng: random.Random) -> Given:
    zones = {f"n{i}": rng.choice(("z1", "z1", "z2", "")) for i in range(rng.randint(2, 6))}

    def term(own: str) -> Term:
        return Term(
            rng.choice(("zone", "zone", "host")), rng.choice("xy"), rng.choice((None, (own,), ("a", "b")))
        )

    running = []
    for i in range(rng.randint(1, 8)):
        namespace = rng.choice("ab")
        going = rng.random() < 0.25
        avoids = (term(namespace),) if rng.random() < 0.3 else ()
        running.append(
            Runs(
                f"v{i}",
                namespace,
                rng.choice("xy"),
                rng.choice(list(zones)),
                going,
                not going and rng.random() < 0.8,
                avoids,
                priority=rng.choice((0, 1)),
            )
        )
    avoids = tuple(term("a") for _ in range(rng.choice((0, 1, 1, 2))))
    asking = Runs("p", "a", rng.choice("xy"), avoids=avoids, key=rng.choice(("", "zone", "host")))
    return Given(zones, tuple(running), asking)


def asked(given: Given, state: ClusterState) -> tuple[Conflicts, dict[int, Runs]]:
    by_row = {state.placed[pod.name].row: pod for pod in given.running}
    eligible = np.array([by_row[row].eligible for row in range(state.table.size)], dtype=np.bool_)
    return Conflicts(state, given.asking.built().obj(), eligible), by_row


@every_seed(range(400))
def test_nodes_come_in_the_order_of_how_many_must_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    given = drawn(rng)
    per_domain, most = rng.choice(((1, 16), (2, 3), (4, 16)))
    monkeypatch.setattr(conflicts, "PER_DOMAIN", per_domain)
    monkeypatch.setattr(conflicts, "MOST_NODES", most)
    state = given.state()
    found, by_row = asked(given, state)
    names = state.nodes.names
    refused = {name for name in given.zones if rng.random() < 0.8}
    lacks = {name for name in given.zones if rng.random() < 0.4}

    def mask(chosen: set[str], names: list[str] = names) -> np.ndarray:
        return np.array([name in chosen for name in names], dtype=np.bool_)

    open_ = sorted(
        (name for name in refused if given.price(name)),
        key=lambda name: (given.price(name), name in lacks, name),
    )
    expected: list[str] = []
    for name in open_:
        same = [other for other in expected if given.kind(other) == given.kind(name)]
        if len(same) < per_domain and len(expected) < most:
            expected.append(name)
    told = f"seed {seed}: {given}, {refused}, {lacks}"
    assert [names[slot] for slot in found.nodes(mask(refused), mask(lacks))] == expected, told
    for slot, name in enumerate(names):
        near = given.near(name)
        assert set(found.leaving(slot)) == {pod.name for pod in near if pod.going}, told
        order = state.table.removal_order(np.ones(state.table.size, dtype=np.bool_)).tolist()
        for whole in (False, True):
            wanted = {pod for pod in near if pod.eligible}
            if whole:
                wanted |= {pod for pod in given.running if pod.eligible and pod.node == name}
            rows = found.rows(slot, whole_node=whole).tolist()
            assert [by_row[row] for row in rows] == [by_row[r] for r in order if by_row[r] in wanted], told


def test_affinity_of_others_to_the_pod_does_not_keep_it_off() -> None:
    given = Given({"n0": "z1"}, (), Runs("p", "a", "x"))
    state = given.state()
    term = Term("zone", "x", ("a",)).wire()
    near = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    rather = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    for number, kind in enumerate((near, rather)):
        pod = make_pod(f"a/v{number}").uid(f"v{number}").on("n0").spec(affinity={"podAffinity": kind})
        state.put_pod(pod.obj())
    found = Conflicts(state, given.asking.built().obj(), np.ones(2, dtype=np.bool_))
    every = np.ones(1, dtype=np.bool_)
    assert list(found.nodes(every, ~every)) == []
    assert found.rows(0, whole_node=False).tolist() == []


def test_of_a_crowded_domain_the_least_important_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    term = Term("zone", "x", ("a",))
    running = tuple(Runs(f"v{i}", "a", "x", "n0", eligible=True, priority=i) for i in range(4))
    given = Given({"n0": "z1"}, running, Runs("p", "a", "y", avoids=(term,)))
    monkeypatch.setattr(conflicts, "MOST_PODS", 3)
    found, by_row = asked(given, given.state())
    assert [by_row[row].name for row in found.rows(0, whole_node=False).tolist()] == ["v0", "v1", "v2"]


def test_pods_that_came_after_the_candidates_were_chosen_are_nobodys_victims() -> None:
    term = Term("zone", "x", ("a",))
    given = Given(
        {"n0": "z1"}, (Runs("v0", "a", "x", "n0", eligible=True),), Runs("p", "a", "y", avoids=(term,))
    )
    state = given.state()
    found, _ = asked(given, state)
    state.put_pod(Runs("v1", "a", "x", "n0").built().obj())
    every = np.ones(1, dtype=np.bool_)
    assert list(found.nodes(every, ~every)) == [], "one of them would stay"


def test_a_pod_of_a_workload_is_spread_over_zones_by_default() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    given = Given({"n0": "z1", "n1": "z2"}, (Runs("v0", "a", "x", "n0", eligible=True),), Runs("p", "a", "x"))
    state = given.state()
    asking = given.asking.built()
    assert list(asked(given, state)[0].nodes(np.ones(2, dtype=np.bool_), np.zeros(2, dtype=np.bool_))) == []
    asking.meta["ownerReferences"] = [owner]
    found = Conflicts(state, asking.obj(), np.ones(1, dtype=np.bool_))
    assert list(found.nodes(np.ones(2, dtype=np.bool_), np.zeros(2, dtype=np.bool_))) == [0]
