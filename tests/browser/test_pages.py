"""Every page in a browser: it opens, tells its numbers, keeps itself current, and harms nobody."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urljoin

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import NODES, TEAMS, Restartable, Viewed, refused
from tests.support.eventually import eventually
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
# A swap of the script comes within its interval; a busy machine takes longer.
SWAP_MILLISECONDS = 30_000


@pytest.mark.parametrize("path", ALL)
def test_a_page_opens_without_a_complaint(large: Viewed, look: Look, path: str) -> None:
    page = look(large)
    answer = page.goto(large.url + path)
    assert answer is not None
    assert answer.status == 200
    expect(page.locator("h1")).to_have_count(1)
    assert "Muster" in page.title()
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ALL)
def test_axe_finds_nothing_serious(large: Viewed, look: Look, path: str, scheme: str) -> None:
    page = look(large, color_scheme=scheme)
    page.goto(large.url + path)
    found = Axe().run(page).response
    assert len(found["passes"]) > 15
    serious = [item for item in found["violations"] if item["impact"] in ("serious", "critical")]
    assert not serious, [(item["id"], [node["html"][:200] for node in item["nodes"][:3]]) for item in serious]


def test_every_link_leads_somewhere(large: Viewed) -> None:
    seen: set[str] = set()
    todo = ["/now"]
    while todo:
        path = todo.pop(0)
        gangs = sum(item.startswith("/gangs/") for item in seen)
        if path in seen or (path.startswith("/gangs/") and gangs > 20):
            continue
        seen.add(path)
        assert len(seen) < 150
        reply = large.session.ask(path)
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


def test_nothing_is_sent_again_that_did_not_change(small: Viewed, look: Look) -> None:
    page = look(small)
    statuses: list[int] = []
    page.on("response", lambda answer: statuses.append(answer.status) if "fragment" in answer.url else None)
    page.goto(f"{small.url}/lending")
    for _ in range(2):
        with page.expect_response(lambda answer: "fragment" in answer.url, timeout=SWAP_MILLISECONDS):
            pass
    assert statuses[:2] == [200, 304]


@pytest.mark.parametrize("path", ALL)
def test_pages_work_without_script(small: Viewed, look: Look, path: str) -> None:
    page = look(small, java_script_enabled=False)
    answer = page.goto(small.url + path)
    assert answer is not None
    assert answer.status == 200
    assert page.locator("time").count() == 0 or "2026" in page.locator("time").first.inner_text()


def test_what_if_keeps_what_was_typed_and_says_what_is_wrong(small: Viewed, look: Look) -> None:
    page = look(small, java_script_enabled=False)
    page.goto(f"{small.url}/what-if")
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


def test_the_keyboard_reaches_everything(small: Viewed, look: Look) -> None:
    page = look(small)
    page.goto(f"{small.url}/now")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "page"
    page.goto(f"{small.url}/now")
    names = []
    for _ in range(11):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    assert names[2:9] == ["Now", "Lending", "Queue", "Gangs", "Topology", "History", "What if"]


@pytest.mark.parametrize("width", [1000, 390])
@pytest.mark.parametrize("path", ALL)
def test_no_page_is_wider_than_the_screen(large: Viewed, look: Look, path: str, width: int) -> None:
    page = look(large, viewport={"width": width, "height": 800})
    page.goto(large.url + path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def cut(page: Page) -> list[str]:
    """The beginning of what is wider than its place."""
    wide = "[...document.querySelectorAll('.wide')].filter(item => item.scrollWidth > item.clientWidth + 1)"
    found: list[str] = page.evaluate(f"{wide}.map(item => item.innerHTML.slice(0, 200))")
    return found


@pytest.mark.parametrize("path", ALL)
def test_a_phone_shows_all_of_each_table_and_drawing(large: Viewed, look: Look, path: str) -> None:
    """Nothing is out of sight, names do not break apart, and a table is still one for screen readers."""
    page = look(large, viewport={"width": 390, "height": 800})
    page.goto(large.url + path)
    assert cut(page) == []
    apart = """[...document.querySelectorAll('.who')].filter(item => {
        const [dot, name] = [...item.children].map(child => child.getBoundingClientRect());
        return name.left < dot.right || name.top > dot.bottom;
    })"""
    assert page.evaluate(f"{apart}.map(item => item.textContent)") == []
    rows = page.locator("tbody tr")
    if rows.count():
        expect(page.get_by_role("table").first).to_be_visible()
        assert page.get_by_role("row").count() > rows.count()
        assert page.get_by_role("columnheader").count() >= rows.first.locator("td").count()


@pytest.mark.parametrize("width", [1000, 390])
@pytest.mark.parametrize("path", [*PAGES, f"/history?namespace={'n' * 63}", f"/gangs/{'n' * 63}/{'g' * 63}"])
def test_long_names_have_room(long_names: Viewed, look: Look, path: str, width: int) -> None:
    page = look(long_names, viewport={"width": width, "height": 800})
    page.goto(long_names.url + path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert cut(page) == []


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


@pytest.mark.parametrize("path", ["/queue", "/gangs", "/lending", f"/gangs/{team(0)}/incubator.train"])
def test_axe_finds_nothing_serious_on_a_phone(large: Viewed, look: Look, path: str) -> None:
    page = look(large, viewport={"width": 390, "height": 800})
    page.goto(large.url + path)
    found = Axe().run(page).response
    serious = [item for item in found["violations"] if item["impact"] in ("serious", "critical")]
    assert not serious, [(item["id"], [node["html"][:200] for node in item["nodes"][:3]]) for item in serious]


def test_paper_has_no_menu(small: Viewed, look: Look) -> None:
    page = look(small)
    page.goto(f"{small.url}/now")
    page.emulate_media(media="print")
    expect(page.locator(".top nav")).to_be_hidden()
    expect(page.locator("article").first).to_be_visible()


@pytest.mark.parametrize("path", ["/queue", "/gangs", "/history"])
def test_paper_shows_whole_tables(large: Viewed, look: Look, path: str) -> None:
    """A4 without its margins."""
    page = look(large, viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print")
    page.goto(large.url + path)
    assert cut(page) == []


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
    expect(page.locator("#state")).to_contain_text("does not answer", timeout=SWAP_MILLISECONDS)
    page.complaints.clear()  # type: ignore[attr-defined]
