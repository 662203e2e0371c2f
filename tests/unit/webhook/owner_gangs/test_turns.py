"""Turns: bounded in total and by namespace, and given back."""

from __future__ import annotations

from tests.support.kept import entries
from webhook.owner_gangs.turns import Turns


def test_one_namespace_cannot_take_the_turns_of_others() -> None:
    turns = Turns(most=4, share=2)
    assert [turns.take("a") for _ in range(3)] == [True, True, False]
    assert [turns.take("b") for _ in range(2)] == [True, True]
    assert not turns.take("c"), "all are taken"
    turns.give_back("a")
    assert turns.take("c")
    assert not turns.take("a")


def test_what_is_given_back_leaves_nothing_behind() -> None:
    turns = Turns(most=4, share=2)
    for number in range(100):
        assert turns.take(f"n{number}")
        turns.give_back(f"n{number}")
    assert entries(turns) == 0
