"""Headless Chromium, and consoles on sandboxes whose objects stand still unless a test changes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from sandbox.api.server import ApiServer, ServerOptions
from sandbox.initial_objects import crd_dir, create_objects, read_crds
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.console_session import ConsoleProcess, ConsoleSession, local_console
from tests.support.free_port import free_port
from tests.support.view_cluster import Obj, gang, view_cluster
from tests.tools.build import have

# As root, Chromium has no sandbox of its own; it must not ask for hosts of its maker.
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
NODES, TEAMS = 1000, 200
# Teams of every colour, and more lenders than the drawing of loans names.
MEDIUM_NODES, MEDIUM_TEAMS = 100, 18


@dataclass(frozen=True)
class Viewed:
    """A cluster, and a console on it."""

    cluster: Cluster
    process: ConsoleProcess
    session: ConsoleSession

    @property
    def url(self) -> str:
        """The address of the console."""
        return f"http://{self.session.host}"


class Restartable:
    """A sandbox that may go away and come back, at the same address."""

    def __init__(self, folder: Path, objects: list[Obj]) -> None:
        self._folder = folder
        self._objects = objects
        self._port = free_port()
        self.server: SandboxServer

    def start(self, token: str = "first") -> None:
        """Serve; another token is one that the console does not have."""

        async def prepare(api: ApiServer) -> None:
            await create_objects(api.registry, [*read_crds(crd_dir())])
            await create_objects(api.registry, self._objects)

        options = ServerOptions(directory=self._folder, port=self._port, token=token, stop_seconds=0.2)
        self.server = SandboxServer(options, prepare)
        self.server.__enter__()

    def stop(self) -> None:
        """Go away."""
        self.server.__exit__(None, None, None)


def served(folder: Path, objects: list[Obj]) -> Iterator[Restartable]:
    """A server with these objects."""
    found = Restartable(folder, objects)
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium without windows, which opens a page in a third of the time."""
    program = shutil.which("chromium-headless-shell")
    assert program, "chromium-headless-shell is not installed: make test-browser installs it"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    """1,000 nodes and 200 quotas: for tests whose point is size."""
    folder = tmp_path_factory.mktemp("large")
    for server in served(folder, list(view_cluster(NODES, TEAMS))):
        yield from viewed(server)


@pytest.fixture(scope="session")
def medium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    """100 nodes and 18 quotas: all that the pages of a large cluster have, and less often the same."""
    folder = tmp_path_factory.mktemp("medium")
    for server in served(folder, list(view_cluster(MEDIUM_NODES, MEDIUM_TEAMS))):
        yield from viewed(server)


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    """A small cluster that tests only read."""
    for server in served(tmp_path_factory.mktemp("standing"), list(view_cluster(40, 6))):
        yield from viewed(server)


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewed]:
    """A small cluster with the longest names that an API server takes."""
    namespace, long = "n" * 63, "x" * 200
    objects = list(view_cluster(40, 2))
    objects += gang(namespace, "g" * 63, 2, [], "no room")
    quota = next(item for item in objects if item["kind"] == "ElasticQuota")
    objects.append({**quota, "metadata": {"name": long, "namespace": namespace}})
    (_, pod) = gang("evil", "alone", 1, [], "no room")
    spec = {**pod["spec"], "schedulingGates": [{"name": "wait"}]}
    objects.append({**pod, "metadata": {"name": long, "namespace": "evil"}, "spec": spec})
    for server in served(tmp_path_factory.mktemp("long"), objects):
        yield from viewed(server)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restartable]:
    """A small cluster."""
    yield from served(tmp_path, list(view_cluster(40, 6)))


@pytest.fixture
def small(server: Restartable) -> Iterator[Viewed]:
    """A console on the small cluster."""
    yield from viewed(server)


def viewed(server: Restartable) -> Iterator[Viewed]:
    """A console that has read its cluster."""
    cluster = Cluster(server.server, have("kubectl").path, "sandbox")
    with local_console(server.server.kubeconfig) as (process, session):
        assert session.page("/now").status == 200
        yield Viewed(cluster, process, session)
        assert not [line for line in process.said if "Traceback" in line], "".join(process.said)


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a browser's page with the session of a console; what the browser complains of fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(viewed: Viewed, **options: Any) -> Page:
        settings: dict[str, Any] = {"viewport": {"width": 1240, "height": 900}, **options}
        context = browser.new_context(**settings)
        contexts.append(context)
        name, _, value = viewed.session.headers["Cookie"].partition("=")
        context.add_cookies([{"name": name, "value": value, "url": viewed.url}])
        page = context.new_page()

        def asked(url: str) -> None:
            if not url.startswith(viewed.url):
                complaints.append(f"asked {url}")

        page.on(
            "console", lambda message: complaints.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: asked(request.url))
        page.complaints = complaints  # type: ignore[attr-defined]
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints, complaints


def refused(page: Page) -> None:
    """The browser complains of the status of the answer, once or more, and of nothing else."""
    complaints: list[str] = page.complaints  # type: ignore[attr-defined]
    assert [text for text in complaints if "status of 422" not in text] == []
    assert complaints
    complaints.clear()


def close_and_forgive(page: Page) -> None:
    """Close a page whose complaints are wanted: none comes after this."""
    page.context.close()
    page.complaints.clear()  # type: ignore[attr-defined]
