"""Nobody waits beside room that nobody can use before, and who evicted starts when its victims are gone."""

from __future__ import annotations

from tests.support.every import every_seed
from tests.support.searches import cases
from tests.support.waiting_histories import History, history_of

HISTORIES = cases(400, "MUSTER_WAITING_HISTORIES", least=40)


@every_seed(range(HISTORIES), each=40)
def test_free_room_is_never_idle_while_a_pod_waits_that_may_have_it(seed: int) -> None:
    assert list(history_of(seed).play()) == [], f"seed {seed}"


def test_two_nominations_do_not_follow_each_other_without_end() -> None:
    """A guaranteed pod and a borrower of another quota took each other's nomination within one turn."""
    assert list(History(24592).play()) == []


def test_a_borrower_that_only_the_sum_of_min_keeps_back_later_learns_that_others_use_less() -> None:
    """The numbers of its refusal were those of its QuotaGroup, and a pod beyond that group was lost."""
    assert list(History(42283, trees=True, moving=True).play()) == []


def test_who_waits_learns_that_a_pod_that_was_deleted_before_ends_sooner() -> None:
    assert list(History(34823, trees=True, moving=True).play()) == []
