"""Every page in a browser: it opens, tells its numbers, keeps itself current, and harms nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urljoin

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Response, ViewportSize, expect

from tests.browser.conftest import NODES, TEAMS, Restartable, Viewed, close_and_forgive, refused
from tests.support.eventually import eventually
from tests.support.every import assert_no_faults
from tests.support.view_cluster import GPU, gang, team

pytestmark = pytest.mark.timeout(240)
Look = Callable[..., Page]
PAGES = ("/now", "/lending", "/queue", "/gangs", "/topology", "/history", "/what-if")
ALL = (
    *PAGES,
    f"/gangs/{team(0)}/incubator.train",
    f"/gangs/{team(0)}/incubator.waits",
    "/gangs/evil/incubator.hostile",
)
# Their tables are cards on a phone.
TABLES = ("/queue", "/gangs", "/lending", f"/gangs/{team(0)}/incubator.train")
# Widths in pixels; A4 without its margins.
PHONE = 390
A4: ViewportSize = {"width": 718, "height": 1000}
# A swap of the script comes within its interval; a busy machine takes longer.
SWAP_MILLISECONDS = 30_000


# Names that break apart, with the dot before them.
APART = """[...document.querySelectorAll('.who')].filter(item => {
    const [dot, name] = [...item.children].map(child => child.getBoundingClientRect());
    return name.left < dot.right || name.top > dot.bottom;
}).map(item => item.textContent)"""
# The beginning of what is wider than its place.
CUT = """[...document.querySelectorAll('.wide')].filter(item => item.scrollWidth > item.clientWidth + 1)
    .map(item => item.innerHTML.slice(0, 200))"""


def cramped(page: Page) -> Iterator[str]:
    """What of an opened page does not fit a small screen and a phone."""
    for width in (1000, PHONE):
        page.set_viewport_size({"width": width, "height": 800})
        needed = page.evaluate("document.documentElement.scrollWidth")
        if needed > width:
            yield f"at {width} pixels: {needed} are needed"
        yield from (f"at {width} pixels, cut: {text}" for text in page.evaluate(CUT))
    yield from (f"at {PHONE} pixels, apart: {text}" for text in page.evaluate(APART))
    rows = page.locator("tbody tr")
    if rows.count():
        # A table is still one for screen readers.
        expect(page.get_by_role("table").first).to_be_visible()
        assert page.get_by_role("row").count() > rows.count()
        assert page.get_by_role("columnheader").count() >= rows.first.locator("td").count()


def cut_on_paper(page: Page) -> list[str]:
    """What is wider than its place on paper."""
    page.emulate_media(media="print")
    page.set_viewport_size(A4)
    return [f"on paper, cut: {text}" for text in page.evaluate(CUT)]


@pytest.mark.parametrize("path", ALL)
def test_a_page_opens_without_a_complaint_and_has_room(large: Viewed, look: Look, path: str) -> None:
    """On screens, on a phone and on paper."""
    page = look(large)
    answer = page.goto(large.url + path)
    assert answer is not None
    assert answer.status == 200
    expect(page.locator("h1")).to_have_count(1)
    assert "Muster" in page.title()
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 1
    assert_no_faults([*cramped(page), *cut_on_paper(page)])


@pytest.mark.parametrize("path", ALL)
def test_axe_finds_nothing_serious(medium: Viewed, look: Look, path: str) -> None:
    page = look(medium)
    page.goto(medium.url + path)
    assert_no_faults(inaccessible(page, on_a_phone=path in TABLES))


def inaccessible(page: Page, *, on_a_phone: bool = False) -> Iterator[str]:
    """What axe finds, in both colour schemes."""
    yield from serious(page, "in light")
    page.emulate_media(color_scheme="dark")
    yield from serious(page, "in dark")
    if on_a_phone:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": PHONE, "height": 800})
        yield from serious(page, "on a phone")


def serious(page: Page, where: str) -> Iterator[str]:
    """What axe finds, and the first places of each."""
    found = Axe().run(page).response
    assert len(found["passes"]) > 15, where
    for item in found["violations"]:
        if item["impact"] in ("serious", "critical"):
            yield f"{where}: {item['id']}: {[node['html'][:200] for node in item['nodes'][:3]]}"


def test_every_link_leads_somewhere(medium: Viewed) -> None:
    seen: set[str] = set()
    todo = ["/now"]
    while todo:
        path = todo.pop(0)
        gangs = sum(item.startswith("/gangs/") for item in seen)
        if path in seen or (path.startswith("/gangs/") and gangs > 20):
            continue
        seen.add(path)
        assert len(seen) < 150
        reply = medium.session.ask(path)
        assert reply.status == 200, path
        if "format=" not in path:
            links = re.findall(r'<a [^>]*href="([^"#]+)"', reply.body)
            todo += [urljoin(path, link.replace("&amp;", "&")) for link in links]
    assert {"/topology?show=load", "/now?format=json", "/history?since=7d&by=team&format=csv"} <= seen
    assert len([path for path in seen if path.startswith("/gangs/team")]) > 10


def test_pages_are_as_small_and_as_large_as_promised(large: Viewed) -> None:
    assert len(large.session.ask("/now").body) < 150 * 1024
    quotas = large.session.ask("/now?format=json").json()["quotas"]
    assert len({item["namespace"] for item in quotas}) == TEAMS + 1
    units = large.session.ask("/topology?format=json").json()["units"]
    assert units[0]["nodes"] == NODES


def test_the_numbers_in_the_page_are_those_of_its_document(large: Viewed, look: Look) -> None:
    page = look(large)
    page.goto(f"{large.url}/now?q={team(0)}")
    (row,) = (
        item
        for item in large.session.ask("/now?format=json").json()["quotas"]
        if (item["namespace"], item["resource"]) == (team(0), GPU)
    )
    words = page.locator(".line", has_text=GPU).last.inner_text()
    assert f"{row['used']} used" in words
    assert f"min {row['min']}, max {row['max']}" in words
    assert f"borrows {row['borrowed']}" in words
    assert f"waits {row['pending']}" in words


def test_filter_order_and_pages_of_the_first_page(large: Viewed, look: Look) -> None:
    page = look(large)
    page.goto(f"{large.url}/now")
    assert page.locator("article").count() == 40
    page.get_by_role("link", name="next").click()
    expect(page.locator(".pager span")).to_have_text(f"41 to 80 of {TEAMS + 1}")
    page.get_by_role("searchbox").fill("team-01")
    page.get_by_label("Order").select_option("name")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("article .who")).to_have_text([team(number) for number in range(10, 20)])


def test_the_last_page_of_many_quotas_is_as_good_as_the_first(large: Viewed, look: Look) -> None:
    page = look(large)
    page.goto(f"{large.url}/now?sort=name&from=200")
    expect(page.locator(".pager span")).to_have_text(f"{TEAMS + 1} to {TEAMS + 1} of {TEAMS + 1}")
    assert_no_faults([*inaccessible(page), *cramped(page), *cut_on_paper(page)])


def come_back(page: Page) -> None:
    """What a browser tells a page whose tab its reader opens again: it looks for news at once."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_change_appears_without_a_reload(small: Viewed, look: Look) -> None:
    """The reader's place stays: what is open, and where the keyboard is."""
    page = look(small)
    page.goto(f"{small.url}/queue")
    page.evaluate("window.same = true")
    page.locator("details summary").first.click()
    page.locator("table a").first.focus()
    before = page.locator("tbody tr").count()
    more = yaml.safe_dump_all(gang("evil", "more", 2, [], "no room"))
    small.cluster.kubectl("create", "-f", "-", input=more)
    expect(page.locator("tbody tr")).to_have_count(before + 1, timeout=SWAP_MILLISECONDS)
    assert page.evaluate("window.same") is True
    assert page.locator("details[open]").count() == 1
    assert page.evaluate("document.activeElement.tagName") == "A"


