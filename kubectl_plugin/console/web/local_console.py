"""The console of one user, on loopback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from kubectl_plugin.cluster.quota_history import PriceList, price_list
from kubectl_plugin.console.access.local import LocalGate
from kubectl_plugin.console.cluster.advisor import Advisor
from kubectl_plugin.console.cluster.cluster_watch import ClusterWatch
from kubectl_plugin.console.cluster.history_reader import HistoryReader
from kubectl_plugin.console.cluster.questions import Questions
from kubectl_plugin.console.pages.all import all_pages
from kubectl_plugin.console.pages.page import Services
from kubectl_plugin.console.web.app import create_app
from kubectl_plugin.console.web.server import ConsoleServer
from scheduler_core.kube.client import Client

_HOST: Final = "127.0.0.1"
_HTTP_PORT: Final = 80
_LOOK_SECONDS: Final = 1.0


def services_of(
    watch: ClusterWatch, questions: Questions, prices: PriceList, *, events: bool = True
) -> Services:
    """The services of a console whose watch has begun. `events`: its identity may list Events."""
    history = HistoryReader(watch.client, watch.history_namespace, watch.reclaims_in, events=events)
    return Services(watch, questions, Advisor(watch.cluster, questions), history, prices)


def hosts_of(port: int) -> frozenset[str]:
    """The values of the Host header on a port of this machine: clients leave the port of HTTP out."""
    names = (_HOST, "localhost")
    return frozenset({*(f"{name}:{port}" for name in names), *(names if port == _HTTP_PORT else ())})


class LocalConsole:
    """Watches with the user's rights, and serves whoever has the link. `config`, `prices`: files, if any."""

    def __init__(
        self, client: Client, namespace: str, port: int, *, config: str = "", prices: str = ""
    ) -> None:
        """Raises CommandFailed and ConfigError for files that cannot be used."""
        self._prices = price_list(prices)
        self._server = ConsoleServer((_HOST, port))
        self._watch = ClusterWatch(client, namespace, config=config)
        self._questions = Questions(self._watch.cluster)
        self._gate = LocalGate()

    def start(self) -> str:
        """Begin to serve and to watch; gives the link. Raises PortTaken and the ApiError tree."""
        port = self._server.listen()
        self._watch.start()
        services = services_of(self._watch, self._questions, self._prices)
        self._server.serve(create_app(services, self._gate, all_pages(), hosts_of(port)))
        return f"http://{_HOST}:{port}/?token={self._gate.token}"

    def wait(self, tell: Callable[[str], None]) -> None:
        """Wait for ever; tells what happens to the connection with the API server."""
        told = ""
        while True:
            now = self._watch.trouble()
            if now != told:
                tell(f"note: {now}" if now else "note: the cluster is watched again")
                told = now
            threading.Event().wait(_LOOK_SECONDS)

    def stop(self) -> None:
        """End the server and the watches."""
        # First, as the server waits for its answers.
        self._questions.stop()
        self._server.stop()
        self._watch.stop()
