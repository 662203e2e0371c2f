"""Answers that are kept: how many, how long, and of which version; and words in headers."""

from __future__ import annotations

import pytest

from kubectl_plugin.console.cluster.recent_answers import RecentAnswers
from kubectl_plugin.console.web.answers import AnswerCache, CachedAnswer, words_header
from kubectl_plugin.console.web.origins import origin_problem


def answer(text: str) -> CachedAnswer:
    return CachedAnswer(text.encode(), text, "text/plain")


def test_an_answer_is_used_for_its_version_only() -> None:
    cache = AnswerCache()
    cache.put("a", 1, answer("one"))
    assert cache.get("a", 1) == answer("one")
    assert (cache.get("a", 2), cache.get("b", 1), cache.get("b", None)) == (None, None, None)


def test_sixty_four_answers_are_kept_and_the_one_put_longest_ago_goes() -> None:
    cache = AnswerCache()
    for number in range(64):
        cache.put(number, 1, answer(str(number)))
    cache.put(0, 2, answer("again"))
    assert cache.get(1, 1) == answer("1")
    cache.put(64, 1, answer("64"))
    assert (cache.get(0, 2), cache.get(1, 1), cache.get(2, 1)) == (answer("again"), None, answer("2"))


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        pytest.param((), None, id="nothing"),
        pytest.param(("", ""), None, id="empty texts"),
        pytest.param(("a\n b", "", "c"), "a b; c", id="lines and gaps"),
        pytest.param(("ä🦀",), "\\xe4\\U0001f980", id="other letters"),
        pytest.param(("x" * 1001,), "x" * 1000, id="too long"),
    ],
)
def test_words_of_a_header(texts: tuple[str, ...], value: str | None) -> None:
    assert words_header("X", texts) == ((("X", value),) if value is not None else ())


def test_a_recent_answer_is_used_again() -> None:
    now, asked = [0.0], []

    def ask() -> int:
        asked.append(now[0])
        return len(asked)

    recent: RecentAnswers[int] = RecentAnswers(lambda: now[0])
    assert recent.get("a", 1, ask, 10) == (1, True)
    now[0] = 9.5
    assert recent.get("a", 2, ask, 10) == (1, False)
    assert recent.get("b", 2, ask, 10) == (2, True)
    now[0] = 10.0
    assert recent.get("a", 1, ask, 10) == (1, True)
    assert recent.get("a", 2, ask, 10) == (3, True)
    assert asked == [0.0, 9.5, 10.0]
    for number in range(62):
        recent.get(number, 2, ask, 10)
    assert (recent.get("a", 2, ask, 10), recent.get("b", 2, ask, 10)) == ((3, True), (2, True))
    recent.get("more", 2, ask, 10)
    assert recent.get("a", 2, ask, 10) == (3, True)
    assert recent.get("b", 2, ask, 10) == (67, True)
    assert recent.get(0, 2, ask, 10) == (4, True)


HERE = frozenset({"localhost:1"})
OTHERS = "requests of other sites are refused"


@pytest.mark.parametrize(
    ("method", "headers", "hosts", "problem"),
    [
        pytest.param("GET", {"host": "localhost:1"}, HERE, "", id="its own name"),
        pytest.param(
            "GET", {"host": "evil"}, HERE, "this console does not answer as 'evil'", id="another name"
        ),
        pytest.param("GET", {}, HERE, "this console does not answer as ''", id="no name"),
        pytest.param("GET", {"host": "any"}, frozenset(), "", id="any name"),
        pytest.param("GET", {"sec-fetch-site": "none"}, frozenset(), "", id="typed"),
        pytest.param("GET", {"sec-fetch-site": "same-origin"}, frozenset(), "", id="its own page"),
        pytest.param("GET", {"sec-fetch-site": "same-site"}, frozenset(), OTHERS, id="the same site"),
        pytest.param("GET", {"sec-fetch-site": "cross-site"}, frozenset(), OTHERS, id="another site"),
        pytest.param(
            "GET",
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
            frozenset(),
            "",
            id="a link",
        ),
        pytest.param(
            "POST",
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
            frozenset(),
            OTHERS,
            id="a form",
        ),
        pytest.param("POST", {"host": "h:1", "origin": "http://h:1"}, frozenset(), "", id="its own form"),
        pytest.param("POST", {"host": "h:1", "origin": "http://h:2"}, frozenset(), OTHERS, id="another port"),
        pytest.param("POST", {"host": "h:1", "origin": "null"}, frozenset(), OTHERS, id="no origin"),
        pytest.param("POST", {"origin": "http://h:1"}, frozenset(), OTHERS, id="an origin without a host"),
        pytest.param("POST", {"host": "h", "origin": "http://[h"}, frozenset(), OTHERS, id="odd origin"),
    ],
)
def test_requests_that_come_from_elsewhere(
    method: str, headers: dict[str, str], hosts: frozenset[str], problem: str
) -> None:
    assert origin_problem(method, headers, hosts) == problem
