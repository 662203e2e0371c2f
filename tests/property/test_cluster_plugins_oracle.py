"""Spread and affinity between pods against slow reference rules, over the life of random small clusters.

A cluster is born, then pods come, go, change and are tried and taken back; after every few steps a random
pod is judged by plugin and oracle. MUSTER_ORACLE_CLUSTERS sets how many clusters (a deep run: 20000).
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from scheduler_core.config.args.spread import DefaultSpreadConstraint as ConfiguredConstraint
from scheduler_core.config.args.spread import PodTopologySpreadArgs
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.spread import default_constraints
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.namespace import parse_namespace
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.plugins.inter_pod_affinity import InterPodAffinity
from scheduler_core.plugins.pod_topology_spread import PodTopologySpread
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial
from tests.support.builders import make_node, make_pod
from tests.support.every import every_seed
from tests.support.oracles.cluster import (
    HOSTNAME,
    ZONE,
    World,
    affinity_filter,
    affinity_scores,
    spread_filter,
    spread_scores,
)
from tests.support.searches import cases

CLUSTERS = cases(2000, "MUSTER_ORACLE_CLUSTERS")
KEYS = (HOSTNAME, ZONE, "rack")
NAMESPACES = ("a", "b", "c")
LISTED = (
    {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
    {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
    {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
)


def listed_plugin() -> PodTopologySpread:
    constraints = tuple(
        ConfiguredConstraint(
            max_skew=item["maxSkew"],
            topology_key=item["topologyKey"],
            when_unsatisfiable=item["whenUnsatisfiable"],
        )
        for item in LISTED
    )
    args = PodTopologySpreadArgs(default_constraints=constraints, defaulting_type="List")
    return PodTopologySpread(default_constraints(args), system=False)


class Life:
    """The same random history told to the state and to the oracle's world."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World()
        self.state = ClusterState()
        self.made = 0
        for name in NAMESPACES[: self.random.randint(1, 3)]:
            self.put_namespace(name)
        for _ in range(self.random.randint(1, 7)):
            self.put_node()
        for _ in range(self.random.randint(0, 18)):
            self.place()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, *values: Any) -> Any:
        return self.random.choice(values)

    # Random objects

    def random_labels(self) -> dict[str, str]:
        pairs = (("app", ("x", "x", "y")), ("tier", ("p", "q", "r")), ("rev", ("1", "2")))
        return {key: self.pick(*values) for key, values in pairs if self.chance(0.8)}

    def random_selector(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        if self.chance(0.7):
            wanted["matchLabels"] = self.pick(
                {"app": "x"}, {"app": "x"}, {"app": "y"}, {"app": "x", "tier": "p"}
            )
        if self.chance(0.25):
            operator = self.pick("In", "NotIn", "Exists", "DoesNotExist")
            values = {"values": self.random.sample(["p", "q", "r"], 2)} if operator.endswith("In") else {}
            wanted["matchExpressions"] = [{"key": "tier", "operator": operator, **values}]
        return wanted

    def random_constraint(self) -> dict[str, Any]:
        out: dict[str, Any] = {"maxSkew": self.pick(1, 1, 1, 2), "topologyKey": self.pick(*KEYS)}
        out["whenUnsatisfiable"] = self.pick("DoNotSchedule", "ScheduleAnyway")
        if self.chance(0.95):
            out["labelSelector"] = self.random_selector()
            if self.chance(0.15):
                out["matchLabelKeys"] = ["rev"]
        if self.chance(0.2) and out["whenUnsatisfiable"] == "DoNotSchedule":
            out["minDomains"] = self.pick(1, 2, 3, 5)
        if self.chance(0.3):
            out["nodeAffinityPolicy"] = self.pick("Honor", "Ignore")
        if self.chance(0.4):
            out["nodeTaintsPolicy"] = self.pick("Honor", "Ignore")
        return out

    def random_term(self) -> dict[str, Any]:
        out: dict[str, Any] = {"topologyKey": self.pick(*KEYS)}
        if self.chance(0.95):
            out["labelSelector"] = self.random_selector()
        if self.chance(0.3):
            out["namespaces"] = self.random.sample(NAMESPACES, self.pick(1, 2))
        if self.chance(0.25):
            never = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
            out["namespaceSelector"] = self.pick({}, {"matchLabels": {"team": "red"}}, never)
        if self.chance(0.2) and "labelSelector" in out:
            out[self.pick("matchLabelKeys", "mismatchLabelKeys")] = ["rev"]
        return out

    def random_affinity(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for kind, share in (("podAffinity", 0.35), ("podAntiAffinity", 0.45)):
            if self.chance(share):
                required = [self.random_term() for _ in range(self.pick(0, 1, 1, 2))]
                preferred = [
                    {"weight": self.pick(1, 7, 100), "podAffinityTerm": self.random_term()}
                    for _ in range(self.pick(0, 1, 2))
                ]
                out[kind] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": required,
                    "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                }
        if self.chance(0.15):
            expressions = [{"key": "rack", "operator": "NotIn", "values": ["r1"]}]
            terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
            out["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return out

    def random_pod(self) -> dict[str, Any]:
        self.made += 1
        pod = make_pod(f"{self.pick(*NAMESPACES, *'aaa')}/p{self.made}").uid(f"u{self.made}")
        pod.labels(**self.random_labels()).spec(affinity=self.random_affinity())
        if self.chance(0.5):
            pod.spec(topologySpreadConstraints=[self.random_constraint() for _ in range(self.pick(1, 2, 3))])
        if self.chance(0.15):
            pod.selector(rack=self.pick("r1", "r2"))
        if self.chance(0.3):
            pod.tolerates(self.pick("t1", "t2", "node.kubernetes.io/unschedulable"))
        if self.chance(0.4):
            owner = {
                "kind": "ReplicaSet",
                "name": "r",
                "uid": "r",
                "apiVersion": "apps/v1",
                "controller": True,
            }
            pod.meta["ownerReferences"] = [owner]
        return pod.dict()

    # What happens, to both

    def put_namespace(self, name: str) -> None:
        self.world.namespaces[name] = self.pick({}, {"team": "red"}, {"team": "blue"})
        raw = {"metadata": {"name": name, "labels": dict(self.world.namespaces[name])}}
        self.state.put_namespace(parse_namespace(raw))

    def put_node(self) -> None:
        node = make_node(f"n{self.random.randint(0, 7)}").allocatable(cpu="8")
        for key, values in ((ZONE, ("z1", "z2", "z3")), ("rack", ("r1", "r2"))):
            if self.chance(0.85):
                node.label(key, self.pick(*values))
        if self.chance(0.1):
            del node.meta["labels"][HOSTNAME]
        if self.chance(0.4):
            node.taint(self.pick("t1", "t2"), effect=self.pick("NoSchedule", "PreferNoSchedule"))
        if self.chance(0.1):
            node.unschedulable()
        self.world.nodes[node.meta["name"]] = node.dict()
        self.state.put_node(parse_node(node.dict()))

    def remove_node(self) -> None:
        if len(self.world.nodes) > 1:
            name = self.pick(*self.world.nodes)
            del self.world.nodes[name]
            self.state.remove_node(name)

    def place(self) -> None:
        raw = self.random_pod()
        uid, node = raw["metadata"]["uid"], self.pick(*self.world.nodes)
        if self.chance(0.15):
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.world.pods[uid], self.world.placed[uid] = raw, node
        if self.chance(0.5):
            slot = self.state.nodes.slot(node)
            assert slot is not None
            self.state.assume(parse_pod(raw), slot, 0.0)
        else:
            raw["spec"]["nodeName"], raw["status"] = node, {"phase": "Running"}
            self.state.put_pod(parse_pod(raw))

    def remove(self) -> None:
        if self.world.placed:
            uid = self.pick(*self.world.placed)
            del self.world.pods[uid], self.world.placed[uid]
            if not self.state.forget(uid):
                self.state.remove_pod(uid)

    def change(self) -> None:
        """New labels for a placed pod, or its deletion is asked for; an assumed one becomes bound."""
        if not self.world.placed:
            return
        uid = self.pick(*self.world.placed)
        raw = dict(self.world.pods[uid])
        raw["metadata"] = {**raw["metadata"], "labels": self.random_labels()}
        if self.chance(0.3):
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        raw["spec"] = {**raw["spec"], "nodeName": self.world.placed[uid]}
        raw["status"] = {"phase": "Running"}
        self.world.pods[uid] = raw
        self.state.put_pod(parse_pod(raw))

    def try_and_take_back(self) -> None:
        """A Trial that places and lifts, asks in between so that counts are held, and rolls back."""
        with Trial(self.state, 1.0) as trial:
            for uid in self.random.sample(sorted(self.world.placed), min(2, len(self.world.placed))):
                trial.remove_placed(uid)
            for _ in range(2):
                slot = self.state.nodes.slot(self.pick(*self.world.nodes))
                assert slot is not None
                trial.place(parse_pod(self.random_pod()), slot)
            self.ask(self.random_pod())

    def step(self) -> None:
        self.pick(
            self.put_node, self.remove_node, self.place, self.place, self.place, self.remove, self.change,
            self.change, self.try_and_take_back, lambda: self.put_namespace(self.pick(*NAMESPACES)),
        )()  # fmt: skip

    # Asking the plugins

    def ask(self, raw: dict[str, Any]) -> None:
        for plugin in (PodTopologySpread(), InterPodAffinity()):
            cycle = self.cycle(raw)
            if plugin.pre_filter(cycle).code is not Code.SKIP:
                plugin.filter(cycle, NodeView.all(self.state.nodes))

    def cycle(self, raw: dict[str, Any]) -> Cycle:
        pod = parse_pod(raw)
        return Cycle(self.state, pod, self.state.vector(pod), 1.0, "default")

    def bits(self, plugin: Any, raw: dict[str, Any]) -> dict[str, int]:
        cycle, nodes = self.cycle(raw), self.state.nodes
        if plugin.pre_filter(cycle).code is Code.SKIP:
            return dict.fromkeys(self.world.nodes, 0)
        found = plugin.filter(cycle, NodeView.all(nodes))
        slots = np.array([nodes.slot(name) for name in self.world.nodes], dtype=np.int64)
        assert plugin.filter(cycle, NodeView(nodes, slots)).tolist() == found[slots].tolist()
        return dict(zip(self.world.nodes, found[slots].tolist(), strict=True))

    def scores(self, plugin: Any, raw: dict[str, Any], feasible: list[str]) -> dict[str, int] | None:
        cycle, nodes = self.cycle(raw), self.state.nodes
        chosen = np.zeros(nodes.size, dtype=np.bool_)
        slots = [nodes.slot(name) for name in feasible]
        chosen[slots] = True
        if plugin.pre_score(cycle, chosen).code is Code.SKIP:
            return None
        values = plugin.normalize(cycle, plugin.score(cycle, NodeView.all(nodes)), chosen)
        return dict(zip(feasible, values[slots].tolist(), strict=True))

    def judge(self) -> None:
        raw = self.random_pod()
        feasible = self.random.sample(sorted(self.world.nodes), self.random.randint(1, len(self.world.nodes)))
        for defaults, system, spread in ((None, True, PodTopologySpread()), (LISTED, False, listed_plugin())):
            options: dict[str, Any] = {} if defaults is None else {"defaults": defaults}
            assert self.bits(spread, raw) == spread_filter(self.world, raw, **options)
            expected = spread_scores(self.world, raw, feasible, system=system, **options)
            assert self.scores(spread, raw, feasible) == expected
        assert self.bits(InterPodAffinity(), raw) == affinity_filter(self.world, raw)
        hard, ignore = self.pick(0, 1, 50), self.chance(0.3)
        expected = affinity_scores(self.world, raw, feasible, hard, ignore_existing=ignore)
        found = self.scores(InterPodAffinity(hard, ignore), raw, feasible)
        # Skipping and scoring all alike is the same.
        assert found == expected or (found is None and set((expected or {}).values()) <= {0})


@every_seed(range(CLUSTERS), each=50)
def test_bits_and_scores_equal_the_rules(seed: int) -> None:
    life = Life(seed)
    for _ in range(3):
        life.judge()
        for _ in range(3):
            life.step()
    life.judge()
    assert life.state.check() == [], f"cluster {seed}"
