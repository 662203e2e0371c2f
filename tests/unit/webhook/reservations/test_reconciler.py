"""The thread that looks after ledgers: each in turn, whatever goes wrong with one of them."""

from __future__ import annotations

from typing import Any, cast

from scheduler_core.kube.errors import ServiceUnavailable
from webhook.reservations.reconciler import LedgerRecord, Reconciler


class Rig:
    """Store, holdings and watches of these namespaces; `broken` ones cannot be written."""

    def __init__(self, *namespaces: str, broken: tuple[str, ...] = ()) -> None:
        self.known = set(namespaces)
        self.broken = broken
        self.looked: list[str] = []
        self.kept: list[list[str]] = []
        self.stop_at = ""
        here = cast(Any, self)
        self.reconciler = Reconciler(here, LedgerRecord(here, here), interval=0.001)

    def namespaces(self) -> set[str]:
        return self.known

    def keep(self, namespaces: Any) -> None:
        self.kept.append(sorted(namespaces))

    def reconcile(self, namespace: str) -> bool:
        self.looked.append(namespace)
        if namespace == self.stop_at:
            self.reconciler.stop()
        if namespace in self.broken:
            raise ServiceUnavailable(503, "ServiceUnavailable", "no")
        return True


def test_every_namespace_is_looked_at_and_only_those_are_watched() -> None:
    rig = Rig("b", "a", "c")
    rig.reconciler.tick()
    assert (rig.looked, rig.kept) == (["a", "b", "c"], [["a", "b", "c"]])
    rig.known = set()
    rig.reconciler.tick()
    assert (len(rig.looked), rig.kept[-1]) == (3, [])


def test_trouble_with_one_does_not_stop_the_others() -> None:
    rig = Rig("a", "b", broken=("a",))
    rig.reconciler.tick()
    assert rig.looked == ["a", "b"]


def test_stopping_ends_the_round_and_the_watches() -> None:
    rig = Rig("a", "b")
    rig.stop_at = "a"
    rig.reconciler.tick()
    assert (rig.looked, rig.kept[-1]) == (["a"], [])


def test_the_thread_ends_when_it_is_told_to() -> None:
    rig = Rig("a")
    rig.reconciler.join(1.0)
    rig.stop_at = "a"
    rig.reconciler.start()
    rig.reconciler.join(60)
    assert rig.looked == ["a"]


def test_pods_of_a_namespace_are_watched_while_any_ledger_needs_them() -> None:
    one, other = Rig("a", "b"), Rig("b", "c")
    both = (cast(Any, one), cast(Any, other))
    Reconciler(both[0], *(LedgerRecord(rig, rig) for rig in both)).tick()
    assert (one.kept, other.kept) == ([["a", "b", "c"]], [])
    assert (one.looked, other.looked) == (["a", "b"], ["b", "c"])