def test_nothing_is_sent_again_that_did_not_change(standing: Viewed, look: Look) -> None:
    page = look(standing)
    page.goto(f"{standing.url}/lending")
    page.evaluate("window.first = document.querySelector('#live').firstElementChild")
    with page.expect_response(fragment(200), timeout=SWAP_MILLISECONDS):
        come_back(page)
    # Only then does the page know what it has.
    page.wait_for_function("!first.isConnected")
    with page.expect_response(fragment(304), timeout=SWAP_MILLISECONDS):
        come_back(page)


def fragment(status: int) -> Callable[[Response], bool]:
    """Whether an answer is for what a page shows, with this status."""
    return lambda answer: "fragment" in answer.url and answer.status == status


@pytest.mark.parametrize("path", ALL)
def test_pages_work_without_script(standing: Viewed, look: Look, path: str) -> None:
    page = look(standing, java_script_enabled=False)
    answer = page.goto(standing.url + path)
    assert answer is not None
    assert answer.status == 200
    assert page.locator("time").count() == 0 or "2026" in page.locator("time").first.inner_text()


def test_what_if_keeps_what_was_typed_and_says_what_is_wrong(standing: Viewed, look: Look) -> None:
    page = look(standing, java_script_enabled=False)
    page.goto(f"{standing.url}/what-if")
    page.get_by_label("Change a quota").fill(f"quota/{team(0)}:max.{GPU}=1")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("alert")).to_contain_text(f"spec.min[{GPU}]=8 exceeds spec.max[{GPU}]=1")
    assert page.get_by_label("Change a quota").input_value() == f"quota/{team(0)}:max.{GPU}=1"
    page.get_by_label("Change a quota").fill(f"quota/{team(0)}:max.{GPU}=40")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#result")).to_be_visible()
    expect(page.locator("table").first).to_contain_text("max 40")
    page.get_by_label("Or add objects").fill("kind: Pod\napiVersion: v1\nmetadata: {}\n")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("alert")).to_contain_text("metadata.name")
    refused(page)


