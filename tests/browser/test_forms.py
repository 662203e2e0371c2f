"""What people type: it comes back as it was typed, with or without script, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Viewed, refused
from tests.support.view_cluster import GPU, team

pytestmark = pytest.mark.timeout(240)
Look = Callable[..., Page]
# Lines, indents with a tab, an empty line at both ends, and marks of HTML.
MANIFEST = f"""
apiVersion: v1
kind: Pod
metadata: {{name: one-more, namespace: {team(3)}}}
spec:
  schedulerName: muster-scheduler # </textarea> & "quotes" 'and'
  containers:
  - {{name: main, image: example.com/a, resources: {{limits: {{{GPU}: 1}}}}}}
"""
BAD = [
    pytest.param(
        f"quota/{team(0)}:max.cpu=ten", "", ["spec.max[cpu]", "'ten' is not a quantity"], id="no quantity"
    ),
    pytest.param(f"quota/{team(0)}:max.cpu=1", "", ["min[cpu]=64", "max[cpu]=1"], id="max below min"),
    pytest.param("quota/nobody:max.cpu=20", "", ["nobody"], id="no such quota"),
    pytest.param("anything", "", ["anything", "form"], id="no bound"),
    pytest.param("", "a: 1\nkind: [\n", ["the manifest", "YAML"], id="no YAML"),
    pytest.param("", "apiVersion: v1\n\n\tkind: Pod", ["the manifest", "tab"], id="a tab"),
    pytest.param("", "apiVersion: v1\nkind: Widget\nmetadata: {name: a}", ["Widget"], id="no such kind"),
    pytest.param("", "<script>\nwindow.hacked = 1\n</script>", ["the manifest"], id="a script"),
]


@pytest.fixture(params=["with script", "without script"])
def form(request: pytest.FixtureRequest, standing: Viewed, look: Look) -> Page:
    """The page of what-if."""
    page = look(standing, java_script_enabled=request.param == "with script")
    page.goto(f"{standing.url}/what-if")
    return page


def compare(page: Page) -> None:
    """Send the form, and wait for the page that answers."""
    with page.expect_navigation():
        page.get_by_role("button", name="Compare").click()


@pytest.mark.parametrize(("bound", "manifest", "words"), BAD)
def test_bad_input_is_told_and_kept(form: Page, bound: str, manifest: str, words: list[str]) -> None:
    form.get_by_label("Change a quota").fill(bound)
    form.get_by_label("Or add objects").fill(manifest)
    compare(form)
    told = form.get_by_role("alert").inner_text()
    assert [word for word in words if word not in told] == []
    expect(form.get_by_label("Change a quota")).to_have_value(bound)
    expect(form.get_by_label("Or add objects")).to_have_value(manifest)
    refused(form)


def test_a_pasted_manifest_is_tried_kept_and_not_written(form: Page, standing: Viewed) -> None:
    form.get_by_label("Or add objects").fill(MANIFEST)
    for _ in range(2):
        # What comes back is sent again, and is still the same.
        compare(form)
        expect(form.locator("#live")).to_contain_text(f"{team(3)}/one-more on node-")
        expect(form.get_by_label("Or add objects")).to_have_value(MANIFEST)
    pods = standing.cluster.request("GET", f"/api/v1/namespaces/{team(3)}/pods")["items"]
    assert "one-more" not in {item["metadata"]["name"] for item in pods}


def test_a_changed_bound_has_a_before_and_an_after(form: Page) -> None:
    form.get_by_label("Change a quota").fill(f"quota/{team(1)}:max.{GPU}=20")
    compare(form)
    row = form.locator("tbody tr").filter(has_text=team(1)).filter(has_text=GPU)
    before, after = (row.locator("td").nth(column) for column in (2, 3))
    expect(before).to_contain_text("(min 8, max 32)")
    expect(after).to_contain_text("(min 8, max 20)")


def test_forms_of_search_work_without_script(standing: Viewed, look: Look) -> None:
    page = look(standing, java_script_enabled=False)
    for path, label, shown in (("/now", "Quota", ".card .who"), ("/gangs", "Gang", "tbody .who")):
        page.goto(standing.url + path)
        page.get_by_label(label, exact=True).fill(team(5).upper())
        with page.expect_navigation():
            page.get_by_role("button", name="Show").click()
        assert set(page.locator(shown).all_inner_texts()) == {team(5)}
        page.get_by_label(label, exact=True).fill("nobody's")
        with page.expect_navigation():
            page.get_by_role("button", name="Show").click()
        expect(page.locator(".empty")).to_contain_text("nobody's")


@pytest.mark.parametrize("query", ["from=-1", "from=x", "from=99999999", "from=%00", "sort=%22%3E", "q=%ff"])
def test_parameters_that_mean_nothing_are_no_error(standing: Viewed, query: str) -> None:
    assert standing.session.ask(f"/now?{query}").status == 200


@pytest.mark.parametrize("path", ["/now", "/queue", "/what-if", "/topology", "/history"])
def test_what_has_the_keyboard_is_marked(standing: Viewed, look: Look, path: str) -> None:
    page = look(standing)
    page.goto(standing.url + path)
    for _ in range(16):
        page.keyboard.press("Tab")
        tag, style, width = page.evaluate(
            "() => { const own = document.activeElement, style = getComputedStyle(own);"
            " return [own.tagName, style.outlineStyle, parseFloat(style.outlineWidth)]; }"
        )
        assert tag == "BODY" or (style != "none" and width >= 1), (tag, style, width)


@pytest.mark.parametrize("path", ["/now", "/queue", "/what-if", "/topology", "/history"])
def test_paper_has_nothing_to_press(standing: Viewed, look: Look, path: str) -> None:
    page = look(standing)
    page.goto(standing.url + path)
    page.emulate_media(media="print")
    for pressed in (".top nav", ".chips", ".skip", "button"):
        assert not [item for item in page.locator(pressed).all() if item.is_visible()], pressed
    expect(page.locator("h1")).to_be_visible()
    if path == "/now":
        expect(page.locator("article").first).to_be_visible()
