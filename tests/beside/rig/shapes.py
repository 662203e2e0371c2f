"""Random valid nodes, pods and budgets. All chance comes from the dice that a world gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from scheduler_core.model.quantity import format_resource, parse_resource
from tests.beside.rig.world import Raw

T = TypeVar("T")
NAMESPACES: Final = {"t": {"team": "red"}, "u": {"team": "blue"}}
PRIORITIES: Final = {"p-low": -5, "p-1": 1, "p-5": 5, "p-9": 9, "p-100": 100}
NEVER: Final = "p-never"
OVERHEAD: Final = "heavy"
APPS: Final = ("a", "b", "c")
# What the pods of each have as labels, in the namespace t.
REPLICA_SETS: Final = {"rs-a": {"app": "a", "v": "1"}, "rs-b": {"app": "b", "v": "1"}}
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "example.com/gpu"
_TAINTS: Final = (("dedicated", "x"), ("dedicated", "y"), ("spot", ""))
_EFFECTS: Final = ("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute")
_PORTS: Final = (80, 443, 8080)
# Bytes of each image.
_IMAGES: Final = {
    "registry.example/small:1": 9 << 20,
    "registry.example/big:1": 900 << 20,
    "other:2": 300 << 20,
}
_CPUS: Final = ("100m", "250m", "500m", "1", "1500m", "2", "3")
_MEMORY: Final = ("128Mi", "512Mi", "1Gi", "2Gi", "3Gi", "5Gi")
# What pods of the class OVERHEAD take besides their containers.
_OVERHEAD: Final = {"cpu": "250m", "memory": "120Mi"}


def common() -> list[Raw]:
    """What all worlds have: namespaces, priorities, a class with overhead."""
    found: list[Raw] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in NAMESPACES.items()
    ]
    for name, value in {**PRIORITIES, NEVER: 50}.items():
        policy = "Never" if name == NEVER else "PreemptLowerPriority"
        found.append(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": policy,
            }
        )
    found.append(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": OVERHEAD},
            "handler": OVERHEAD,
            "overhead": {"podFixed": _OVERHEAD},
        }
    )
    return found + [_replica_set(name, labels) for name, labels in REPLICA_SETS.items()]


def _resized(dice: random.Random, container: Raw) -> Raw:
    """What the kubelet says of a container that is being resized: other amounts of cpu and memory."""
    asked = {**container["resources"].get("limits", {}), **container["resources"].get("requests", {})}
    more = {"cpu": _CPUS, "memory": _MEMORY}

    def others() -> Raw:
        return {name: dice.choice(more[name]) if name in more else amount for name, amount in asked.items()}

    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "allocatedResources": others(),
        "resources": {"requests": others()},
    }


def _resized_as_a_whole(dice: random.Random, spec: Raw) -> Raw:
    """What a kubelet says of a pod whose own requests are being resized: the overhead is in it."""
    fixed = _OVERHEAD if spec.get("runtimeClassName") == OVERHEAD else {}

    def amounts() -> Raw:
        chosen = {"cpu": dice.choice(_CPUS), "memory": dice.choice(_MEMORY)}
        return {
            name: format_resource(
                name, parse_resource(name, chosen[name]) + parse_resource(name, fixed.get(name, 0))
            )
            for name in chosen
        }

    return {"allocatedResources": amounts(), "resources": {"requests": amounts()}}


def _replica_set(name: str, labels: Raw) -> Raw:
    """One that makes no pods: nobody runs controllers."""
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "registry.example/small:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "t"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


class Shapes:
    """Makes objects. `spice` from 0 to 1: how often pods have rules besides requests."""

    def __init__(self, dice: random.Random, spice: float) -> None:
        self.dice = dice
        self.spice = spice
        # Every running pod has started at a moment of its own: who goes first is no matter of chance.
        self._minutes = list(range(60))
        dice.shuffle(self._minutes)

    def often(self, share: float) -> bool:
        """True with this probability, less in plain worlds."""
        return self.dice.random() < share * self.spice

    def some(self, choices: Sequence[T], least: int = 1) -> list[T]:
        """Some of the choices, in their order."""
        count = self.dice.randint(least, len(choices))
        chosen = set(self.dice.sample(range(len(choices)), count))
        return [choice for place, choice in enumerate(choices) if place in chosen]

    # Nodes

    def node(self, name: str) -> Raw:
        """A ready node."""
        dice = self.dice
        amounts = {
            "cpu": dice.choice(("2", "4", "4", "8", "3900m")),
            "memory": dice.choice(("4Gi", "8Gi", "8Gi", "16Gi")),
            "pods": dice.choice(("3", "5", "10", "110")),
            "ephemeral-storage": "20Gi",
        }
        if dice.random() < 0.3:
            amounts[GPU] = dice.choice(("1", "4"))
        labels = {HOSTNAME: name}
        if dice.random() < 0.85:
            labels[ZONE] = dice.choice(("z1", "z2", "z3"))
        if dice.random() < 0.6:
            labels["disk"] = dice.choice(("ssd", "hdd"))
        if dice.random() < 0.5:
            labels["size"] = dice.choice(("1", "5", "10", "big"))
        spec: Raw = {}
        if self.often(0.3):
            spec["taints"] = [self._taint() for _ in range(dice.choice((1, 1, 2)))]
            spec["taints"] = list({(t["key"], t["effect"]): t for t in spec["taints"]}.values())
        if self.often(0.08):
            spec["unschedulable"] = True
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": [
                    {"names": [image], "sizeBytes": size}
                    for image, size in _IMAGES.items()
                    if dice.random() < 0.4
                ],
            },
        }

    def _taint(self) -> Raw:
        key, value = self.dice.choice(_TAINTS)
        return {"key": key, "value": value, "effect": self.dice.choice(_EFFECTS)}

    # Pods

    def pod(self, name: str, *, node: str = "") -> Raw:
        """A pod that waits, or that runs on a node."""
        dice = self.dice
        spec: Raw = {"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30}
        spec["containers"] = [self._container(f"c{i}") for i in range(dice.choice((1, 1, 1, 2)))]
        if self.often(0.25):
            spec["initContainers"] = [self._init(f"i{i}") for i in range(dice.choice((1, 2)))]
        if dice.random() < 0.8:
            spec["priorityClassName"] = dice.choice((*PRIORITIES, NEVER) if not node else tuple(PRIORITIES))
        if self.often(0.15):
            spec["runtimeClassName"] = OVERHEAD
        if self.often(0.15):
            self._pod_level(spec)
        if self.often(0.35):
            spec["tolerations"] = [self._toleration() for _ in range(dice.choice((1, 2)))]
        if not node and self.often(0.2):
            spec["nodeSelector"] = dict([dice.choice((("disk", "ssd"), (ZONE, "z1"), ("size", "5")))])
        if self.often(0.2):
            self._ports(spec)
        affinity = self._affinity(runs=bool(node))
        if affinity:
            spec["affinity"] = affinity
        if self.often(0.3):
            keys = dice.sample((HOSTNAME, ZONE, "disk"), dice.choice((1, 1, 2)))
            spec["topologySpreadConstraints"] = [self._spread(key) for key in keys]
        meta: Raw = {"name": name, "namespace": dice.choice(tuple(NAMESPACES))}
        if dice.random() < 0.8:
            meta["labels"] = {"app": dice.choice(APPS), "v": dice.choice(("1", "2"))}
        if self.often(0.2):
            self._own(meta, spec)
        pod: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        if node:
            spec["nodeName"] = node
            started = f"2026-01-01T00:{self._minutes.pop():02d}:00Z"
            pod["status"] = {"phase": dice.choice(("Running",) * 9 + ("Pending",)), "startTime": started}
            if self.often(0.1) and "resources" not in spec:
                pod["status"]["containerStatuses"] = [_resized(dice, one) for one in spec["containers"]]
            elif len(spec.get("resources", {}).get("requests", ())) == 2:
                if dice.random() < 0.5:
                    spec["runtimeClassName"] = OVERHEAD
                pod["status"] |= _resized_as_a_whole(dice, spec)
        return pod

    def _own(self, meta: Raw, spec: Raw) -> None:
        """A ReplicaSet has made the pod: it has its template's labels, and mostly default constraints."""
        name = self.dice.choice(tuple(REPLICA_SETS))
        meta |= {"namespace": "t", "labels": dict(REPLICA_SETS[name])}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
        meta["ownerReferences"] = [owner]
        if self.dice.random() < 0.8:
            spec.pop("topologySpreadConstraints", None)

    def _amounts(self, most: int = 6) -> Raw:
        dice, found = self.dice, {}
        if dice.random() < 0.85:
            found["cpu"] = dice.choice(_CPUS[:most])
        if dice.random() < 0.75:
            found["memory"] = dice.choice(_MEMORY[:most])
        if dice.random() < 0.08:
            found["ephemeral-storage"] = dice.choice(("1Gi", "10Gi"))
        return found

    def _container(self, name: str) -> Raw:
        container: Raw = {"name": name, "image": self.dice.choice(tuple(_IMAGES))}
        requests = self._amounts()
        resources: Raw = {"requests": requests}
        if self.dice.random() < 0.15:
            gpus = self.dice.choice(("1", "2"))
            requests[GPU] = gpus
            resources["limits"] = {GPU: gpus}
        elif self.dice.random() < 0.15:
            # Requests that are missing are those of the limits.
            resources = {"limits": requests}
        container["resources"] = resources
        return container

    def _init(self, name: str) -> Raw:
        container = {**self._container(name)}
        container["resources"] = {"requests": self._amounts()}
        if self.dice.random() < 0.5:
            container["restartPolicy"] = "Always"
        return container

    def _pod_level(self, spec: Raw) -> None:
        """Requests of the pod as a whole: more than its containers ask."""
        dice = self.dice
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        which = dice.choice(("requests", "limits", "both"))
        requests = {"cpu": dice.choice(("1", "2")), "memory": dice.choice(("1Gi", "2Gi"))}
        resources: Raw = {}
        if which in ("requests", "both"):
            resources["requests"] = (
                dict([dice.choice(tuple(requests.items()))]) if self.often(0.5) else requests
            )
        if which in ("limits", "both"):
            resources["limits"] = {"cpu": "3", "memory": "3Gi"}
        spec["resources"] = resources

    def _toleration(self) -> Raw:
        dice = self.dice
        key, value = dice.choice(_TAINTS)
        found: Raw = {"key": key, "operator": "Equal", "value": value}
        if dice.random() < 0.3:
            found = {"key": key, "operator": "Exists"}
        elif dice.random() < 0.1:
            return {"operator": "Exists"}
        if dice.random() < 0.6:
            found["effect"] = dice.choice(_EFFECTS)
        return found

    def _ports(self, spec: Raw) -> None:
        dice = self.dice
        port = dice.choice(_PORTS)
        entry: Raw = {"containerPort": port, "hostPort": port, "protocol": dice.choice(("TCP", "TCP", "UDP"))}
        if dice.random() < 0.4:
            entry["hostIP"] = dice.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0"))
        spec["containers"][0]["ports"] = [entry]

    # Rules

    def _affinity(self, *, runs: bool) -> Raw:
        found: Raw = {}
        if not runs and self.often(0.25):
            found["nodeAffinity"] = self._node_affinity()
        if self.often(0.25):
            found["podAffinity"] = self._pod_affinity()
        if self.often(0.25):
            found["podAntiAffinity"] = self._pod_affinity()
        return found

    def _node_affinity(self) -> Raw:
        dice = self.dice
        found: Raw = {}
        if dice.random() < 0.6:
            terms = [self._term() for _ in range(dice.choice((1, 1, 2)))]
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if dice.random() < 0.6 or not found:
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": dice.choice((1, 10, 50, 100)), "preference": self._term(preferred=True)}
                for _ in range(dice.choice((1, 2)))
            ]
        return found

    def _term(self, *, preferred: bool = False) -> Raw:
        dice = self.dice
        if not preferred and dice.random() < 0.15:
            names = self.some(("n0", "n1", "n2"))
            operator = dice.choice(("In", "In", "NotIn"))
            names = names[:1]
            return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": names}]}
        return {
            "matchExpressions": [self._expression(preferred=preferred) for _ in range(dice.choice((1, 1, 2)))]
        }

    def _expression(self, *, preferred: bool) -> Raw:
        dice = self.dice
        operator = dice.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            # A required term with a negative number is no valid one.
            number = "-1" if preferred and self.often(0.1) else dice.choice(("0", "4", "7"))
            return {"key": "size", "operator": operator, "values": [number]}
        key, values = dice.choice(
            (("disk", ("ssd", "hdd")), (ZONE, ("z1", "z2", "z3")), ("size", ("1", "5")))
        )
        found: Raw = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = self.some(values)
        return found

    def _pod_affinity(self) -> Raw:
        dice = self.dice
        found: Raw = {}
        if dice.random() < 0.55:
            found["requiredDuringSchedulingIgnoredDuringExecution"] = [self._pod_term()]
        if dice.random() < 0.55 or not found:
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": dice.choice((1, 20, 100)), "podAffinityTerm": self._pod_term()}
                for _ in range(dice.choice((1, 1, 2)))
            ]
        return found

    def _pod_term(self) -> Raw:
        dice = self.dice
        found: Raw = {"topologyKey": dice.choice((HOSTNAME, ZONE, "disk")), "labelSelector": self._selector()}
        if dice.random() < 0.3:
            found["namespaces"] = self.some(tuple(NAMESPACES))
        elif dice.random() < 0.3:
            found["namespaceSelector"] = dice.choice(({}, {"matchLabels": {"team": "red"}}))
        if dice.random() < 0.15 and "matchLabels" in found["labelSelector"]:
            found[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["v"]
        return found

    def _selector(self) -> Raw:
        dice = self.dice
        if dice.random() < 0.7:
            return {"matchLabels": {"app": dice.choice(APPS)}}
        if dice.random() < 0.2:
            return {}
        operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        found: Raw = {"key": "app", "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = self.some(APPS)
        return {"matchExpressions": [found]}

    def _spread(self, key: str) -> Raw:
        dice = self.dice
        when = dice.choice(("DoNotSchedule", "ScheduleAnyway"))
        found: Raw = {
            "maxSkew": dice.choice((1, 1, 2)),
            "topologyKey": key,
            "whenUnsatisfiable": when,
            "labelSelector": self._selector(),
        }
        if when == "DoNotSchedule" and dice.random() < 0.2:
            found["minDomains"] = dice.choice((1, 2, 3))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if dice.random() < 0.2:
                found[policy] = dice.choice(("Honor", "Ignore"))
        if dice.random() < 0.15 and "matchLabels" in found["labelSelector"]:
            found["matchLabelKeys"] = ["v"]
        return found

    def budget(self, name: str) -> Raw:
        """A budget of pods with one label, some of which it still lets go."""
        dice = self.dice
        allowed = dice.choice((0, 0, 1, 2))
        status: dict[str, Any] = {
            "disruptionsAllowed": allowed,
            "observedGeneration": 1,
            "currentHealthy": allowed + 1,
            "desiredHealthy": 1,
            "expectedPods": allowed + 1,
        }
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": dice.choice(tuple(NAMESPACES))},
            "spec": {
                "minAvailable": 1,
                "selector": {} if dice.random() < 0.15 else {"matchLabels": {"app": dice.choice(APPS)}},
            },
            "status": status,
        }
