"""After any history a PodGroup says what a controller would that has just been started.

Pods come, are assumed, bound, refused, evicted, end and go; the group is deleted and made again under its
name; writes are refused because somebody else was faster, are lost, or are seen late.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Patch
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_group, make_node, make_pod
from tests.support.every import every_seed
from tests.support.searches import cases

HISTORIES = cases(150)
RESTS = 12
KEY = "a/g PodGroup"


class History:
    """The API's objects, the state that was told of them, and a controller that was there all the time."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.state = ClusterState()
        self.state.put_node(make_node("n").allocatable(cpu=99).obj())
        self.controller = GangStatusController(others={"other"})
        self.now = 100.0
        self.serial = 0
        self.pods: dict[str, PodBuilder] = {}
        self.group: dict[str, Any] | None = None
        self.unseen: list[dict[str, Any]] = []
        self.make_group()

    def step(self) -> None:
        actions: list[Callable[[], None]] = [self.come, self.assume, self.bind, self.fail, self.refuse]
        actions += [
            self.change,
            self.terminate,
            self.go,
            self.evict,
            self.spare,
            self.reconcile,
            self.reconcile,
        ]
        actions += [self.see, self.drop_group if self.group else self.make_group]
        self.now += self.dice.choice((0.1, 0.4, 1.5))
        self.dice.choice(actions)()

    # The group

    def make_group(self) -> None:
        self.serial += 1
        made = make_group("a/g").needs(self.dice.randint(1, 3)).uid(f"g{self.serial}").version("1")
        self.group = made.dict()
        self.unseen.append(self.group)
        if self.dice.random() < 0.7:
            self.see()

    def drop_group(self) -> None:
        self.group, self.unseen = None, []
        gang = self.state.gangs.gangs.get(KEY)
        if gang is not None:
            self.state.remove_gang(gang)

    def see(self) -> None:
        """The watch brings what it has not brought yet."""
        for version in self.unseen:
            self.state.put_gang(parsed(version))
        self.unseen = []

    def reconcile(self) -> None:
        for write in self.controller.reconcile(self.state, self.now):
            assert isinstance(write, Patch)
            self.write(write)

    def write(self, patch: Patch) -> None:
        group = self.group
        meta = group["metadata"] if group is not None else {}
        fits = (patch.uid, patch.resource_version) == (meta.get("uid"), meta.get("resourceVersion"))
        if group is None or not fits or self.dice.random() < 0.1:
            gang = self.state.gangs.gangs.get(KEY)
            if gang is not None:
                self.state.gangs.mark(gang.ref)
            return
        assert isinstance(patch.body, dict)
        version = str(int(meta["resourceVersion"]) + 1)
        self.group = {**group, "metadata": {**meta, "resourceVersion": version}, **patch.body}
        self.unseen.append(self.group)

    # Its pods

    def come(self) -> None:
        self.serial += 1
        pod = make_pod(f"a/p{self.serial}").uid(f"p{self.serial}").group("g")
        if self.dice.random() < 0.2:
            pod.gate("wait")
        if self.dice.random() < 0.2:
            pod.scheduler("other")
        self.put(pod)

    def put(self, pod: PodBuilder) -> None:
        self.pods[pod.meta["uid"]] = pod
        self.state.put_pod(pod.obj(), self.now)

    def some(self, *, assigned: bool) -> PodBuilder | None:
        found = [pod for pod in self.pods.values() if pod.obj().assigned is assigned]
        return self.dice.choice(found) if found else None

    def assume(self) -> None:
        pod = self.some(assigned=False)
        if pod is not None and pod.meta["uid"] not in self.state.placed and not pod.obj().finished:
            self.state.assume(pod.obj(), 0, self.now)

    def bind(self) -> None:
        pod = self.some(assigned=False)
        if pod is not None and not pod.obj().finished:
            self.put(pod.on("n", "Pending").status(conditions=self.condition("True")))

    def fail(self) -> None:
        self.state.forget(self.dice.choice([*self.pods, "none"]))

    def refuse(self) -> None:
        pod = self.some(assigned=False)
        if pod is not None:
            self.put(pod.status(conditions=self.condition("False")))

    def condition(self, status: str) -> list[dict[str, str]]:
        since = format_micro_time(self.now)
        return [{"type": "PodScheduled", "status": status, "message": "m", "lastTransitionTime": since}]

    def change(self) -> None:
        pod = self.some(assigned=True)
        if pod is not None:
            self.put(pod.status(phase=self.dice.choice(("Running", "Succeeded", "Failed"))))

    def terminate(self) -> None:
        if self.pods:
            self.put(self.pods[self.dice.choice(list(self.pods))].deleting(self.now))

    def go(self) -> None:
        uid = self.dice.choice([*self.pods, "none"])
        if self.pods.pop(uid, None) is not None:
            self.state.remove_pod(uid)

    def evict(self) -> None:
        self.state.mark_leaving(self.dice.choice([*self.pods, "none"]))

    def spare(self) -> None:
        self.state.reprieve(self.dice.choice([*self.pods, "none"]))

    def rest(self) -> None:
        """Nothing happens any more; the writes that are due come through."""
        for _ in range(8):
            self.now += 2.0
            self.see()
            self.reconcile()
        self.see()


def parsed(raw: dict[str, Any]) -> Gang:
    group = make_group("a/g")
    group.raw = raw
    return group.obj()


def told(status: dict[str, Any]) -> dict[str, Any]:
    """A status without the times of its conditions."""
    conditions = {
        item["type"]: (item["status"], item["reason"], item["message"]) for item in status["conditions"]
    }
    return {**status, "conditions": conditions}


def fresh(history: History) -> dict[str, Any]:
    """What a controller writes that knows nothing but the state."""
    assert history.group is not None
    state = history.state
    state.put_gang(parsed({name: value for name, value in history.group.items() if name != "status"}))
    (patch,) = GangStatusController(others={"other"}).reconcile(state, history.now)
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    state.put_gang(parsed(history.group))
    history.reconcile()
    found: dict[str, Any] = patch.body["status"]
    return found


@every_seed(range(HISTORIES), each=50)
def test_a_status_is_that_of_a_controller_just_started(seed: int) -> None:
    history = History(seed)
    for _ in range(RESTS):
        for _ in range(history.dice.randint(1, 8)):
            history.step()
        history.rest()
        if history.group is not None:
            assert told(history.group["status"]) == told(fresh(history)), f"seed {seed}"
