"""A user of one namespace sees no other name; a killed server comes back; nothing outlives a console."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.browser.conftest import Restartable, Viewed
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.sandbox_process import sandbox_process
from tests.support.console_session import local_console
from tests.support.eventually import eventually
from tests.support.faults.proxy import Proxy
from tests.support.faults.rules import Call, Rule
from tests.support.free_port import free_port
from tests.support.left_behind import children, works
from tests.support.view_cluster import team, view_cluster
from tests.tools.build import have

pytestmark = pytest.mark.timeout(240)
Look = Callable[..., Page]
OURS = team(0)
PAGES = ("/now", "/lending", "/queue", "/gangs", "/topology", "/history", "/what-if")
GANGS = (f"/gangs/{OURS}/incubator.train", f"/gangs/{OURS}/incubator.waits")
# Names of what the user may not list.
FOREIGN = ("evil", "hostile", *(team(number) for number in range(1, 6)))
SOON_MILLISECONDS = 60_000


def outside(call: Call) -> bool:
    """A request for objects of a kind that are not all in the user's namespace."""
    parts = call.path.strip("/").split("/")
    lists = len(parts) > (3 if parts[0] == "apis" else 2)
    return lists and f"/namespaces/{OURS}/" not in f"{call.path}/"


def test_a_user_of_one_namespace_sees_that_and_what_is_missing(
    server: Restartable, look: Look, tmp_path: Path
) -> None:
    with Proxy(server.server, tmp_path) as proxy:
        proxy.journal.add(Rule(outside, status=403, reason="Forbidden"))
        kubeconfig = proxy.door("tenant").kubeconfig
        with local_console(kubeconfig, "-n", OURS) as (process, session):
            assert session.page("/now").status == 200
            page = look(Viewed(Cluster(server.server, have("kubectl").path, "sandbox"), process, session))
            for path in (*PAGES, *GANGS):
                answer = page.goto(f"http://{session.host}{path}")
                assert answer is not None
                assert answer.status == 200, path
                page.locator("#unread summary").click()
                expect(page.locator("#unread")).to_contain_text("nodes")
            page.goto(f"http://{session.host}/now")
            assert page.locator(".card .who").all_inner_texts() == [OURS]
            for path in (*PAGES, *GANGS):
                for form in ("", "?format=json", "?fragment="):
                    found = session.ask(path + form).body
                    assert [name for name in FOREIGN if name in found] == [], path + form
            assert session.ask(f"/gangs/{team(4)}/incubator.waits").status == 404
            assert {item["namespace"] for item in session.ask("/now?format=json").json()["quotas"]} == {OURS}
            # Before its console ends, of which the browser would complain.
            page.context.close()


def test_a_killed_server_goes_on_with_what_it_kept(look: Look, tmp_path: Path) -> None:
    seed, kept = tmp_path / "seed.yaml", str(tmp_path / "kept")
    # A file cannot hold the texts that no YAML may hold.
    objects = [item for item in view_cluster(4, 2) if item["metadata"].get("namespace") != "evil"]
    seed.write_text(yaml.safe_dump_all(objects))
    port = f"--port={free_port()}"
    with sandbox_process(tmp_path, port, "--seed-cluster", str(seed), "--keep", kept) as server:
        kubeconfig = tmp_path / "first.kubeconfig"
        kubeconfig.write_text(server.kubeconfig.read_text())
        with local_console(kubeconfig) as (process, session):
            assert session.page("/now").status == 200
            page = look(Viewed(Cluster(server, have("kubectl").path, "sandbox"), process, session))
            page.goto(f"http://{session.host}/now")
            numbers = page.locator(".card .numbers").all_inner_texts()
            os.kill(server.pid, signal.SIGKILL)
            expect(page.get_by_role("alert")).to_contain_text("may be old", timeout=SOON_MILLISECONDS)
            assert page.locator(".card .numbers").all_inner_texts() == numbers
            with sandbox_process(tmp_path, port, "--keep", kept) as again:
                assert again.url == server.url
                expect(page.get_by_role("alert")).to_have_count(0, timeout=SOON_MILLISECONDS)
                assert page.locator(".card .numbers").all_inner_texts() == numbers
                # The console looks once in a second, so the server must still be there.
                eventually(lambda: "note: the cluster is watched again" in "".join(process.said))
            assert "Traceback" not in "".join(process.said)
            # A page that outlives its console asks for news in vain, which the browser complains of.
            page.context.close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_no_process_outlives_a_console(medium: Viewed, sent: signal.Signals) -> None:
    """Questions are processes, which may work for half a minute."""
    with local_console(medium.cluster.kubeconfig) as (process, session):
        session.page("/now")
        assert session.ask("/queue").status == 200
        # The advice is looked for once the queue is known, and takes seconds.
        questions = eventually(lambda: children(process.process.pid))
        process.process.send_signal(sent)
        assert process.close() == 128 + sent
        # The kernel takes a moment to end what was killed.
        eventually(lambda: not any(map(works, questions)))
