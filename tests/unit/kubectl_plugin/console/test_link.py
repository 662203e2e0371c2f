"""The link of `kubectl elasticquota ui`: what it answers, and what uses it up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from flask.testing import FlaskClient

from kubectl_plugin.console.access.local import LocalGate
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.pages.all import all_pages
from kubectl_plugin.console.web.app import create_app
from kubectl_plugin.console.web.local_console import hosts_of
from tests.support.console_scene import Scene

CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


class Linked(NamedTuple):
    """A browser that has come nowhere yet, and the link."""

    browser: FlaskClient
    link: str


@pytest.fixture
def linked() -> Iterator[Linked]:
    """A console with an unused link."""
    gate = LocalGate()
    app = create_app(Scene().services, gate, all_pages(), frozenset())
    app.testing = True
    with app.test_client() as browser:
        yield Linked(browser, f"/?token={gate.token}")


def test_the_link_works_from_a_page_of_another_site(linked: Linked) -> None:
    """A redirect would not bring the Strict cookie: the answer is a page, which goes on by itself."""
    entered = linked.browser.get(linked.link, headers=CROSS_SITE)
    assert entered.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/now">' in entered.text
    assert '<a href="/now">' in entered.text
    assert "SameSite=Strict" in entered.headers["Set-Cookie"]
    assert "default-src 'none'" in entered.headers["Content-Security-Policy"]
    assert linked.browser.get("/now").status_code == 200
    assert linked.browser.get(linked.link).status_code == 403


def test_a_look_at_the_link_does_not_use_it_up(linked: Linked) -> None:
    for link in (linked.link, "/?token=wrong"):
        looked = linked.browser.head(link)
        assert (looked.status_code, looked.headers.get("Set-Cookie")) == (200, None)
    assert linked.browser.get("/now").status_code == 403
    assert linked.browser.get(linked.link).status_code == 200


def test_a_look_at_the_form_for_tokens_is_no_attempt_to_log_in() -> None:
    with Scene().as_viewer(Viewer("")) as client:
        assert client.head("/login").status_code == 200


@pytest.mark.parametrize(("port", "answers"), [(80, 200), (8080, 403)])
def test_clients_leave_the_port_of_http_out(port: int, answers: int) -> None:
    gate = LocalGate()
    app = create_app(Scene().services, gate, all_pages(), hosts_of(port))
    with app.test_client() as browser:
        link = f"/?token={gate.token}"
        assert browser.get(link, headers={"Host": "127.0.0.1"}).status_code == answers
        # The origin has no port, either; without the cookie, it is the session that is missing.
        origin = {"Host": "localhost", "Origin": "http://localhost"}
        told = "open the link" if port == 80 else "does not answer as"
        assert told in browser.post("/what-if", headers=origin, base_url="http://other").text
        assert browser.get("/now", headers={"Host": "example.com"}).status_code == 403
