"""Random trees of quotas: sums, admission and claims equal a slow oracle, and no guarantee is lost."""

from __future__ import annotations

import random
from typing import Any

from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.quota_group import parse_quota_group
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import admit
from scheduler_core.simulate import Simulation
from tests.support.every import every_seed
from tests.support.quota_trees import GPU, Tree, random_tree
from tests.support.searches import cases

LEDGERS = cases(120, least=20)
WORLDS = cases(60, least=10)


def _put(ledger: QuotaLedger, tree: Tree, dice: random.Random) -> None:
    """The objects of a tree, in any order."""
    objects = list(tree.objects())
    dice.shuffle(objects)
    for raw in objects:
        if raw["kind"] == "QuotaGroup":
            ledger.put_group(parse_quota_group(raw))
        else:
            ledger.put_quota(parse_elastic_quota(raw))


@every_seed(range(LEDGERS), each=40)
def test_admission_equals_the_oracle(seed: int) -> None:
    dice = random.Random(seed)
    tree, ledger = random_tree(dice), QuotaLedger()
    pods: dict[str, tuple[str, int]] = {}
    early = dice.random() < 0.5
    if early:
        _put(ledger, tree, dice)
    for number in range(30):
        namespace, size = dice.choice(list(tree.quotas)), dice.randint(1, 3)
        use = {name: sum(size for space, size in pods.values() if space == name) for name in tree.quotas}
        refusal = admit(ledger, namespace, {GPU: size})
        if early:
            assert (refusal.rule if refusal else "") == tree.refusal(namespace, size, use)
        if refusal is None:
            pods[f"p{number}"] = (namespace, size)
            ledger.charge(namespace, f"p{number}", {GPU: size})
        if pods and dice.random() < 0.3:
            uid = dice.choice(list(pods))
            ledger.refund(pods.pop(uid)[0], uid)
        if pods and dice.random() < 0.2:
            uid = dice.choice(list(pods))
            ledger.mark_leaving(pods[uid][0], uid)
        if dice.random() < 0.1:
            _put(ledger, tree, dice)
            early = True
        if pods and dice.random() < 0.3:
            namespaces = {space: {GPU: size, "pods": 1} for space, size in pods.values()}
            assert _falls_by(ledger, pods) == ledger.frees(namespaces).get(GPU, 0)
        assert ledger.check() == []


def _falls_by(ledger: QuotaLedger, pods: dict[str, tuple[str, int]]) -> int:
    """By how much the use of all quotas falls when the last pod of each namespace ends."""
    last = {space: uid for uid, (space, _) in pods.items()}
    before = ledger.in_use().get(GPU, 0)
    ending = {uid: ledger.is_leaving(space, uid) for space, uid in last.items()}
    for space, uid in last.items():
        ledger.refund(space, uid)
    found = before - ledger.in_use().get(GPU, 0)
    for space, uid in last.items():
        ledger.charge(space, uid, {GPU: pods[uid][1]})
        if ending[uid]:
            ledger.mark_leaving(space, uid)
    return found


class World:
    """One node with as many GPUs as are guaranteed; pods come and go one by one."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.tree = random_tree(self.dice)
        self.simulation = Simulation()
        self.made = 0
        amounts = {GPU: str(max(1, self.tree.total())), "pods": "1000"}
        self.create({"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": amounts}})
        for raw in self.tree.objects():
            self.create(raw)

    def create(self, raw: dict[str, Any]) -> None:
        self.simulation.create(raw)

    def pods(self, *, bound: bool) -> dict[str, tuple[str, int]]:
        """Namespace and size of the pods with or without a node, by name."""
        found = {}
        for pod in self.simulation.scheduler.state.pods.values():
            if (pod.uid in self.simulation.scheduler.state.placed) == bound:
                found[pod.name] = (pod.namespace, pod.requests.get(GPU, 0))
        return found

    def use(self) -> dict[str, int]:
        found = dict.fromkeys(self.tree.quotas, 0)
        for namespace, size in self.pods(bound=True).values():
            found[namespace] += size
        return found

    def owed(self) -> list[str]:
        """Waiting pods that would stay within the min of their quota."""
        use = self.use()
        waiting = self.pods(bound=False).items()
        return [name for name, (space, size) in waiting if self.tree.within_min(space, size, use)]

    def step(self) -> None:
        bound = self.pods(bound=True)
        if bound and self.dice.random() < 0.3:
            name = self.dice.choice(list(bound))
            self.simulation.delete({"kind": "Pod", "metadata": {"name": name, "namespace": bound[name][0]}})
            self.simulation.run()
            return
        namespace, size = self.dice.choice(list(self.tree.quotas)), self.dice.choice([1, 1, 1, 2, 3])
        self.made += 1
        before, owed = self.use(), self.owed()
        resources = {"limits": {GPU: str(size)}}
        spec = {
            "schedulerName": "muster-scheduler",
            "containers": [{"name": "c", "resources": resources}],
            "priority": self.dice.choice([0, 0, 5]),
        }
        meta = {"name": f"p{self.made}", "namespace": namespace}
        self.create({"kind": "Pod", "metadata": meta, "spec": spec})
        self.simulation.run()
        now = self.pods(bound=True)
        victims: dict[str, list[int]] = {}
        for name, (space, lost) in bound.items():
            if name not in now and space != namespace:
                victims.setdefault(space, []).append(lost)
        # Otherwise it is not certain for whom they went.
        alone = now.keys() - bound.keys() == {meta["name"]}
        if victims and not owed and alone:
            assert list(self.tree.wrongs(namespace, size, before, victims)) == []


@every_seed(range(WORLDS), each=20)
def test_no_guarantee_is_lost(seed: int) -> None:
    world = World(seed)
    for _ in range(25):
        world.step()
        assert world.owed() == []
        use = world.use()
        for name in world.tree.quotas:
            # What is in use fits all rules, so that asking for nothing more is not refused.
            assert world.tree.refusal(name, 0, use) in ("", "sum(min)")
        assert world.simulation.scheduler.state.check() == []
