"""The console in the cluster: one watch for all, and each user sees what they may list."""

from __future__ import annotations

from typing import Final

import msgspec

from kubectl_plugin.cluster.quota_history import price_list
from kubectl_plugin.console.access.bearer import BearerGate, ProxyTrust
from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.cluster.cluster_watch import ClusterWatch
from kubectl_plugin.console.cluster.questions import Questions
from kubectl_plugin.console.pages.all import all_pages
from kubectl_plugin.console.web.app import create_app
from kubectl_plugin.console.web.local_console import services_of
from kubectl_plugin.console.web.server import ConsoleServer
from kubectl_plugin.console.web.serving_certificate import ServingCertificate
from scheduler_core.errors import MusterError
from scheduler_core.health import HealthServer
from scheduler_core.kube.access_reviews import AccessReviews
from scheduler_core.kube.client import Client

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class NeedsTls(MusterError):
    """Tokens must not cross a network in the clear: the address that needs a certificate."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(host)

    def __str__(self) -> str:
        needs = "give --tls-cert-file and --tls-private-key-file"
        return f"--bind-address {self.host} is reachable from elsewhere: {needs}"


class ConsoleOptions(msgspec.Struct, frozen=True):
    """The command line. `client_ca` and `proxies` belong together: whose headers are believed."""

    host: str = "127.0.0.1"
    port: int = 8443
    health_host: str = "127.0.0.1"
    health_port: int = 0
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    proxies: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    config: str = ""
    prices: str = ""


class ClusterConsole:
    """Watches with its own account, and asks the API server what each user may list."""

    def __init__(self, client: Client, namespace: str, options: ConsoleOptions) -> None:
        """Raises NeedsTls and CertificateError, and CommandFailed and ConfigError for files."""
        if options.host not in _LOOPBACK and not options.certificate:
            raise NeedsTls(options.host)
        self._options = options
        self._prices = price_list(options.prices)
        self._server = ConsoleServer((options.host, options.port), certificate_of(options))
        self._watch = ClusterWatch(client, namespace, config=options.config)
        self._questions = Questions(self._watch.cluster)
        self._reviews = AccessReviews(client)
        self._health: HealthServer | None = None

    def start(self) -> int:
        """Begin to serve and to watch; gives the port. Raises PortTaken and the ApiError tree."""
        port = self._server.listen()
        self._watch.start()
        services = services_of(self._watch, self._questions, self._prices, events=False)
        self._server.serve(create_app(services, self._gate(), all_pages(), self._options.hosts))
        if self._options.health_port:
            self._health = HealthServer(
                self._options.health_host,
                self._options.health_port,
                {"/livez": [("watch", self._alive)], "/readyz": [("read", self._ready)]},
                {},
                name="muster-console",
            )
            self._health.start()
        return port

    def stop(self) -> None:
        """End the server and the watches."""
        self._questions.stop()
        self._server.stop()
        self._watch.stop()
        if self._health is not None:
            self._health.stop()

    def renew(self) -> None:
        """Use a certificate whose files were replaced."""
        self._server.renew()

    @property
    def failed(self) -> str:
        """Why the process must end; empty while it works."""
        return self._watch.failure

    def _gate(self) -> BearerGate:
        cluster = self._watch.cluster

        def namespaces() -> frozenset[str]:
            with cluster.lock:
                return cluster.namespaces()

        def dialects() -> set[str]:
            with cluster.lock:
                return {gang.ref.dialect for gang in cluster.simulation.state.gangs.gangs.values()}

        trust = ProxyTrust(self._options.proxies if self._options.client_ca else frozenset())
        rights = RightsReader(self._reviews, namespaces, dialects)
        return BearerGate(self._reviews, rights, trust, self._watch.ready.is_set)

    def _alive(self) -> str:
        return self._watch.failure

    def _ready(self) -> str:
        return "" if self._watch.ready.is_set() else "the cluster is being read"


def certificate_of(options: ConsoleOptions) -> ServingCertificate | None:
    """The certificate that the options name; None without one."""
    if not options.certificate:
        return None
    return ServingCertificate(options.certificate, options.key, options.client_ca)
