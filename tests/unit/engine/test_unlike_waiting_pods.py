"""Many waiting pods that all differ: an event asks, and tries, no more of them than it can help.

Each hint that is asked costs microseconds, and each attempt milliseconds in which nobody else is tried.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.decisions import Placed, Rejected
from scheduler_core.engine.events import QueueingHints
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, rejected

HOST = "kubernetes.io/hostname"
MANY = 60


def near(number: int) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": f"missing-{number}"}}, "topologyKey": HOST}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(number: int) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": f"counted-{number}"}}
    rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**rule, "labelSelector": selector}]


def large(number: int) -> PodBuilder:
    return make_pod(f"a/w{number}").uid(f"w{number}").requests(cpu=2, memory=f"{100 + number}Mi")


KINDS = [
    pytest.param(large, id="requests of its own"),
    pytest.param(lambda number: large(number).selector(**{HOST: "n0"}), id="one full node"),
    pytest.param(lambda number: large(number).spec(affinity=near(number)), id="a neighbour that is missing"),
    pytest.param(
        lambda number: large(number).spec(topologySpreadConstraints=spread(number)), id="a spread of its own"
    ),
]


class Asked:
    """A cluster that is full of pods of quota a, within whose min more pods wait; other is another quota.

    `hints` and `tried` count what happens with the waiting pods.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
        self.hints = self.tried = 0
        self.made = GangScheduler()
        for number in range(3):
            self.put(make_node(f"n{number}").allocatable(cpu=4, memory="64Gi").labels(**{HOST: f"n{number}"}))
        self.put(
            make_quota("a/q").min(cpu=200, memory="999Gi"), make_quota("b/q").min(cpu=200, memory="999Gi")
        )
        self.put(*(self.runs(f"first{number}", 3, f"n{number}") for number in range(3)))
        self.put(self.runs("passes", 1, "n0"))
        self.put(*(kind(number) for number in range(MANY)))
        self.step()
        wake = QueueingHints.wake

        def asked(*args: Any) -> Any:
            self.hints += 1
            return wake(*args)

        monkeypatch.setattr(QueueingHints, "wake", asked)
        self.hints = self.tried = 0

    def put(self, *objects: Any) -> None:
        for builder in objects:
            self.made.scheduler.put(builder.obj(), self.made.now)

    def runs(self, name: str, cpu: int, node: str) -> PodBuilder:
        return make_pod(f"a/{name}").uid(name).requests(cpu=cpu, memory="1Mi").on(node).started(900.0)

    def step(self) -> None:
        found = self.made.step(20.0)
        self.tried += sum(isinstance(item, Placed | Rejected) for item in found)


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_the_quota_that_come_and_go_try_none_whom_they_do_not_help(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    asked = Asked(monkeypatch, kind)
    for _ in range(3):
        asked.put(asked.runs("passes", 1, "n0").labels(app="other"))
        asked.step()
        asked.put(asked.runs("passes", 1, "n0").labels(app="other").deleting(30.0))
        asked.step()
        asked.made.scheduler.remove(asked.runs("passes", 1, "n0").obj(), asked.made.now)
        asked.step()
        asked.put(asked.runs("passes", 1, "n0"))
        asked.step()
    assert (asked.hints, asked.tried) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_others_that_start_ask_none_of_them(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    asked = Asked(monkeypatch, kind)
    asked.made.scheduler.remove(asked.runs("passes", 1, "n0").obj(), asked.made.now)
    asked.step()
    asked.hints = asked.tried = 0
    asked.put(make_pod("b/other").uid("other").requests(cpu=1))
    asked.step()
    assert (asked.hints, asked.tried) == (0, 1)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_room_for_one_of_them_is_found(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    asked = Asked(monkeypatch, kind)
    asked.made.scheduler.remove(asked.runs("first0", 3, "n0").obj(), asked.made.now)
    found = [item.pod.name for item in asked.made.step(20.0) if isinstance(item, Placed)]
    assert found == ["w0"]


@pytest.mark.parametrize("most", [9, 40], ids=["the max of their quota", "the sum of min"])
@pytest.mark.parametrize("namespace", ["a", "b"])
def test_a_pod_that_leaves_tries_none_whom_quotas_refuse_even_without_it(most: int, namespace: str) -> None:
    made = GangScheduler([64])
    for name in ("a", "b"):
        made.scheduler.put(make_quota(f"{name}/q").min(cpu=10).max(cpu=most).obj(), made.now)
    for name in ("a", "b"):
        made.put(*(make_pod(f"{name}/r{i}").uid(f"{name}{i}").requests(cpu=1).on("n0") for i in range(9)))
    waiting = (make_pod(f"a/w{number}").uid(f"w{number}") for number in range(MANY))
    made.put(*(pod.requests(cpu=6, memory=f"{100 + i}Mi") for i, pod in enumerate(waiting)))
    assert len(made.step()) == MANY
    made.put(make_pod(f"{namespace}/r0").uid(f"{namespace}0").requests(cpu=1).on("n0").deleting(1030.0))
    assert made.step(20.0) == []


def test_a_pod_of_the_namespace_asks_none_whose_spread_does_not_count_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wake, asked = QueueingHints.wake, list[Any]()
    monkeypatch.setattr(QueueingHints, "wake", lambda *args: asked.append(args) or wake(*args))
    made = GangScheduler()
    for name, cpu in (("open", 64), ("full", 1)):
        node = make_node(name).allocatable(cpu=cpu, memory="64Gi", pods=500).labels(**{HOST: name})
        made.scheduler.put(node.obj(), made.now)
    for number in range(MANY):
        made.put(make_pod(f"a/c{number}").uid(f"c{number}").labels(app=f"counted-{number}").on("open"))
        waits = make_pod(f"a/w{number}").uid(f"w{number}").requests(cpu=2).labels(app=f"counted-{number}")
        made.put(waits.spec(topologySpreadConstraints=spread(number)))
    assert len(rejected(made.step())) == MANY
    asked.clear()
    made.put(make_pod("a/other").uid("other").labels(app="other").on("open"))
    made.put(make_pod("a/c7").uid("c7").labels(app="no longer").on("open"))
    found = made.step(20.0)
    assert ([item.pod.name for item in found], len(asked)) == (["w7"], 1)
