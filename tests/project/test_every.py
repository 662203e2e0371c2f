"""A loop over cases names each that fails and goes on; the names of cases say what is tried."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import every
from tests.support.case_ids import MOST_NUMBERS, case_id, nameless
from tests.support.every import assert_no_faults, every_case, every_seed


def test_every_seed_is_played_and_each_that_fails_is_named() -> None:
    played = []

    @every_seed(range(7))
    def rule(seed: int) -> None:
        played.append(seed)
        assert seed % 3, "a multiple of 3"

    with pytest.raises(AssertionError) as failed:
        rule()
    said = str(failed.value).splitlines()
    assert played == list(range(7))
    assert said[0] == "3 of 7 fail, the first one as above:"
    assert [line.partition(":")[0] for line in said[1:4]] == ["seed 0", "seed 3", "seed 6"]
    assert said[4].startswith(
        "Alone: MUSTER_SEED=0 .venv/bin/python -m pytest 'tests/project/test_every.py::"
    )
    assert isinstance(failed.value.__cause__, AssertionError)


def test_one_seed_can_be_played_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every, "SEED", "4711")
    played = []
    every_seed(range(7), each=2)(lambda seed: played.append(seed))()
    assert played == [4711]


def test_many_seeds_are_several_tests() -> None:
    @every_seed(range(10, 15), each=2)
    def rule(seed: int) -> None:
        assert seed < 14

    (mark,) = rule.pytestmark  # type: ignore[attr-defined]
    assert mark.kwargs["ids"] == ["seeds 10 to 11", "seeds 12 to 13", "seed 14"]
    rule(part=mark.args[1][0])
    with pytest.raises(AssertionError, match="1 of 1 fail"):
        rule(part=mark.args[1][2])


def test_a_loop_takes_the_other_arguments_of_its_test() -> None:
    @every_case("low, high", [(1, 2), pytest.param(4, 3, id="upside down"), (6, 5)])
    def rule(low: int, high: int, most: int) -> None:
        assert low < high < most, "wrong"

    with pytest.raises(AssertionError) as failed:
        rule(most=9)
    told = [line.partition(":")[0] for line in str(failed.value).splitlines()]
    assert told == ["2 of 3 fail, the first one as above", "upside down", "6, 5"]


def test_an_exception_is_a_failure_like_any_other() -> None:
    @every_case("text", ["1", "x", "3"], str)
    def rule(text: str) -> None:
        int(text)

    with pytest.raises(AssertionError, match=r"1 of 3 fail(.|\n)*x: ValueError: invalid literal"):
        rule()


def test_what_ends_a_test_ends_the_loop_and_says_at_which_case() -> None:
    played = []

    @every_seed(range(3))
    def rule(seed: int) -> None:
        played.append(seed)
        pytest.fail("the limit of time")

    with pytest.raises(pytest.fail.Exception) as ended:
        rule()
    assert played == [0]
    assert ended.value.__notes__ == ["while seed 0 was played"]


@pytest.mark.parametrize(
    "loop", [lambda: every_case("x", []), lambda: every_seed(range(0))], ids=["cases", "seeds"]
)
def test_a_loop_over_nothing_is_no_test(loop: Any) -> None:
    with pytest.raises(ValueError, match="there are no"):
        loop()


def test_faults_are_told_one_a_line() -> None:
    assert_no_faults([])
    with pytest.raises(AssertionError, match=r"^2 faults:\na\nb$"):
        assert_no_faults(iter("ab"))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (7, "size=7"),
        ("1.5", "size=1.5"),
        ("", "size="),
        (b"ab", "ab"),
        ((), "size="),
        (["get", "-o", "yaml"], "get -o yaml"),
        ({"a": {"x", "b"}}, "a: b x"),
        ("a sentence", None),
        (None, "None"),
        (object(), "object"),
        ([object()], "list"),
    ],
    ids=[
        "a number",
        "text of digits",
        "no text",
        "bytes",
        "an empty list",
        "words",
        "a mapping to a set",
        "a sentence is its own name",
        "nothing",
        "an object",
        "a list with an object",
    ],
)
def test_a_case_is_named_after_its_values(value: object, name: str | None) -> None:
    assert case_id(value, "size") == name


def item(name: str, **params: Any) -> Any:
    return SimpleNamespace(
        nodeid=f"test_x.py::test_y[{name}]", callspec=SimpleNamespace(id=name, params=params)
    )


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([item("17", seed=17)], "17 is no name"),
        ([item("0-3.5", seed=0, cost=3.5)], "0-3.5 is no name"),
        ([item("Pod3", pod=SimpleNamespace())], ""),
        ([item("SimpleNamespace3", pod=SimpleNamespace())], "pytest made up the name SimpleNamespace3"),
        ([item(f"size={size}", size=size) for size in range(MOST_NUMBERS)], ""),
        ([item(f"size={size}", size=size) for size in range(MOST_NUMBERS + 1)], "differ by numbers alone"),
        ([item("seeds 0 to 49", part=range(50))], ""),
        ([SimpleNamespace(nodeid="test_x.py::test_y")], ""),
    ],
    ids=[
        "a seed",
        "numbers",
        "a name with a number",
        "pytest's own numbering",
        "few numbers",
        "many numbers",
        "a part of the seeds",
        "no table",
    ],
)
def test_names_that_say_nothing_are_found(items: list[Any], said: str) -> None:
    found = nameless(items)
    assert bool(found) is bool(said)
    assert all(said in line for line in found.values())
