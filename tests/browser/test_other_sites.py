"""Who else is in the browser: the link is used up, and a page of another site gets nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import Viewed, close_and_forgive
from tests.support.console_session import BIN, ConsoleProcess
from tests.support.stand_in_server import StandInHandler, standing_in
from tests.support.view_cluster import team

pytestmark = pytest.mark.timeout(240)
Look = Callable[..., Page]
# Another port of this host is the same site to a browser: it sends the cookie even though it is Strict.
EVIL = """<!doctype html><title>evil</title><body>
<form id="form" action="{url}/what-if" method="post" target="frame"><input name="set" value="x"></form>
<iframe id="frame" name="frame" src="{url}/now"></iframe>
<img id="image" src="{url}/static/icon.svg">
</body>"""
READ = """async url => {
  const found = [];
  for (const mode of ['cors', 'no-cors']) {
    try { found.push(await (await fetch(url, {mode, credentials: 'include'})).text()); }
    catch { found.push(''); }
  }
  return found.join('');
}"""


@contextmanager
def site(body: str) -> Iterator[str]:
    """A page of somebody else, on another port; its address."""

    class Handler(StandInHandler):
        def do_GET(self) -> None:
            self.answer(200, body.encode(), {"Content-Type": "text/html"})

    with standing_in(Handler) as url:
        yield url


def test_the_link_lets_one_browser_in_once(standing: Viewed, browser: Browser) -> None:
    command = [str(BIN / "kubectl-elasticquota"), "ui", "--no-open"]
    process = ConsoleProcess(command, {**os.environ, "KUBECONFIG": str(standing.cluster.kubeconfig)})
    first, second = browser.new_context(), browser.new_context()
    try:
        link = process.told(r"(http://\S+\?token=\S+)")[1]
        page = first.new_page()
        # As in a terminal of another web page, whose requests get no Strict cookie.
        with site(f'<!doctype html><title>terminal</title><a href="{link}">link</a>') as terminal:
            page.goto(terminal.replace("127.0.0.1", "localhost"))
            page.get_by_role("link").click()
            page.wait_for_url("**/now")
        assert urlsplit(page.url)[2:] == ("/now", "", "")
        (cookie,) = first.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie") == ""
        page = second.new_page()
        for address, words in ((urljoin(link, "/now"), "open the link"), (link, "was used already")):
            answer = page.goto(address)
            assert answer is not None
            assert answer.status == 403
            assert words in page.locator("main").inner_text()
        assert second.cookies() == []
    finally:
        first.close()
        second.close()
        process.process.kill()
        process.close()


def test_a_page_of_another_site_gets_nothing(standing: Viewed, look: Look) -> None:
    page = look(standing)
    page.goto(f"{standing.url}/now")
    with site(EVIL.format(url=standing.url)) as evil:
        answers: list[tuple[str, int]] = []
        page.on("response", lambda answer: answers.append((answer.request.resource_type, answer.status)))
        page.goto(evil)
        page.evaluate("document.getElementById('form').submit()")
        assert page.evaluate(READ, f"{standing.url}/now") == ""
        assert page.evaluate("document.getElementById('image').naturalWidth") == 0
        # The frame shows an error of the browser, from which nothing can be read.
        assert not [frame for frame in page.frames[1:] if team(0) in frame.content()]
        assert not [status for kind, status in answers if kind == "fetch" and status == 200]
        assert (
            page.evaluate("() => { try { return frame.document.body.innerText } catch { return '' } }") == ""
        )
    # What the browser says of all that is what is wanted.
    close_and_forgive(page)
    assert standing.session.ask("/now").status == 200
