"""A document that may be old, or of which something is still looked for, says so in its headers."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.advisor import Known
from kubectl_plugin.console.web.answers import words_header
from scheduler_core.answers.queue.waiting import WaitingQueue, WaitingUnit
from tests.support.builders import make_quota
from tests.support.console_scene import Scene

STALE, SEARCHING = "X-Muster-Stale", "X-Muster-Searching"
UNIT = WaitingUnit(1, "Pod", "a", "p", 1, 0, 0.0, "nodes", "")


def test_old_figures_are_told_to_be_old() -> None:
    scene = Scene([make_quota("a/quota").min(cpu=1).max(cpu=2).dict()])
    with scene.as_viewer(Viewer("")) as client:
        before = client.get("/now?format=json")
        assert STALE not in before.headers
        scene.watch.told = "The connection to the server was refused"
        for path in ("/now?format=json", "/now", "/gangs?format=json"):
            assert client.get(path).headers[STALE] == scene.watch.told
        known = client.get("/now?format=json", headers={"If-None-Match": before.headers["ETag"]})
        assert (known.status_code, known.headers[STALE]) == (304, scene.watch.told)
        scene.watch.told = ""
        assert STALE not in client.get("/now?format=json").headers


@pytest.mark.parametrize(
    ("known", "length", "headers"),
    [
        (Known(problem="the queue is being computed"), None, {STALE: "the queue is being computed"}),
        (Known(WaitingQueue((UNIT,)), serial=1, searching=True), 1, {SEARCHING: "starts, step"}),
        (Known(WaitingQueue((UNIT,)), serial=1, problem="too many"), 1, {STALE: "too many"}),
        (Known(WaitingQueue((UNIT,)), serial=1), 1, {}),
    ],
)
def test_a_queue_that_is_not_known_yet_is_not_empty(
    known: Known, length: int | None, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene()
    monkeypatch.setattr(scene.advisor, "queue", lambda: known)
    with scene.as_viewer(Viewer("")) as client:
        answer: Any = client.get("/queue?format=json")
    assert answer.json["length"] == length
    assert {name: answer.headers[name] for name in (STALE, SEARCHING) if name in answer.headers} == headers


def test_words_of_a_header_are_one_line_of_ascii() -> None:
    assert words_header("X", ("a\r\nSet-Cookie: b", "", "\u202ec")) == (("X", "a Set-Cookie: b; \\u202ec"),)
    assert words_header("X", ("",)) == ()
