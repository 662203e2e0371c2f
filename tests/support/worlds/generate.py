"""Random worlds: the first objects, and step after step what happens to them. One integer names a world."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.support.worlds import objects as make
from tests.support.worlds.endings import going
from tests.support.worlds.leavers import Leavers
from tests.support.worlds.natives import Natives
from tests.support.worlds.objects import GPU, HOSTNAME, ZONE, Raw, reference
from tests.support.worlds.others import Others
from tests.support.worlds.player import Player, World, play
from tests.support.worlds.reading import finished, gated, group_of, namespace, node_of
from tests.support.worlds.shapes import APPS, NAMESPACES, POOLS, TAINTS, ZONES, Shapes

# Longer than the queue's flush and the patience of gangs.
LONG: Final = 310


class Dreamer:
    """Invents a world: `first` objects, then a step for the cluster as it is, until it has had enough."""

    def __init__(self, seed: int, *, fair: bool = False, slow: bool = False) -> None:
        self.dice = dice = random.Random(seed)
        topology = dice.random() < 0.12
        self.shapes = Shapes(dice, topology=topology)
        if fair:
            self.shapes.sharing = random.Random(f"sharing {seed}")
        self.namespaces = list(NAMESPACES[: dice.choice((1, 2, 2, 3, 3, 4))])
        self.length = dice.randint(3, 12)
        # What comes later than what needs it, and pods that their controllers will make anew.
        self.late: list[Raw] = []
        self.reborn: list[Raw] = []
        # In a part of the worlds others place pods past us, in a part there are more native groups. They have
        # dice of their own, so that all else is as it would be without them.
        self.others = Others(random.Random(f"others {seed}"), self.namespaces)
        self.natives = Natives(seed, self.shapes, self.namespaces)
        # In slow worlds pods take their time to end, and nodes are lost meanwhile.
        self.leavers = Leavers(random.Random(f"leavers {seed}")) if slow else None
        self.world: World = {
            "name": f"world {seed}",
            "seed": seed,
            "topology": topology,
            "fair": fair,
            "grace": dice.random() < 0.3,
            "slow": slow,
            "objects": self._first(),
            "steps": [],
        }
        if self.leavers is not None:
            self.leavers.author(self.world["objects"])

    def _first(self) -> list[Raw]:
        dice, shapes = self.dice, self.shapes
        found = [shapes.node(f"n{i + 1}") for i in range(dice.choice((1, 1, 2, 2, 3, 4, 5)))]
        if shapes.spice >= 0.3:
            found.append(make.late_class())
        share = dice.choice((0.0, 0.5, 0.8, 1.0))
        found += [shapes.quota(ns) for ns in self.namespaces if dice.random() < share]
        found += [self._budget() for _ in range(dice.choice((0, 0, 0, 1, 2)))]
        for _ in range(dice.randint(1, 6)):
            found += self._work()
        if shapes.sharing is not None:
            found += self._borrowers(shapes.sharing)
        return found + self.natives.first()

    def _borrowers(self, dice: random.Random) -> list[Raw]:
        """What nobody else uses, and who wants it: a quota without pods, nodes for its min, and much work."""
        amounts = {"cpu": str(dice.choice((2, 4, 6))), "pods": "110", "memory": "8Gi", GPU: "2"}
        low = {"cpu": amounts["cpu"], GPU: dice.choice(("0", "1", "2"))}
        found = [make.node("lent", amounts), make.quota("lender", low, {})]
        found += [self.shapes.quota(ns) for ns in self.namespaces if dice.random() < 0.7]
        for _ in range(dice.randint(3, 8)):
            found += self._work()
        return found

    def _budget(self) -> Raw:
        dice = self.dice
        name = self.shapes.name("b")
        return make.budget(dice.choice(self.namespaces), name, dice.choice(APPS), dice.choice((0, 0, 1)))

    def _work(self) -> list[Raw]:
        """Pods alone, several alike, or a gang."""
        dice, shapes = self.dice, self.shapes
        ns, what = dice.choice(self.namespaces), dice.random()
        if what < 0.3:
            return shapes.gang(ns)
        if what < 0.5:
            shape, priority = dice.choice(shapes.specs), dice.choice((0, 0, 5, 10))
            return [shapes.pod(ns, shape=shape, priority=priority) for _ in range(dice.randint(2, 4))]
        pod = shapes.pod(ns)
        if dice.random() < 0.3 * shapes.spice:
            return self._with_volume(pod)
        return [pod]

    def _with_volume(self, pod: Raw) -> list[Raw]:
        """The pod with a claim: one of a node's or zone's volume, one that waits, one that comes later."""
        dice, ns = self.dice, namespace(pod)
        name = self.shapes.name("claim")
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        if dice.random() < 0.4:
            made = [make.claim(ns, name)]
        else:
            where, value = dice.choice(((ZONE, "z1"), (ZONE, "z2"), (HOSTNAME, "n1"), (HOSTNAME, "n2")))
            volume = make.volume(f"v-{name}", where, value, (ns, name))
            made = [volume, make.claim(ns, name, f"v-{name}")]
        if dice.random() < 0.4:
            self.late += made
            return [pod]
        return [*made, pod]

    # Steps

    def step(self, player: Player) -> Raw | None:
        """The next step, or None when the world has lived long enough."""
        if len(self.world["steps"]) >= self.length:
            return None
        self.reborn += [self._again(pod) for pod in player.died if self.dice.random() < 0.7]
        player.died.clear()
        step: Raw = {"delete": [], "patch": [], "create": [], "advance": 0}
        for _ in range(self.dice.choice((1, 1, 1, 2, 3))):
            act = self.dice.choices(_ACTS, _WEIGHTS)[0]
            act(self, player, step)
        self.others.act(player, step)
        self.natives.act(player, step)
        if self.reborn and self.dice.random() < 0.8:
            step["create"] += self.reborn
            self.reborn = []
        if self.leavers is not None:
            self.leavers.act(player, step)
        if self.dice.random() < 0.3:
            step["advance"] += self.dice.choice((1, 10, 10, 60, 60, LONG))
        return {name: value for name, value in step.items() if value}

    def _again(self, pod: Raw) -> Raw:
        """A pod as its controller makes it anew."""
        own = pod["metadata"]
        meta = {name: own[name] for name in ("labels", "annotations", "namespace") if name in own}
        spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
        name = self.shapes.name(f"{own['name'].split('.')[0]}.")
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": name}, "spec": spec}

    def _some(self, player: Player, kind: str, wanted: Callable[[Raw], Any] = bool) -> Raw | None:
        found = [obj for obj in player.objects.all(kind) if wanted(obj)]
        return self.dice.choice(found) if found else None

    def _patch(self, step: Raw, obj: Raw, patch: Raw) -> None:
        step["patch"].append({**reference(obj), "patch": patch})

    def _end(self, step: Raw, obj: Raw) -> None:
        named = reference(obj)
        if named not in step["delete"]:
            step["delete"].append(named)

    # Acts on pods

    def work(self, player: Player, step: Raw) -> None:
        step["create"] += self._work()

    def given(self, player: Player, step: Raw) -> None:
        """A pod that somebody else has bound."""
        node = self._some(player, "Node")
        if node is not None:
            pod = self.shapes.pod(self.dice.choice(self.namespaces))
            pod["spec"].pop("schedulingGates", None)
            pod["spec"]["nodeName"] = node["metadata"]["name"]
            step["create"].append(pod)

    def end_pod(self, player: Player, step: Raw) -> None:
        pod = self._some(player, "Pod")
        if pod is not None:
            self._end(step, pod)

    def end_running(self, player: Player, step: Raw) -> None:
        pod = self._some(player, "Pod", node_of)
        if pod is not None:
            self._end(step, pod)

    def end_leaving(self, player: Player, step: Raw) -> None:
        """Pods on their way out are gone; sometimes not all of them."""
        for pod in player.objects.all("Pod"):
            if going(pod) and self.dice.random() < 0.7:
                self._end(step, pod)

    def leave(self, player: Player, step: Raw) -> None:
        pod = self._some(player, "Pod", lambda pod: node_of(pod) and not going(pod))
        if pod is not None:
            self._patch(step, pod, {"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z"}})

    def finish(self, player: Player, step: Raw) -> None:
        pod = self._some(player, "Pod", lambda pod: node_of(pod) and not finished(pod))
        if pod is not None:
            self._patch(step, pod, {"status": {"phase": self.dice.choice(("Succeeded", "Failed"))}})

    def relabel_pod(self, player: Player, step: Raw) -> None:
        pod = self._some(player, "Pod")
        if pod is not None:
            app = self.dice.choice((*APPS, None))
            self._patch(step, pod, {"metadata": {"labels": {"app": app}}})

    def ungate(self, player: Player, step: Raw) -> None:
        for pod in player.objects.all("Pod"):
            if gated(pod):
                self._patch(step, pod, {"spec": {"schedulingGates": None}})

    def join_late(self, player: Player, step: Raw) -> None:
        """A pod gets its group's annotation after it was made."""
        pod = self._some(player, "Pod", lambda pod: group_of(pod) is None)
        if pod is None:
            return
        groups = [
            group
            for group in player.objects.all("PodGroup")
            if namespace(group) == namespace(pod) and group["apiVersion"] == make.INCUBATOR
        ]
        name = self.dice.choice(groups)["metadata"]["name"] if groups else self.shapes.name("g")
        if not groups:
            self.late.append(make.group("incubator", namespace(pod), name, self.dice.choice((1, 2))))
        self._patch(step, pod, make.join("incubator", name))

    # Acts on nodes

    def add_node(self, player: Player, step: Raw) -> None:
        step["create"].append(self.shapes.node(self.shapes.name("m")))

    def end_node(self, player: Player, step: Raw) -> None:
        node = self._some(player, "Node")
        if node is None or len(player.objects.all("Node")) < 2:
            return
        self._end(step, node)
        for pod in player.objects.all("Pod"):
            if node_of(pod) == node["metadata"]["name"] and self.dice.random() < 0.7:
                self._end(step, pod)

    def cordon(self, player: Player, step: Raw) -> None:
        node = self._some(player, "Node")
        if node is not None:
            new = None if node["spec"].get("unschedulable") else True
            self._patch(step, node, {"spec": {"unschedulable": new}})

    def taint(self, player: Player, step: Raw) -> None:
        node = self._some(player, "Node")
        if node is not None:
            new = None if node["spec"].get("taints") else [make.taint(self.dice.choice(TAINTS))]
            self._patch(step, node, {"spec": {"taints": new}})

    def relabel_node(self, player: Player, step: Raw) -> None:
        node = self._some(player, "Node")
        if node is not None:
            name, values = self.dice.choice(((ZONE, ZONES), ("pool", POOLS)))
            new = self.dice.choice(values) if self.dice.random() < 0.8 else None
            self._patch(step, node, {"metadata": {"labels": {name: new}}})

    def resize_node(self, player: Player, step: Raw) -> None:
        node = self._some(player, "Node")
        if node is not None:
            new = {"cpu": str(self.dice.choice((1, 2, 3, 4, 6, 8)))}
            self._patch(step, node, {"status": {"allocatable": new, "capacity": new}})

    # Acts on quotas, groups, budgets

    def quota(self, player: Player, step: Raw) -> None:
        """A quota comes or goes, or says something else."""
        ns = self.dice.choice(self.namespaces)
        new = self.shapes.quota(ns)
        old = self._some(player, "ElasticQuota", lambda quota: namespace(quota) == ns)
        if old is None:
            step["create"].append(new)
        elif self.dice.random() < 0.25:
            self._end(step, old)
        else:
            spec = {"min": None, "max": None}
            self._patch(step, old, {"spec": spec})
            self._patch(step, old, {"spec": new["spec"]})

    def group(self, player: Player, step: Raw) -> None:
        """A group is deleted and made again later, or needs another number of members."""
        group = self._some(player, "PodGroup")
        if group is None:
            return
        if self.dice.random() < 0.4:
            self._end(step, group)
            again = {name: group[name] for name in ("apiVersion", "kind", "spec")}
            own = group["metadata"]
            again["metadata"] = {n: own[n] for n in ("name", "namespace", "annotations") if n in own}
            self.late.append(again)
            return
        minimum = self.dice.choice((1, 2, 3))
        field: Raw = {"minMembers": minimum}
        if group["apiVersion"] == make.X_GROUPS:
            field = {"minMember": minimum}
        elif group["apiVersion"] == make.NATIVE:
            field = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        self._patch(step, group, {"spec": field})

    def orphans(self, player: Player, step: Raw) -> None:
        """The pods of a gang come, their group later."""
        group, *pods = self.shapes.gang(self.dice.choice(self.namespaces))
        self.late.append(group)
        step["create"] += pods

    def member(self, player: Player, step: Raw) -> None:
        """One more pod for a group that is there."""
        like = self._some(player, "Pod", lambda pod: group_of(pod) is not None)
        if like is not None:
            step["create"].append(self._again(like))

    def arrive(self, player: Player, step: Raw) -> None:
        """What was late comes: groups, claims, volumes."""
        step["create"] += self.late
        self.late = []

    def budget(self, player: Player, step: Raw) -> None:
        budget = self._some(player, "PodDisruptionBudget")
        if budget is None:
            step["create"].append(self._budget())
        else:
            allowed = 1 - int(budget["status"]["disruptionsAllowed"])
            self._patch(step, budget, {"status": {"disruptionsAllowed": allowed}})

    def wait(self, player: Player, step: Raw) -> None:
        step["advance"] += self.dice.choice((10, 30, LONG))


