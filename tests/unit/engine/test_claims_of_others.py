"""Claims that come, change and go: they concern pods of their own namespace, and cost others nothing.

A tenant may change a claim fifty times a second, and each change asked all pods that waited for volumes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_core.engine.events import QueueingHints
from tests.support.builders import make_pod
from tests.support.gang_scheduler import GangScheduler, placed
from tests.support.storage_builders import make_claim

MANY = 40


class Waiting:
    """Pods of namespace b that each wait for a claim that is missing; `asked` counts hints about them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        wake = QueueingHints.wake

        def counted(*args: object) -> object:
            self.asked += 1
            return wake(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(QueueingHints, "wake", counted)
        self.made = GangScheduler([4])
        for at in range(MANY):
            volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": f"c{at}"}}]
            pod = make_pod(f"b/p{at}").uid(f"p{at}").requests(cpu=f"{at + 1}m").spec(volumes=volumes)
            self.made.put(pod)
        assert placed(self.made.step()) == {}
        self.asked = 0

    def put(self, key: str) -> None:
        self.made.scheduler.put(make_claim(key).obj(), self.made.now)

    def go(self, key: str) -> None:
        self.made.scheduler.remove(make_claim(key).obj(), self.made.now)


CHANGES: dict[str, tuple[Callable[[Waiting], None], int]] = {
    "a claim of another namespace comes": (lambda world: world.put("a/c0"), 0),
    "a claim of another namespace goes": (lambda world: world.go("a/c0"), 0),
    "a claim of their own comes": (lambda world: world.put("b/c0"), MANY),
    "a claim of their own goes": (lambda world: world.go("b/c0"), 0),
}


@pytest.mark.parametrize(("change", "asked"), CHANGES.values(), ids=list(CHANGES))
def test_whom_a_claim_asks(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Waiting], None], asked: int
) -> None:
    world = Waiting(monkeypatch)
    change(world)
    assert world.asked == asked
