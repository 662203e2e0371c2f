"""What is put aside for a unit that starts beside a kept gang, and counts where evictions are looked for."""

from __future__ import annotations

import pytest

from scheduler_core.engine.backfill import Backfill
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node, make_pod


class Kept:
    """Nodes kept for g0 and g1, and one that h evicted for."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.state.put_node(make_node("n").allocatable(cpu=8).obj())
        self.backfill = Backfill(self.state.nominations)
        for uid in ("g0", "g1", "h"):
            self.state.put_pod(make_pod(f"a/{uid}").uid(uid).requests(cpu=1).obj())
        self.nominate("h", kept=False)
        self.keep()
        self.state.nominations.freed = False

    def nominate(self, uid: str, *, kept: bool) -> None:
        pod = self.state.pods[uid]
        self.state.nominations.put(pod, "n", self.state.vector(pod), kept=kept)

    def keep(self) -> None:
        for uid in ("g0", "g1"):
            self.nominate(uid, kept=True)

    @property
    def seen(self) -> set[str]:
        return {item.pod.uid for item in self.state.nominations.waiting(lambda _: True)}


ALL = {"g0", "g1", "h"}


def test_evictions_are_looked_for_with_what_is_put_aside_and_nothing_else_is() -> None:
    made = Kept()
    with made.backfill.aside(("g0", "g1"), made.keep):
        assert made.seen == {"h"}
        with made.backfill.all_kept():
            assert made.seen == ALL
            with made.backfill.all_kept():
                assert made.seen == ALL
            assert made.seen == ALL, "the search of a gang asks for each member"
        assert made.seen == {"h"}
        with made.backfill.all_kept():
            assert made.seen == ALL
    assert made.seen == ALL
    assert not made.state.nominations.freed, "nobody is told that room was given up"


def test_where_nothing_is_put_aside_nothing_changes() -> None:
    made = Kept()
    with made.backfill.all_kept():
        assert made.seen == ALL
    assert made.seen == ALL


def test_an_exception_leaves_the_state_as_it_was() -> None:
    made = Kept()
    with made.backfill.aside(("g0", "g1"), made.keep):
        with pytest.raises(KeyError), made.backfill.all_kept():
            raise KeyError
        assert made.seen == {"h"}
    with pytest.raises(KeyError), made.backfill.aside(("g0", "g1"), made.keep):
        raise KeyError
    assert made.seen == ALL
    with made.backfill.all_kept():
        assert made.seen == ALL
    assert made.seen == ALL, "nothing is put aside any more"
