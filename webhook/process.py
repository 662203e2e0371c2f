"""The webhook's process: everything is put together here, started, rotated and stopped in order."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.errors import ApiError
from scheduler_core.kube.reflector import Reflector
from scheduler_core.kube.session import Limits
from scheduler_core.kube.tracker import Event
from scheduler_core.model.kinds import PODS, Resource
from scheduler_core.model.pod_use import parse_pod_use
from scheduler_core.model.reservation_ledger import ELASTIC_NAME
from webhook.app import create_app
from webhook.auditor import Auditor, look_at
from webhook.cache import WATCHED, Cache
from webhook.cert_source import Source
from webhook.clients import Clients
from webhook.deadline import BoundedSession
from webhook.elastic_charges import ElasticCharges, Quotas
from webhook.elastic_use import Standing
from webhook.elsewhere import Search
from webhook.freshness import Freshness
from webhook.hold_store import HoldStore, Times
from webhook.ledger_api import LiveLedgers
from webhook.lifecycle import Lifecycle
from webhook.live import LiveReads
from webhook.metrics import Metrics
from webhook.owners import WORKLOADS, OwnerCache, parse_owner
from webhook.pages import pages
from webhook.parts import STOP_SECONDS, Parts
from webhook.pod_watches import PodWatches
from webhook.reconciler import Kept, Reconciler
from webhook.recreation import Adoption, mending
from webhook.registration import Endpoint, register
from webhook.rotation import OwnCertificates, Rotation
from webhook.server import WebhookServer
from webhook.service import Service, Settings
from webhook.strangers import SELECTOR, Strangers, read_stranger

# Below the shortest timeoutSeconds (2), so that an answer from memory is still in time.
LIVE: Final = Limits(connect=0.4, read=0.8)
SYNC_POLL_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 1.0

log = logging.getLogger("muster.webhook")


@dataclass(frozen=True)
class Options:
    """What the command line says. `metrics` is the address of health and metrics; `service` is namespace and
    name, empty where `url` is used.
    """

    host: str
    port: int
    metrics: tuple[str, int]
    certificates: Source
    settings: Settings = field(default_factory=Settings)
    overrides: Overrides = field(default_factory=Overrides)
    register: bool = False
    url: str = ""
    service: tuple[str, str] = ("", "")
    service_port: int = 443
    hosts: tuple[str, ...] = ()
    drain: float = 1.0
    adoption: Adoption = "Report"
    clients: Clients = field(default_factory=Clients)
    times: Times = field(default_factory=Times)


class Process:
    """One running webhook. `stop` may be called from any thread, any number of times."""

    def __init__(self, options: Options, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._stop = threading.Event()
        # Set with every reason to look at the certificates, and to stop.
        self._wake = threading.Event()
        self._lifecycle = Lifecycle()
        self._metrics = Metrics()
        self._cache = Cache()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stop.set()
        self._wake.set()

    def run(self, announce: Callable[[str], None]) -> None:
        """Serve until stopped; `announce` gets one line when requests are answered.

        Raises KubeconfigError, ApiError, CertificateError, ListenError, PortTaken, RegistrationError and
        Ended; nothing is left running then.
        """
        client, target = connect(self._options.overrides)
        brief = BoundedSession(target.endpoint, target.credentials, limits=LIVE)
        with closing(client.session), closing(brief):
            client.call("GET", "/version", retry_budget=0.0)
            direct = Client(brief)
            watches = PodWatches(partial(self._pod_watch, client))
            holdings = self._cache.holdings
            ledgers = HoldStore(
                LiveLedgers(direct), holdings, watches, self._cache.natives, self._options.times
            )
            owners = OwnerCache(direct)
            live = LiveReads(direct)
            charges = self._charges(direct, watches, live)
            service = Service(self._cache, self._options.settings, live, ledgers, owners, charges)
            reconciler = Reconciler(watches, Kept(ledgers, holdings), Kept(charges, self._cache.charges))
            strangers, settings = Strangers(), self._options.settings
            search = Search(strangers, self._cache, owners, settings.exempt_namespaces)
            look = look_at(self._cache, search, settings)
            mend = mending(client, search, self._options.adoption)
            auditor = Auditor(client, look, self._metrics.registry, mend=mend)
            source = self._options.certificates
            rotation = source.rotation(client, self._options.hosts, self._metrics)
            watched = [self._reflector(client, *kind, self._cache.sink) for kind in WATCHED]
            ages = Freshness(lambda: {one.resource.plural: one.staleness() for one in watched})
            app = create_app(service, self._metrics, self._lifecycle, ages, self._options.clients)
            address = (self._options.host, self._options.port)
            server = WebhookServer(app, address, rotation.first(self._clock()), self._options.clients)
            door = pages(
                self._options.metrics, self._cache, self._metrics, self._lifecycle, ages, server.problem
            )
            owned = [self._reflector(client, kind, parse_owner, owners.sink) for kind in WORKLOADS]
            passing = self._reflector(client, PODS, read_stranger, strangers.sink, fields=SELECTOR)
            own = source.watches(client, self._wake.set, self._trouble_with_certificates)
            parts = Parts(server, door, [*watched, *owned, passing, *own], reconciler, auditor)
            parts.open()
            keeper: threading.Thread | None = None
            try:
                self._await_sync()
                if not self._stop.is_set():
                    reconciler.start()
                    auditor.start()
                    self._register(client, rotation, server.port)
                    self._check(rotation, server)
                    settle_memory()
                    where = f"{self._url(server.port)} for {target.endpoint.server}"
                    announce(f"serving on {where}; health and metrics on {door.url}")
                    keeper = self._keep(rotation, server)
                    self._watch_over(parts)
                    # Whoever balances load looks at readyz, and gets the time to do so.
                    self._lifecycle.stop()
                    time.sleep(self._options.drain)
            finally:
                self._lifecycle.stop()
                self.stop()
                parts.stop()
                if keeper is not None:
                    keeper.join(STOP_SECONDS)

    def _watch_over(self, parts: Parts) -> None:
        """Wait until stopped. Raises Ended."""
        while not self._stop.wait(LOOK_SECONDS):
            if problem := parts.problem():
                raise Ended(problem)

    def _await_sync(self) -> None:
        while self._cache.unsynced and not self._stop.wait(SYNC_POLL_SECONDS):
            pass

    def _keep(self, rotation: Rotation, server: WebhookServer) -> threading.Thread:
        """A thread that looks after the certificates until stopped; a slow API server delays nothing else."""

        def keep() -> None:
            while True:
                self._wake.wait(rotation.interval)
                if self._stop.is_set():
                    return
                self._wake.clear()
                self._check(rotation, server)

        thread = threading.Thread(target=keep, name="certificates", daemon=True)
        thread.start()
        return thread

    def _check(self, rotation: Rotation, server: WebhookServer) -> None:
        """Trouble keeps the last good pair, is counted, and is tried again."""
        try:
            rotation.check(self._clock(), server.use)
            server.reread_clients()
        except Exception as error:
            # Whatever it is: if this ended, so would the certificates.
            self._metrics.reload_failed()
            unforeseen = None if isinstance(error, MusterError) else error
            log.warning("certificate rotation: %s", error, exc_info=unforeseen)

    @staticmethod
    def _trouble_with_certificates(error: Exception) -> None:
        log.warning("watch of the certificates and configurations: %s", error)

    def _charges(self, direct: Client, watches: PodWatches, live: LiveReads) -> ElasticCharges:
        """What charges ElasticQuotas for pods that no scheduler of ours judges."""

        def fresh(namespace: str) -> Standing | None:
            return self._cache.standing(namespace, live.quotas(namespace).quotas)

        return ElasticCharges(
            LiveLedgers(direct, ELASTIC_NAME),
            self._cache.charges,
            watches,
            Quotas(self._cache.standing, fresh),
            self._options.settings.ours,
            self._options.times,
        )

    def _pod_watch(self, client: Client, namespace: str, sink: Callable[[Event], None]) -> Reflector:
        return self._reflector(client, PODS, parse_pod_use, sink, namespace)

    def _reflector(
        self,
        client: Client,
        resource: Resource,
        parse: Callable[[Any], Any],
        sink: Callable[[Event], None],
        namespace: str = "",
        fields: str = "",
    ) -> Reflector:
        def malformed(error: ModelError) -> None:
            log.warning("ignored: %s", error)

        def trouble(error: Exception) -> None:
            log.warning("watch of %s: %s", resource.plural, error)

        return Reflector(
            client,
            resource,
            parse,
            sink,
            namespace=namespace,
            field_selector=fields,
            on_malformed=malformed,
            on_error=trouble,
        )

    def _url(self, port: int) -> str:
        host = self._options.host
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def _register(self, client: Client, rotation: Rotation, port: int) -> None:
        """Write the configurations once; later only their CAs are kept, so that who deletes one is obeyed."""
        if not self._options.register:
            return
        bundle = rotation.bundle if isinstance(rotation, OwnCertificates) else b""
        namespace, name = self._options.service
        url = "" if name else self._options.url or self._url(port)
        endpoint = Endpoint(bundle, url, namespace, name, self._options.service_port)
        try:
            register(client, endpoint, sorted(self._options.settings.exempt_namespaces))
        except ApiError as error:
            raise RegistrationError(str(error)) from None


TURN_SECONDS: Final = 0.0005


def settle_memory() -> None:
    """What was loaded at the start stays: the collector need not look at it again, and requests wait less.

    Threads take turns more often than Python lets them: a usual review has less to do than one turn of a dear
    one would keep it waiting.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(TURN_SECONDS)


class Ended(MusterError):
    """A part of the process that it cannot do without ended: which."""


class RegistrationError(MusterError):
    """The webhook configurations could not be written: the API server's words."""

    def __str__(self) -> str:
        return f"the webhook could not be registered: {self.args[0]}"
