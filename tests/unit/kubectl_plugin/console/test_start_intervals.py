"""When waiting work starts, as the queue tells it."""

from __future__ import annotations

import re

import pytest

from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.advisor import Known
from scheduler_core.answers.queue.advice import Advice, QueueAdvice, StartRange
from scheduler_core.answers.queue.waiting import WaitingQueue, WaitingUnit
from tests.support.console_scene import NOW, Scene


@pytest.mark.parametrize(
    ("latest", "words"),
    [(NOW + 60.2, "08:01:00"), (NOW + 90, "08:01:00 to 08:01:30"), (None, "08:01:00 at the earliest")],
    ids=["one moment", "an interval", "no end"],
)
def test_an_interval_of_one_moment_is_one_moment(
    latest: float | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = WaitingUnit(1, "Pod", "a", "p", 1, 0, NOW, "nodes", "")
    advice = Advice("Pod", "a", "p", StartRange(NOW + 60, NOW + 60, latest))
    known = Known(WaitingQueue((unit,)), QueueAdvice((advice,)))
    scene = Scene()
    monkeypatch.setattr(scene.advisor, "queue", lambda: known)
    with scene.as_viewer(Viewer("user")) as client:
        (row,) = re.findall(
            "<tr role=.row.>.*?</tr>", client.get("/queue").text.partition("<tbody")[2], re.DOTALL
        )
    text = re.sub(r"2027-01-15T|Z\b", "", re.sub("<[^>]*>", " ", row))
    assert words in " ".join(text.split())
    assert text.count("08:01:00") == 1
