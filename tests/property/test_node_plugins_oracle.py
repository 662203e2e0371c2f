"""Every plugin that judges single nodes, against a slow oracle on thousands of random pods and nodes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler_core.config import default_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.allocation import LEAST, MOST, ResourceScoring, capacity_ratio
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.registry import build_profiles
from scheduler_core.framework.view import NodeView
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.affinity import read_node_affinity
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.storage import (
    parse_csi_node,
    parse_persistent_volume,
    parse_persistent_volume_claim,
    parse_storage_class,
)
from scheduler_core.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler_core.plugins.image_locality import ImageLocality
from scheduler_core.plugins.node_affinity import NodeAffinity
from scheduler_core.plugins.node_ports import NodePorts
from scheduler_core.plugins.node_resources_fit import NodeResourcesFit
from scheduler_core.plugins.node_unschedulable import NodeUnschedulable
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.plugins.taint_toleration import TaintToleration
from scheduler_core.plugins.volumes.node_volume_limits import NodeVolumeLimits
from scheduler_core.plugins.volumes.volume_binding import VolumeBinding
from scheduler_core.plugins.volumes.volume_restrictions import VolumeRestrictions
from scheduler_core.plugins.volumes.volume_zone import VolumeZone
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind
from tests.support.asking import cycle_for, points, verdicts
from tests.support.every import every_seed
from tests.support.oracles import nodes as oracle
from tests.support.oracles import volumes
from tests.support.oracles.nodes import Raw, World
from tests.support.searches import cases

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
LEGACY_ZONE = "failure-domain.beta.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
DRIVER = "csi.example.com"
SHAPE = [(0, 10), (35, 2), (70, 7), (100, 0)]
ADDED: Raw = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["3"]}]}]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}}
    ],
}


class Cluster:
    """A random cluster, raw for the oracle and as Muster's state."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        self.state = ClusterState()
        self._serial = 0
        for i in range(self.rng.randint(3, 9)):
            self.add_node(f"n{i}")
        self.add_storage()
        for _ in range(self.rng.randint(0, 14)):
            self.place(self.random_pod(), self.rng.choice(sorted(self.world.nodes)))

    def name(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def some(self, chance: float) -> bool:
        return self.rng.random() < chance

    # Nodes

    def add_node(self, name: str) -> None:
        rng = self.rng
        labels = {HOST: name}
        for key, values in ((ZONE, "ab"), (LEGACY_ZONE, "ab"), ("tier", "1234")):
            if self.some(0.6):
                labels[key] = rng.choice(values)
        effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
        taints = [
            {"key": rng.choice("xyz"), "value": rng.choice(["", "v"]), "effect": rng.choice(effects)}
            for _ in range(rng.choice([0, 0, 1, 2, 3]))
        ]
        room = {"cpu": rng.choice([0, 1000, 3000, 7001]), "memory": rng.choice([2, 5, 9]) * 10**9}
        listed = {
            "cpu": f"{room['cpu']}m",
            "memory": str(room["memory"]),
            "pods": str(rng.choice([2, 4, 20])),
        }
        if self.some(0.4):
            listed[GPU] = str(rng.choice([0, 2, 8]))
        images = [
            {"names": [f"app{i}:latest", f"registry/app{i}@sha256:0"], "sizeBytes": rng.randint(1, 3 * 10**9)}
            for i in range(3)
            if self.some(0.5)
        ]
        raw: Raw = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": self.some(0.15)},
            "status": {"allocatable": listed, "images": images},
        }
        self.world.nodes[name] = raw
        self.state.put_node(parse_node(raw))

    # Storage

    def put(self, parse: Callable[[Any], Any], store: dict[str, Raw], key: str, raw: Raw) -> None:
        store[key] = raw
        self.state.put_object(parse(raw), EventKind.VOLUME)

    def add_storage(self) -> None:
        rng = self.rng
        for name, provisioner, mode in (
            ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            ("made", DRIVER, "WaitForFirstConsumer"),
            ("now", DRIVER, "Immediate"),
        ):
            raw: Raw = {
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": mode,
            }
            if self.some(0.5):
                expressions = [{"key": ZONE, "values": rng.sample("ab", rng.randint(1, 2))}]
                raw["allowedTopologies"] = [{"matchLabelExpressions": expressions}]
            self.put(parse_storage_class, self.world.classes, name, raw)
        for name in self.world.nodes:
            if self.some(0.7):
                drivers: list[Raw] = [{"name": DRIVER, "nodeID": name}]
                if self.some(0.8):
                    drivers[0]["allocatable"] = {"count": rng.randint(0, 3)}
                raw = {"metadata": {"name": name}, "spec": {"drivers": drivers}}
                self.put(parse_csi_node, self.world.csi, name, raw)
        for i in range(10):
            self.add_volume(f"v{i}")
        for i in range(9):
            self.add_claim(f"c{i}")

    def add_volume(self, name: str) -> None:
        rng = self.rng
        modes = rng.choice([["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]])
        spec: Raw = {
            "capacity": {"storage": str(rng.randint(1, 9))},
            "accessModes": modes,
            "storageClassName": rng.choice(["local", "local", "local", "made"]),
        }
        node = rng.choice(sorted(self.world.nodes))
        terms: list[list[Raw]] = [
            [{"key": HOST, "operator": "In", "values": [node]}],
            [{"key": ZONE, "operator": "In", "values": [rng.choice("abq")]}],
            [{"key": ZONE, "operator": "In", "values": ["a", "b"]}],
            [{"key": "tier", "operator": "Gt", "values": ["1"]}, {"key": ZONE, "operator": "Exists"}],
        ]
        if self.some(0.85):
            term = {"matchExpressions": rng.choice(terms)}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        if self.some(0.2):
            spec["claimRef"] = {"namespace": "team", "name": f"c{rng.randint(0, 9)}"}
            if self.some(0.4):
                spec["claimRef"]["uid"] = rng.choice([f"uid-{spec['claimRef']['name']}", "other"])
        if self.some(0.4):
            spec["csi"] = {"driver": DRIVER, "volumeHandle": rng.choice(["h1", "h2", name])}
        labels = {}
        if self.some(0.4):
            labels[rng.choice([ZONE, LEGACY_ZONE])] = rng.choice(["a", "b", "a__b", "q"])
        if self.some(0.3):
            labels["media"] = "ssd"
        raw: Raw = {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
            "spec": spec,
            "status": {"phase": rng.choice(["Available", "Available", "Available", "Released"])},
        }
        self.put(parse_persistent_volume, self.world.volumes, name, raw)

    def add_claim(self, name: str) -> None:
        rng = self.rng
        spec: Raw = {
            "accessModes": [
                rng.choice(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
            ],
            "resources": {"requests": {"storage": str(rng.randint(1, 7))}},
            "storageClassName": rng.choice(["local", "local", "made", "made", "now"]),
        }
        meta: Raw = {"namespace": "team", "name": name, "uid": f"uid-{name}"}
        phase = "Pending"
        if self.some(0.5):
            spec["volumeName"], phase = f"v{rng.randint(0, 10)}", "Bound"
        elif spec["storageClassName"] == "made" and self.some(0.3):
            node = rng.choice(sorted(self.world.nodes))
            meta["annotations"] = {"volume.kubernetes.io/selected-node": node}
        elif self.some(0.2):
            spec["selector"] = {"matchLabels": {"media": "ssd"}}
        raw = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
        self.put(parse_persistent_volume_claim, self.world.claims, f"team/{name}", raw)

    # Pods

    def random_pod(self) -> Raw:
        rng = self.rng
        containers = []
        for i in range(rng.choice([1, 1, 2])):
            asked = {}
            for name, values in (("cpu", ["0m", "250m", "999m"]), ("memory", ["0", "1000000007"])):
                if self.some(0.7):
                    asked[name] = rng.choice(values)
            if self.some(0.2):
                asked[GPU] = str(rng.choice([0, 1, 4]))
            container: Raw = {"name": f"c{i}", "resources": {"requests": asked}}
            container["image"] = rng.choice(["app0", "app1:latest", "registry/app2@sha256:0", "app2:v1"])
            if self.some(0.3):
                address = rng.choice(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"])
                container["ports"] = [
                    {
                        "hostPort": rng.choice([0, 80, 81]),
                        "hostIP": address,
                        "protocol": rng.choice(["TCP", "UDP"]),
                    }
                ]
            containers.append(container)
        name = self.name("p")
        spec: Raw = {"containers": containers, "tolerations": self.random_tolerations()}
        if self.some(0.2):
            spec["nodeSelector"] = {rng.choice([ZONE, "tier"]): rng.choice(["a", "1", "2"])}
        if self.some(0.5):
            spec["affinity"] = {"nodeAffinity": self.random_affinity()}
        if self.some(0.6):
            spec["volumes"] = [self.random_volume() for _ in range(rng.randint(1, 3))]
        return {"metadata": {"namespace": "team", "name": name, "uid": name}, "spec": spec}

    def random_tolerations(self) -> list[Raw]:
        rng = self.rng
        out: list[Raw] = []
        for _ in range(rng.choice([0, 0, 1, 2])):
            item: Raw = {"operator": rng.choice(["Exists", "Equal"])}
            if item["operator"] == "Equal" or self.some(0.8):
                keys = ["x", "y", "z", "node.kubernetes.io/unschedulable"]
                item["key"] = rng.choice(keys)
            if item["operator"] == "Equal":
                item["value"] = rng.choice(["", "v"])
            if self.some(0.5):
                item["effect"] = rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
            out.append(item)
        return out

    def random_term(self) -> Raw:
        rng = self.rng
        expressions: list[Raw] = []
        for _ in range(rng.choice([0, 1, 1, 2])):
            key = rng.choice([ZONE, "tier", HOST])
            operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
            item: Raw = {"key": key, "operator": operator}
            if operator in ("In", "NotIn"):
                item["values"] = rng.sample(["a", "b", "1", "2", "n0", "n1"], rng.randint(1, 3))
            elif operator in ("Gt", "Lt"):
                item["values"] = [rng.choice("1234")]
            expressions.append(item)
        term: Raw = {"matchExpressions": expressions}
        if self.some(0.2):
            fields = [{"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": ["n1"]}]
            term["matchFields"] = fields
        return term

    def random_affinity(self) -> Raw:
        out: Raw = {}
        if self.some(0.6):
            terms = [self.random_term() for _ in range(self.rng.randint(0, 2))]
            out["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self.some(0.7):
            out["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.rng.randint(1, 100), "preference": self.random_term()} for _ in range(2)
            ]
        return out

    def random_volume(self) -> Raw:
        rng = self.rng
        sort = rng.choice(["claim", "claim", "claim", "gce", "ebs", "iscsi", "rbd", "empty"])
        name, read_only, number = self.name("vol"), self.some(0.5), rng.randint(0, 2)
        if sort == "claim":
            last = 9 if self.some(0.1) else 8
            return {"name": name, "persistentVolumeClaim": {"claimName": f"c{rng.randint(0, last)}"}}
        if sort == "gce":
            return {"name": name, "gcePersistentDisk": {"pdName": f"d{number}", "readOnly": read_only}}
        if sort == "ebs":
            return {"name": name, "awsElasticBlockStore": {"volumeID": f"d{number}", "readOnly": read_only}}
        if sort == "iscsi":
            target = {"targetPortal": "t", "iqn": f"d{number}", "lun": 0, "readOnly": read_only}
            return {"name": name, "iscsi": target}
        if sort == "rbd":
            monitors = rng.sample(["m1", "m2", "m3"], rng.randint(1, 2))
            return {"name": name, "rbd": {"monitors": monitors, "image": f"d{number}", "readOnly": read_only}}
        return {"name": name, "emptyDir": {}}

    def place(self, pod: Raw, node: str) -> None:
        pod = {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}}
        self.world.pods.append(pod)
        self.state.put_pod(parse_pod(pod))

    def remove(self, pod: Raw) -> None:
        self.world.pods.remove(pod)
        self.state.remove_pod(pod["metadata"]["uid"])

    def cycle(self, pod: Raw) -> Cycle:
        return cycle_for(self.state, parse_pod(pod))


Judge = Callable[[World, Raw, Raw], set[str]]

FILTERS: list[tuple[Any, Judge]] = [
    (NodeUnschedulable(), lambda w, p, n: oracle.unschedulable_reasons(p, n)),
    (TaintToleration(), lambda w, p, n: oracle.taint_reasons(p, n)),
    (NodeAffinity(), lambda w, p, n: oracle.affinity_reasons(p, n)),
    (NodeAffinity(read_node_affinity(ADDED)), lambda w, p, n: oracle.affinity_reasons(p, n, ADDED)),
    (NodeResourcesFit(), oracle.fit_reasons),
    (
        NodeResourcesFit(ignored_groups=["nvidia.com"]),
        lambda w, p, n: oracle.fit_reasons(w, p, n, frozenset({GPU})),
    ),
    (NodePorts(), oracle.port_reasons),
    (VolumeRestrictions(), volumes.restriction_reasons),
    (VolumeZone(), volumes.zone_reasons),
    (VolumeBinding(), volumes.binding_reasons),
    (NodeVolumeLimits(), volumes.limit_reasons),
]


def refusal(plugin: Any, world: World, pod: Raw) -> str:
    """What the oracle expects a plugin's PreFilter to say."""
    if isinstance(plugin, VolumeZone):
        return volumes.zone_refusal(world, pod)
    if isinstance(plugin, NodeVolumeLimits):
        return volumes.limit_refusal(world, pod)
    return volumes.early_refusal(world, pod)


VOLUME_PLUGINS = (VolumeRestrictions, VolumeZone, VolumeBinding, NodeVolumeLimits)


@every_seed(range(cases(120)), each=30)
def test_filters_say_what_the_oracle_says(seed: int) -> None:
    cluster = Cluster(seed)
    names = cluster.state.nodes.names
    everywhere = NodeView.all(cluster.state.nodes)
    for _ in range(12):
        pod = cluster.random_pod()
        early = volumes.early_refusal(cluster.world, pod)
        some = np.array(cluster.rng.sample(range(len(names)), 2), dtype=np.int64)
        for plugin, judge in FILTERS:
            found = verdicts(plugin, cluster.cycle(pod), everywhere)
            if isinstance(found, str):
                assert isinstance(plugin, VOLUME_PLUGINS)
                assert found == refusal(plugin, cluster.world, pod)
                continue
            if early and isinstance(plugin, VOLUME_PLUGINS):
                # Another of the four refuses the pod.
                continue
            wanted = [judge(cluster.world, pod, cluster.world.nodes[name]) for name in names]
            assert found == wanted, (plugin.name, pod)
            part = verdicts(plugin, cluster.cycle(pod), NodeView(cluster.state.nodes, some))
            assert part == [wanted[slot] for slot in some], (plugin.name, pod)


@every_seed(range(cases(60)), each=30)
def test_a_pod_is_refused_early_when_the_oracle_says_so(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(30):
        pod = cluster.random_pod()
        early = volumes.early_refusal(cluster.world, pod)
        found = [
            verdicts(plugin, cluster.cycle(pod), NodeView.all(cluster.state.nodes))
            for plugin in (VolumeRestrictions(), VolumeBinding())
        ]
        texts = [item for item in found if isinstance(item, str)]
        assert texts[:1] == ([early] if early else [])


WEIGHTS = {"cpu": 3, "memory": 1, GPU: 2}
STRATEGIES = {
    "LeastAllocated": LEAST,
    "MostAllocated": MOST,
    "RequestedToCapacityRatio": ResourceScoring(capacity_ratio(SHAPE), scored_only=True),
}


@every_seed(range(cases(120)), each=30)
def test_scores_are_those_of_the_oracle(seed: int) -> None:
    cluster = Cluster(seed)
    world, names = cluster.world, cluster.state.nodes.names
    nodes = [world.nodes[name] for name in names]
    view = NodeView.all(cluster.state.nodes)
    for _ in range(10):
        pod = cluster.random_pod()

        def of(plugin: Any, pod: Raw = pod) -> list[int]:
            return points(plugin, cluster.cycle(pod), view)

        for name, strategy in STRATEGIES.items():
            plugin = NodeResourcesFit(list(WEIGHTS.items()), strategy=strategy)
            wanted = [oracle.fit_score(world, pod, node, WEIGHTS, name, SHAPE) for node in nodes]
            assert of(plugin) == wanted, name
        for listed in (["cpu", "memory"], ["cpu", "memory", GPU]):
            balanced = NodeResourcesBalancedAllocation([(name, 1) for name in listed])
            wanted = [oracle.balanced_score(world, pod, node, listed) for node in nodes]
            if any(oracle.requests(pod).get(name) for name in listed):
                assert of(balanced) == wanted
        wanted = oracle.normalized([oracle.preference_score(pod, node, ADDED) for node in nodes])
        assert of(NodeAffinity(read_node_affinity(ADDED))) == wanted
        counts = [oracle.taint_score(pod, node) for node in nodes]
        if any(counts):
            assert of(TaintToleration()) == oracle.normalized(counts, reverse=True)
        assert of(ImageLocality()) == [oracle.image_score(world, pod, node) for node in nodes]


@every_seed(range(cases(25)))
def test_updated_columns_equal_recomputed_ones(seed: int) -> None:
    """Placements, removals, new nodes and storage between attempts: indexes and caches follow."""
    cluster = Cluster(seed)
    rng, state = cluster.rng, cluster.state
    profile = build_profiles(default_config(), FACTORIES, KNOWN_PLUGINS)["default-scheduler"]
    warm = PodCycle(state)
    pods = [cluster.random_pod() for _ in range(4)]
    for _ in range(25):
        action = rng.choice(["place", "remove", "node", "volume", "claim"])
        if action == "place":
            cluster.place(cluster.random_pod(), rng.choice(sorted(cluster.world.nodes)))
        elif action == "remove" and cluster.world.pods:
            cluster.remove(rng.choice(cluster.world.pods))
        elif action == "node":
            cluster.add_node(f"n{rng.randint(0, 10)}")
        elif action == "volume":
            cluster.add_volume(f"v{rng.randint(0, 10)}")
        elif action == "claim":
            cluster.add_claim(f"c{rng.randint(0, 9)}")
        assert state.check() == []
        for raw in pods:
            pod = parse_pod(raw)
            cold = PodCycle(state)
            for cycles in (warm, cold):
                cycles.scores_for(profile, cycles.new_cycle(profile, pod, 0.0))
            results = [
                cycles.scores_for(profile, cycles.new_cycle(profile, pod, 0.0)).total
                for cycles in (warm, cold)
            ]
            assert results[0].tolist() == results[1].tolist()
        pod_raw = rng.choice(pods)
        if not volumes.early_refusal(cluster.world, pod_raw):
            for plugin, judge in FILTERS[-5:]:
                found = verdicts(plugin, cluster.cycle(pod_raw), NodeView.all(state.nodes))
                if isinstance(found, str):
                    assert found == refusal(plugin, cluster.world, pod_raw)
                    continue
                wanted = [
                    judge(cluster.world, pod_raw, cluster.world.nodes[name]) for name in state.nodes.names
                ]
                assert found == wanted, plugin.name
