"""Pods, nodes and answers come and go in any order: who waits for an answer gets one, nothing is kept."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.config.schema import Extender
from scheduler_core.engine.decisions import Asked, Decision, Evicted, Placed
from scheduler_core.engine.extenders import asking
from scheduler_core.engine.extenders import parked as parking
from scheduler_core.engine.extenders.parked import FEW
from scheduler_core.engine.queue.unit import Part
from scheduler_core.model.extending import NodesQuestion
from tests.support.builders import PodBuilder, make_group, make_node, make_pod
from tests.support.extended import Extended
from tests.support.searches import cases

EXTENDER = Extender(url_prefix="http://x", filter_verb="f", preempt_verb="v")
NAMES = 9


class Turmoil:
    """`out` are the questions without an answer, `waiting` and `running` the pods, by uid."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.made = Extended([random.randint(1, 4) for _ in range(4)], EXTENDER)
        self.out: dict[int, Any] = {}
        self.waiting: dict[str, PodBuilder] = {}
        self.running: dict[str, PodBuilder] = {}
        self.serial = 0
        for name in "gh":
            self.put(make_group(f"a/{name}").uid(name).needs(random.randint(1, 3)))

    def put(self, builder: Any) -> None:
        self.made.scheduler.put(builder.obj(), self.made.now)

    def come(self) -> None:
        """A pod, perhaps in the place of one of its name."""
        self.serial += 1
        name = f"p{self.random.randrange(NAMES)}"
        for uid in [uid for uid in (*self.waiting, *self.running) if uid.split("-")[0] == name]:
            self.go(uid)
        uid = f"{name}-{self.serial}"
        pod = make_pod(f"a/{name}").uid(uid).requests(cpu=self.random.randint(1, 2))
        pod = pod.priority(self.random.choice([0, 0, 5]))
        gang = self.random.choice(["", "", "g", "h"])
        self.waiting[uid] = pod.group(gang) if gang else pod
        self.put(self.waiting[uid])

    def go(self, uid: str) -> None:
        pod = self.waiting.pop(uid, None) or self.running.pop(uid)
        self.made.scheduler.remove(pod.obj(), self.made.now)

    def change(self) -> None:
        if self.waiting:
            uid = self.random.choice(list(self.waiting))
            pod = self.waiting[uid]
            more = pod.labels(form=f"{self.serial}"), pod.requests(cpu=self.random.randint(1, 3))
            self.waiting[uid] = self.random.choice(more)
            self.put(self.waiting[uid])

    def leave(self) -> None:
        if self.waiting or self.running:
            self.go(self.random.choice([*self.waiting, *self.running]))

    def node(self) -> None:
        name = f"n{self.random.randrange(5)}"
        self.put(make_node(name).allocatable(cpu=self.random.randint(1, 5), pods=9))

    def answer(self) -> None:
        if self.out:
            question = self.out.pop(self.random.choice(list(self.out)))
            error = "down" if self.random.random() < 0.15 else ""
            if isinstance(question, NodesQuestion):
                refused = {name: "no" for name in question.nodes if self.random.random() < 0.5}
                self.made.answer(question, {} if error else refused, error=error)
            else:
                some = [pod.uid for pod in question.victims if self.random.random() < 0.7]
                self.made.agree(question, *some, error=error)

    def step(self, later: float) -> None:
        self.made.now += later
        for item in self.made.step():
            self.heed(item)
        self.check()

    def heed(self, item: Decision) -> None:
        if isinstance(item, Asked):
            self.out[item.question.number] = item.question
        elif isinstance(item, Placed):
            pod = self.waiting[item.pod.uid]
            if self.random.random() < 0.2:
                self.made.scheduler.bind_failed(item.pod, self.made.now)
            else:
                self.running[item.pod.uid] = self.waiting.pop(item.pod.uid).on(item.node)
                self.put(pod.on(item.node))
        elif isinstance(item, Evicted) and item.pod.uid in self.running:
            self.go(item.pod.uid)

    def check(self) -> None:
        """Whoever is parked waits for an answer that is under way, or for a place that will get free."""
        units = self.made.scheduler.queue.units.values()
        parked = self.made.scheduler.asking.parked
        waits, standing = parked.waits, {key for line in parked.lines.values() for _, _, key in line}
        for unit in units:
            if unit.part is Part.ASKED:
                assert waits[unit.key].unit is unit
                assert set(waits[unit.key].asked) <= set(self.out)
                assert self.out
                assert waits[unit.key].asked or unit.key in standing
        assert all(self.made.scheduler.queue.get(uid) is not None for uid in self.waiting)


@settings(deadline=None, max_examples=cases(40))
@given(st.randoms(use_true_random=False))
def test_every_unit_gets_its_answer_and_nothing_is_kept(random: Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parking, "MOST_QUESTIONS", random.choice([1, 2, 5, 256]))
        patch.setattr(asking, "MOST_NODES", random.choice([1, 2, 1000]))
        patch.setattr(asking, "MOST_ROUNDS", random.choice([2, 4, 16]))
        world = Turmoil(random)
        acts = [world.come] * 4 + [world.answer] * 4 + [world.change, world.change, world.leave, world.node]
        for _ in range(80):
            random.choice(acts)()
            world.step(random.choice([0.0, 0.1, 1.0, 20.0]))
        for _ in range(400):
            world.answer()
            world.step(0.0)
            if not world.out:
                break
        assert not world.out
    extending = world.made.state.extending
    for kept in (
        extending.nodes,
        extending.forms,
        extending.excluded_nodes,
        extending.agreed,
        extending.proposed,
    ):
        assert len(kept) <= FEW + 2 * NAMES
    assert not any(unit.part is Part.ASKED for unit in world.made.scheduler.queue.units.values())