def test_the_keyboard_reaches_everything(standing: Viewed, look: Look) -> None:
    page = look(standing)
    page.goto(f"{standing.url}/now")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "page"
    page.goto(f"{standing.url}/now")
    names = []
    for _ in range(11):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    assert names[2:9] == ["Now", "Lending", "Queue", "Gangs", "Topology", "History", "What if"]


@pytest.mark.parametrize("path", [*PAGES, f"/history?namespace={'n' * 63}", f"/gangs/{'n' * 63}/{'g' * 63}"])
def test_long_names_have_room(long_names: Viewed, look: Look, path: str) -> None:
    page = look(long_names)
    page.goto(long_names.url + path)
    assert_no_faults(cramped(page))


def test_a_long_title_of_a_cell_does_not_lie_over_it(standing: Viewed, look: Look) -> None:
    page = look(standing, viewport={"width": 390, "height": 800})
    page.goto(f"{standing.url}/gangs/{team(0)}/incubator.train")
    room, high, width, height = page.locator("td[data-title=rack]").first.evaluate(
        """item => {
            item.dataset.title = 'topology.example.com/rack-of-nodes';
            const own = getComputedStyle(item), title = getComputedStyle(item, '::before');
            return [own.paddingLeft, own.height, title.width, title.height].map(parseFloat);
        }"""
    )
    assert width < room
    assert height <= high


def test_a_lost_server_is_said_and_comes_back(small: Viewed, server: Restartable, look: Look) -> None:
    """Then the token ends, which is said, too."""
    page = look(small)
    page.goto(f"{small.url}/now")
    quotas = page.locator("article").count()
    server.stop()
    banner = page.locator(".notice.bad")
    expect(banner).to_contain_text("may be old", timeout=SWAP_MILLISECONDS * 2)
    assert page.locator("article").count() == quotas
    server.start()
    expect(banner).to_have_count(0, timeout=SWAP_MILLISECONDS * 3)
    server.stop()
    server.start(token="another")
    eventually(lambda: "nauthorized" in small.session.ask("/now").body, 90)
    assert small.session.ask("/now").status == 200
    assert small.session.ask("/gangs").status == 200


def test_a_console_that_ended_is_said(small: Viewed, look: Look) -> None:
    page = look(small)
    page.goto(f"{small.url}/now")
    small.process.end()
    come_back(page)
    expect(page.locator("#state")).to_contain_text("does not answer", timeout=SWAP_MILLISECONDS)
    close_and_forgive(page)
