"""What random pods and groups are like; a world has a few shapes, so that pods of one class meet again."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

from scheduler_core.model.names import MIN_RUNTIME_ANNOTATION, WEIGHT_ANNOTATION
from scheduler_core.simulate.objects import merge_patch
from tests.support.worlds import objects as make
from tests.support.worlds.objects import GPU, HOSTNAME, ZONE, Raw

APPS: Final = ("red", "blue")
NAMESPACES: Final = ("a", "b", "c", "d")
ZONES: Final = ("z1", "z2")
POOLS: Final = ("p", "q")
TAINTS: Final = ("dedicated", "broken")
PRIORITIES: Final = (0, 0, 0, 5, 5, 10)
DIALECTS: Final = ("incubator", "incubator", "incubator", "x", "native")
TOPOLOGY_DIALECTS: Final = ("incubator", "native", "config", "config", "x")


class Shapes:
    """The shapes of one world, and how pods are made of them."""

    def __init__(self, dice: random.Random, *, topology: bool) -> None:
        self.dice = dice
        self.topology = topology
        self.dialects = TOPOLOGY_DIALECTS if topology else DIALECTS
        # How much of the world has to do with what beyond resources.
        self.spice = dice.choice((0.0, 0.1, 0.3, 0.6))
        self.specs = [self._spec() for _ in range(dice.randint(2, 5))]
        self.number = 0
        # Dice for weights and times of quotas, where these matter.
        self.sharing: random.Random | None = None

    def name(self, prefix: str) -> str:
        """A name that nobody had before."""
        self.number += 1
        return f"{prefix}{self.number}"

    def requests(self) -> dict[str, str]:
        dice = self.dice
        found = {"cpu": dice.choice(("1", "1", "1", "2", "2", "3", "500m"))} if dice.random() < 0.92 else {}
        if dice.random() < 0.2:
            found["memory"] = dice.choice(("1Gi", "2Gi"))
        if dice.random() < 0.2:
            found[GPU] = dice.choice(("1", "1", "2"))
        return found

    def _spec(self) -> Raw:
        """What pods of one shape have in their spec beyond the plain ones; with `labels` of theirs."""
        dice = self.dice
        spec: Raw = {"requests": self.requests()}
        for chance, add in (
            (1.0, self._selector),
            (0.6, self._toleration),
            (0.8, self._port),
            (1.0, self._neighbours),
            (0.8, self._spread),
            (0.2, self._init),
            (0.1, self._overhead),
            (0.2, self._deadline),
        ):
            if dice.random() < self.spice * chance * 0.6:
                add(spec)
        if dice.random() < 0.5:
            spec["app"] = dice.choice(APPS)
        return spec

    def _selector(self, spec: Raw) -> None:
        spec["nodeSelector"] = self.dice.choice(
            ({ZONE: "z1"}, {ZONE: "z2"}, {"pool": "p"}, {HOSTNAME: "n1"}, {HOSTNAME: "n2"})
        )

    def _toleration(self, spec: Raw) -> None:
        taint = self.dice.choice(TAINTS)
        spec["tolerations"] = [{"key": taint, "operator": "Exists", "effect": "NoSchedule"}]

    def _port(self, spec: Raw) -> None:
        spec["port"] = self.dice.choice((80, 80, 81))

    def _neighbours(self, spec: Raw) -> None:
        kind = self.dice.choice(("podAffinity", "podAntiAffinity", "podAntiAffinity"))
        term = make.near(self.dice.choice(APPS), self.dice.choice((HOSTNAME, ZONE)))
        spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def _spread(self, spec: Raw) -> None:
        app = self.dice.choice(APPS)
        spec["topologySpreadConstraints"] = [make.spread(app, self.dice.choice((HOSTNAME, ZONE)))]
        if self.dice.random() < 0.8:
            spec["app"] = app

    def _init(self, spec: Raw) -> None:
        spec["init"] = self.dice.choice(("2", "3"))

    def _deadline(self, spec: Raw) -> None:
        spec["activeDeadlineSeconds"] = self.dice.choice((60, 600))

    def _overhead(self, spec: Raw) -> None:
        spec["overhead"] = {"cpu": "500m"}

    def pod(
        self, namespace: str, name: str = "", shape: Raw | None = None, priority: int | None = None
    ) -> Raw:
        """A waiting pod of some shape."""
        dice = self.dice
        shape = dict(shape if shape is not None else dice.choice(self.specs))
        asked, app = shape.pop("requests"), shape.pop("app", "")
        port, init = shape.pop("port", 0), shape.pop("init", "")
        extra: dict[str, Any] = copy.deepcopy(shape)
        if dice.random() < 0.06:
            extra["preemptionPolicy"] = "Never"
        if dice.random() < 0.1 * self.spice:
            extra["schedulingGates"] = [{"name": "hold"}]
        pod = make.pod(namespace, name or self.name("p"), asked, **extra)
        pod["spec"]["priority"] = dice.choice(PRIORITIES) if priority is None else priority
        if port:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        if init:
            asked_first = {"requests": {"cpu": init}}
            pod["spec"]["initContainers"] = [{"name": "i", "image": "i", "resources": asked_first}]
        if app or dice.random() < 0.2:
            pod["metadata"]["labels"] = {"app": app or dice.choice(APPS)}
        return pod

    def gang(self, namespace: str) -> list[Raw]:
        """A group and its pods; the group is first in the list."""
        dice = self.dice
        dialect, minimum = dice.choice(self.dialects), dice.choice((1, 2, 2, 3, 3, 4))
        name = self.name("g")
        where = self._where(dialect) if self.topology and dice.random() < 0.5 else ""
        if dialect == "config" and not where:
            where = self._where(dialect)
        group = make.group(dialect, namespace, name, minimum, where)
        shape, priority = dice.choice(self.specs), dice.choice(PRIORITIES)
        if dialect == "native":
            self._native(group, priority)
        mixed = dice.random() < 0.3
        pods = []
        for i in range(max(1, minimum + dice.choice((-1, 0, 0, 0, 1, 2)))):
            other = mixed and dice.random() < 0.5
            pod = self.pod(
                namespace,
                f"{name}-{i}",
                dice.choice(self.specs) if other else shape,
                dice.choice(PRIORITIES) if mixed and dice.random() < 0.3 else priority,
            )
            if dialect == "native" and dice.random() < 0.95:
                # Members that differ from the group hold it back.
                pod["spec"]["priority"] = priority
                pod["spec"].pop("preemptionPolicy", None)
            pods.append(merge_patch(pod, make.join(dialect, name)))
        return [group, *pods]

    def _native(self, group: Raw, priority: int) -> None:
        """The fields that only Kubernetes' own groups have."""
        spec, dice = group["spec"], self.dice
        spec["priority"] = priority
        if dice.random() < 0.2:
            spec["schedulingPolicy"] = {"basic": {}}
        if dice.random() < 0.4:
            spec["disruptionMode"] = {"all": {}}

    def _where(self, dialect: str) -> str:
        dice = self.dice
        if dialect == "native":
            return dice.choice((ZONE, HOSTNAME))
        return dice.choice(
            (make.pack("zone", hard=True), make.pack("zone", hard=False), make.pack("node", hard=True))
        )

    def node(self, name: str) -> Raw:
        dice = self.dice
        amounts = {
            "cpu": str(dice.choice((1, 2, 2, 3, 4, 4, 6))),
            "memory": dice.choice(("2Gi", "4Gi", "64Gi")),
        }
        amounts["pods"] = dice.choice(("110", "110", "110", "3"))
        if dice.random() < 0.4:
            amounts[GPU] = dice.choice(("1", "2", "4"))
        labels = {}
        if dice.random() < 0.9 or self.topology:
            labels[ZONE] = dice.choice(ZONES)
        if dice.random() < 0.5:
            labels["pool"] = dice.choice(POOLS)
        taints = [make.taint(dice.choice(TAINTS))] if dice.random() < 0.3 * self.spice else []
        return make.node(
            name, amounts, labels=labels, taints=taints, unschedulable=dice.random() < 0.15 * self.spice
        )

    def quota(self, namespace: str) -> Raw:
        dice = self.dice
        low: dict[str, str] = {}
        high: dict[str, str] = {}
        if dice.random() < 0.9:
            low["cpu"] = str(dice.choice((0, 1, 2, 2, 3, 4, 6)))
        if dice.random() < 0.2:
            low["memory"] = dice.choice(("1Gi", "2Gi", "8Gi"))
        if dice.random() < 0.25:
            low[GPU] = dice.choice(("0", "1", "2"))
        if dice.random() < 0.05:
            low["pods"] = dice.choice(("1", "3"))
        for name, values in (("cpu", ("2", "4", "6")), (GPU, ("2", "4")), ("pods", ("2", "4"))):
            if dice.random() < 0.15:
                high[name] = str(max(int(dice.choice(values)), int(low.get(name, "0"))))
        if self.sharing is not None and "cpu" in low:
            low["cpu"] = self.sharing.choice(("0", "0", "1", low["cpu"]))
        found = make.quota(namespace, low, high)
        if self.sharing is not None:
            found["metadata"]["annotations"] = {
                WEIGHT_ANNOTATION: self.sharing.choice(("1", "1", "1", "2", "0.5", "0")),
                MIN_RUNTIME_ANNOTATION: self.sharing.choice(("0s", "0s", "60s")),
            }
        return found
