"""Kubernetes' own groups with all of their fields, and what happens to them at run time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.support.worlds import objects as make
from tests.support.worlds.objects import HOSTNAME, ZONE, Raw, reference
from tests.support.worlds.player import Player
from tests.support.worlds.reading import finished, gated, group_key, group_of, namespace, node_of
from tests.support.worlds.shapes import PRIORITIES, Shapes

# The part of the worlds in which such groups are made, and of the steps of such a world.
SHARE: Final = 0.3
OFTEN: Final = 0.7
# The last one is a label that no node has.
KEYS: Final = (ZONE, ZONE, HOSTNAME, HOSTNAME, "rack")
HOLD: Final = "muster.dev/hold-quota"
HOLDS: Final = ("30s", "5m", "10m")


class Natives:
    """Native groups of a world, with the dice of their own; pods have the `shapes` of the world."""

    def __init__(self, seed: int, shapes: Shapes, namespaces: list[str]) -> None:
        self.dice = random.Random(f"natives {seed}")
        self.there = self.dice.random() < SHARE
        self.shapes = shapes
        self.namespaces = namespaces
        self.late: list[Raw] = []
        self.number = 0

    def first(self) -> list[Raw]:
        """Groups and pods of the beginning."""
        if not self.there:
            return []
        return [obj for _ in range(self.dice.choice((1, 1, 2))) for obj in self._form()]

    def act(self, player: Player, step: Raw) -> None:
        """Add what happens to groups to a step."""
        if not self.there or self.dice.random() >= OFTEN:
            return
        acts: tuple[tuple[Callable[[Player, Raw], None], int], ...] = (
            (self.form, 5),
            (self.grow, 3),
            (self.minimum, 4),
            (self.remake, 2),
            (self.arrive, 4),
            (self.ungate, 2),
            (self.lose, 2),
            (self.fail_node, 1),
            (self.hold, 1),
            (self.wait, 1),
        )
        self.dice.choices([act for act, _ in acts], [weight for _, weight in acts])[0](player, step)

    def form(self, player: Player, step: Raw) -> None:
        step["create"] += self._form()

    def _form(self) -> list[Raw]:
        """A group and its pods, in any order; sometimes one of the two comes later."""
        dice = self.dice
        self.number += 1
        ns, name = dice.choice(self.namespaces), f"t{self.number}"
        minimum, priority = dice.choice((1, 2, 2, 3, 3, 4, 5)), dice.choice((*PRIORITIES, 20))
        key = dice.choice(KEYS) if dice.random() < 0.35 else ""
        group = make.group("native", ns, name, minimum, key)
        spec = group["spec"]
        spec["priority"] = priority
        if dice.random() < 0.25:
            spec["schedulingPolicy"], minimum = {"basic": {}}, dice.choice((1, 2, 3))
        elif dice.random() < 0.4:
            spec["disruptionMode"] = {"all": {}}
        policy = dice.choice(("", "", "", "", "", "PreemptLowerPriority", "Never"))
        if policy:
            spec["preemptionPolicy"] = policy
        if dice.random() < 0.25:
            group["metadata"]["annotations"] = {HOLD: dice.choice(HOLDS)}
        shape = dice.choice(self.shapes.specs)
        mixed = dice.random() < 0.25
        pods = []
        for _ in range(max(1, minimum + dice.choice((-1, 0, 0, 0, 1, 2, 3)))):
            other = dice.choice(self.shapes.specs) if mixed else shape
            pods.append(self._member(group, other))
        if dice.random() < 0.1:
            dice.choice(pods)["spec"]["schedulingGates"] = [{"name": "hold"}]
        when = dice.random()
        if when < 0.15:
            self.late.append(group)
            return pods
        if when < 0.25:
            self.late += pods[1:]
            return [*pods[:1], group]
        return [*pods, group] if when < 0.4 else [group, *pods]

    def _member(self, group: Raw, shape: Raw | None = None) -> Raw:
        """A pod of a group, which rarely contradicts it."""
        dice, spec = self.dice, group["spec"]
        self.number += 1
        own = group["metadata"]
        requests = dict((shape or dice.choice(self.shapes.specs))["requests"])
        pod = make.pod(own["namespace"], f"{own['name']}-{self.number}", requests)
        pod["spec"] |= self._beyond_requests(shape or {})
        pod["spec"] |= {
            "priority": spec.get("priority", 0) if dice.random() < 0.97 else dice.choice(PRIORITIES),
            "schedulingGroup": {"podGroupName": own["name"]},
        }
        if spec.get("preemptionPolicy"):
            pod["spec"]["preemptionPolicy"] = spec["preemptionPolicy"]
        if shape and shape.get("app"):
            pod["metadata"]["labels"] = {"app": shape["app"]}
        return pod

    def _beyond_requests(self, shape: Raw) -> Raw:
        names = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
        return {name: shape[name] for name in names if name in shape}

    def grow(self, player: Player, step: Raw) -> None:
        """More members, also beyond the minimum."""
        group = self._group(player)
        if group is not None:
            own = [pod for pod in player.objects.all("Pod") if _is_member(pod, group)]
            for _ in range(self.dice.choice((1, 1, 2))):
                pod = self._member(group)
                if own and self.dice.random() < 0.7:
                    like = self.dice.choice(own)["spec"]
                    names = ("containers", "nodeSelector", "tolerations", "affinity")
                    pod["spec"] |= {name: like[name] for name in names if name in like}
                step["create"].append(pod)

    def minimum(self, player: Player, step: Raw) -> None:
        """The minimum is raised or lowered."""
        gang = self._group(player, lambda group: (group["spec"].get("schedulingPolicy") or {}).get("gang"))
        if gang is not None:
            old = gang["spec"]["schedulingPolicy"]["gang"]["minCount"]
            new = max(1, old + self.dice.choice((-2, -1, 1, 2)))
            patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": new}}}}
            step["patch"].append({**reference(gang), "patch": patch})

    def remake(self, player: Player, step: Raw) -> None:
        """A group is deleted, and made again at once or later."""
        group = self._group(player)
        if group is None:
            return
        own = group["metadata"]
        again = {name: group[name] for name in ("apiVersion", "kind", "spec")}
        again["metadata"] = {name: own[name] for name in ("name", "namespace", "annotations") if name in own}
        step["delete"].append(reference(group))
        (step["create"] if self.dice.random() < 0.4 else self.late).append(again)

    def arrive(self, player: Player, step: Raw) -> None:
        """What was late comes."""
        step["create"] += self.late
        self.late = []

    def ungate(self, player: Player, step: Raw) -> None:
        for pod in player.objects.all("Pod"):
            if gated(pod) and group_of(pod):
                step["patch"].append({**reference(pod), "patch": {"spec": {"schedulingGates": None}}})

    def lose(self, player: Player, step: Raw) -> None:
        """A running member fails, or is deleted, and its controller makes another one."""
        group = self._group(player)
        own = [] if group is None else [pod for pod in player.objects.all("Pod") if _is_member(pod, group)]
        there = [pod for pod in own if node_of(pod) and not finished(pod)]
        if group is not None and there:
            gone = self.dice.choice(there)
            if self.dice.random() < 0.5:
                step["patch"].append({**reference(gone), "patch": {"status": {"phase": "Failed"}}})
            else:
                step["delete"].append(reference(gone))
            new = self._member(group)
            new["spec"]["containers"] = gone["spec"]["containers"]
            step["create"].append(new)

    def fail_node(self, player: Player, step: Raw) -> None:
        """A node under a group is gone; its pods are deleted with it, or later."""
        pods = [pod for pod in player.objects.all("Pod") if node_of(pod) and _native(pod)]
        nodes = {node["metadata"]["name"]: node for node in player.objects.all("Node")}
        names = sorted({node_of(pod) for pod in pods} & set(nodes))
        if names and len(nodes) > 1:
            name = self.dice.choice(names)
            step["delete"].append(reference(nodes[name]))
            for pod in player.objects.all("Pod"):
                if node_of(pod) == name and self.dice.random() < 0.8:
                    step["delete"].append(reference(pod))

    def hold(self, player: Player, step: Raw) -> None:
        """A group begins or ceases to hold quota."""
        group = self._group(player)
        if group is not None:
            holds = HOLD in (group["metadata"].get("annotations") or {})
            value = None if holds else self.dice.choice(HOLDS)
            patch = {"metadata": {"annotations": {HOLD: value}}}
            step["patch"].append({**reference(group), "patch": patch})

    def wait(self, player: Player, step: Raw) -> None:
        step["advance"] += self.dice.choice((20, 60, 310, 700))

    def _group(self, player: Player, wanted: Callable[[Raw], Any] = bool) -> Raw | None:
        groups = [obj for obj in player.objects.all("PodGroup") if obj["apiVersion"] == make.NATIVE]
        found = [group for group in groups if wanted(group)]
        return self.dice.choice(found) if found else None


def _native(pod: Raw) -> bool:
    return group_key(pod).endswith(" native")


def _is_member(pod: Raw, group: Raw) -> bool:
    own = group["metadata"]
    return group_key(pod) == f"{own['namespace']}/{own['name']} native" and namespace(pod) == own["namespace"]
