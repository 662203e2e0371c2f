"""What is wrong with a form: the same status as page and as document, and the words alone."""

from __future__ import annotations

import html

import pytest

from kubectl_plugin.console.access.viewer import Viewer
from tests.support.builders import make_quota
from tests.support.console_scene import Scene


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene([make_quota("a/quota").min(cpu=2).max(cpu=4).dict()])


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"set": "nonsense"}, "nonsense: must have the form"),
        ({"set": "quota/a:max.cpu=1"}, "exceeds spec.max[cpu]=1"),
        ({"manifest": "kind: ["}, "the manifest"),
    ],
)
def test_a_form_that_cannot_be_answered(scene: Scene, form: dict[str, str], words: str) -> None:
    with scene.as_viewer(Viewer("")) as client:
        page = client.post("/what-if", data=form)
        document = client.post("/what-if?format=json", data=form)
    assert (page.status_code, document.status_code) == (422, 422)
    message = document.json["message"]
    assert words in message
    assert not message.startswith(("error", "what if"))
    assert message in html.unescape(page.text)
    for typed in form.values():
        assert typed in html.unescape(page.text)


@pytest.mark.parametrize("length", [300_000, 2_000_000])
def test_a_text_that_is_too_long_has_another_way(scene: Scene, length: int) -> None:
    with scene.as_viewer(Viewer("")) as client:
        answer = client.post("/what-if", data={"manifest": "#" * length})
    assert answer.status_code == 413
    assert "kubectl elasticquota what-if -f FILE" in answer.text