_TABLE: Final = (
    (Dreamer.work, 30),
    (Dreamer.given, 3),
    (Dreamer.end_pod, 6),
    (Dreamer.end_running, 8),
    (Dreamer.end_leaving, 8),
    (Dreamer.leave, 6),
    (Dreamer.finish, 6),
    (Dreamer.relabel_pod, 4),
    (Dreamer.ungate, 3),
    (Dreamer.join_late, 3),
    (Dreamer.add_node, 5),
    (Dreamer.end_node, 4),
    (Dreamer.cordon, 5),
    (Dreamer.taint, 5),
    (Dreamer.relabel_node, 5),
    (Dreamer.resize_node, 5),
    (Dreamer.quota, 8),
    (Dreamer.group, 5),
    (Dreamer.orphans, 4),
    (Dreamer.member, 4),
    (Dreamer.arrive, 6),
    (Dreamer.budget, 3),
    (Dreamer.wait, 4),
)
_ACTS: Final = [act for act, _ in _TABLE]
_WEIGHTS: Final = [weight for _, weight in _TABLE]


def live(seed: int, *, fair: bool = False, slow: bool = False, judged: bool = True) -> tuple[World, Player]:
    """Make the world of a seed while it is played; `fair`: in which borrowers take from each other; `slow`:
    in which pods take their time to end.
    """
    dreamer = Dreamer(seed, fair=fair, slow=slow)
    player = play(dreamer.world, dreamer.step, judged=judged)
    return dreamer.world, player
