"""The process of the webhook: makes its components, starts them, renews certificates and stops in order."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

from scheduler_core.errors import ModelError, MusterError
from scheduler_core.health import HealthServer
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.errors import ApiError, KubeconfigError
from scheduler_core.kube.http.session import Limits
from scheduler_core.kube.server_version import ServerRule
from scheduler_core.kube.watch.reading import ObjectReader, plain_reader
from scheduler_core.kube.watch.reflector import Reflector, level_of
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.admission_webhooks import WebhookEndpoint
from scheduler_core.model.kinds import PODS, Resource
from scheduler_core.model.names import EXEMPT_LABEL, GANG_AUTO, GANG_LABEL
from scheduler_core.model.pods.use import parse_pod_use
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME
from webhook.certs.registration import register
from webhook.certs.rotation import OwnCertificates, Rotation
from webhook.certs.source import Source
from webhook.http.app import create_app
from webhook.http.client_certificates import ClientCertificates
from webhook.http.deadline import BoundedSession
from webhook.http.health import Lifecycle, health_server
from webhook.http.server import WebhookServer
from webhook.metrics import WebhookMetrics
from webhook.owner_gangs.automatic_groups import AutomaticGroups
from webhook.owner_gangs.finder import GangFinder
from webhook.owner_gangs.groups import GangGroups
from webhook.owner_gangs.made_groups import MadeGroups
from webhook.owner_gangs.stored_gangs import StoredGangs
from webhook.owner_gangs.stored_pods import SELECTOR as MARKED
from webhook.owner_gangs.stored_pods import StoredPods, stored_pod_parser
from webhook.owner_gangs.table import Table, built_in
from webhook.owner_gangs.upkeep import GangUpkeep
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings
from webhook.reservations.charge_store import ChargeStore, QuotaStandings
from webhook.reservations.ledger_api import LedgerClient
from webhook.reservations.ledger_writer import Times
from webhook.reservations.pod_watches import PodWatches
from webhook.reservations.quota_standing import QuotaStanding
from webhook.reservations.reconciler import LedgerRecord, Reconciler
from webhook.reservations.reservation_store import ReservationStore
from webhook.view.api_reads import ClientReads
from webhook.view.audit import Auditor, audit_of
from webhook.view.bypassing_pods import (
    SELECTOR,
    BypassSearch,
    DefaultSchedulerPods,
    parse_default_scheduler_pod,
)
from webhook.view.cache import WATCHED, Cache
from webhook.view.freshness import Freshness
from webhook.view.owners import WORKLOADS, OwnerCache, parse_owner
from webhook.view.recreation import Adoption, recreation_round

STOP_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Components:
    """The components of a running webhook. `server` answers reviews, `health` serves health and metrics."""

    server: WebhookServer
    health: HealthServer
    reflectors: Sequence[Reflector]
    reconciler: Reconciler
    auditor: Auditor
    gangs: StoredGangs

    def open(self) -> None:
        """Listen on both ports and begin to watch. Raises PortTaken; then neither is open."""
        try:
            self.server.start()
        except BaseException:
            self.health.stop()
            raise
        self.health.start()
        for reflector in self.reflectors:
            reflector.start()

    def problem(self) -> str:
        """The component that has ended by itself, or empty. The others would go on with outdated data."""
        if said := self.server.problem():
            return said
        for reflector in self.reflectors:
            if not reflector.alive:
                return f"the watch of {reflector.resource.plural} ended"
        if not self.reconciler.alive:
            return "the thread that looks after reservations ended"
        if not self.gangs.alive:
            return "the thread that makes groups of stored pods ended"
        return "" if self.auditor.alive else "the audit ended"

    def stop(self) -> None:
        """Stop all components: sources of changes first, the port of health last."""
        for reflector in self.reflectors:
            reflector.stop()
        self.reconciler.stop()
        self.auditor.stop()
        self.gangs.stop()
        self.server.stop()
        self.reconciler.join(STOP_SECONDS)
        self.auditor.join(STOP_SECONDS)
        self.gangs.join(STOP_SECONDS)
        for reflector in self.reflectors:
            reflector.join(STOP_SECONDS)
        self.health.stop()


# Below the shortest timeoutSeconds (2), so that an answer from memory is still in time.
LIVE: Final = Limits(connect=0.4, read=0.8)
SYNC_POLL_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 1.0

log = logging.getLogger("muster.webhook")


@dataclass(frozen=True)
class WebhookOptions:
    """The options of the command line. `metrics` is the address of health and metrics; `service` is
    namespace and name, empty where `url` is used.
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
    clients: ClientCertificates = field(default_factory=ClientCertificates)
    times: Times = field(default_factory=Times)
    gang_owners: Table = field(default_factory=built_in)

    @property
    def review_settings(self) -> Settings:
        """The settings of reviews: whether callers are known follows from the CA of clients."""
        return replace(self.settings, known_callers=self.clients.authority is not None)


class GangParts(NamedTuple):
    """What makes gangs: for reviews, of stored pods, in rounds, with what these know; and the watch of the
    stored pods.
    """

    reviews: GangGroups
    stored: StoredGangs
    automatic: AutomaticGroups
    upkeep: GangUpkeep
    watch: Reflector


class RunningWebhook:
    """One running webhook. `stop` may be called from any thread, any number of times.

    `wake` is set to have the certificates checked at once.
    """

    def __init__(self, options: WebhookOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._stop = threading.Event()
        # Set to have the certificates checked at once, and to stop.
        self.wake = threading.Event()
        self._lifecycle = Lifecycle()
        self.metrics = WebhookMetrics()
        self._cache = Cache()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stop.set()
        self.wake.set()

    def run(self, announce: Callable[[str], None]) -> None:
        """Serve until stopped; `announce` gets one line once reviews are answered.

        Raises KubeconfigError, ApiError, CertificateError, PortTaken, RegistrationError and
        Ended; nothing is left running then.
        """
        client, target = connect(self._options.overrides)
        brief = BoundedSession(target.endpoint, target.credentials, limits=LIVE)
        with closing(client.session), closing(brief):
            rule = ServerRule(Client(client.session, retry_budget=0.0))
            rule.ask()
            direct, cache = Client(brief), self._cache
            settings = replace(self._options.review_settings, resize_rule=rule)
            watches = PodWatches(partial(self._pod_watch, client, rule))
            reservations = ReservationStore(
                LedgerClient(direct, rule=rule),
                cache.reservations,
                watches,
                cache.natives,
                self._options.times,
            )
            owners = OwnerCache(direct)
            reads = ClientReads(direct, topologies=settings.topology_namespaces, rule=rule)
            charges = self._charge_store(direct, watches, reads, rule)
            gangs = self._gang_parts(client, direct, owners)
            dispatcher = ReviewDispatcher(
                cache, settings, reads, reservations, owners, charges, gangs.reviews
            )
            reconciler = Reconciler(
                watches, LedgerRecord(reservations, cache.reservations), LedgerRecord(charges, cache.charges)
            )
            default_pods = DefaultSchedulerPods()
            search = BypassSearch(default_pods, cache, owners, settings.exempt_namespaces)
            mend = in_turn(recreation_round(client, search, self._options.adoption), gangs.upkeep.round)
            look = audit_of(cache, search, settings, gangs.stored.problems)
            auditor = Auditor(client, look, self.metrics.registry, mend=mend)
            source = self._options.certificates
            rotation = source.rotation(client, self._options.hosts, self.metrics)
            watched = self._watched(client, gangs.automatic)
            freshness = Freshness(lambda: {one.resource.plural: one.staleness() for one in watched})
            app = create_app(dispatcher, self.metrics, self._lifecycle, freshness, self._options.clients)
            address = (self._options.host, self._options.port)
            server = WebhookServer(app, address, rotation.first(self._clock()), self._options.clients)
            health = health_server(
                self._options.metrics, cache, self.metrics, self._lifecycle, freshness, server.problem
            )
            workloads = [self._reflector(client, kind, parse_owner, owners.sink) for kind in WORKLOADS]
            # This watch is there all the time, so the rule is as current as the connection.
            by_default = plain_reader(parse_default_scheduler_pod, rule.followed())
            pods = self._reflector(client, PODS, by_default, default_pods.sink, fields=SELECTOR)
            certificates = source.watches(client, self.wake.set, self._trouble_with_certificates)
            reflectors = [*watched, *workloads, pods, gangs.watch, *certificates]
            components = Components(server, health, reflectors, reconciler, auditor, gangs.stored)
            components.open()
            where = f"{self._url(server.port)} for {target.endpoint.server}"
            said = f"serving on {where}; health and metrics on {health.url}"
            self._serve(components, client, rotation, lambda: announce(said))

    def _serve(
        self, components: Components, client: Client, rotation: Rotation, announce: Callable[[], None]
    ) -> None:
        """Serve with open components until stopped, and stop them; as `run`."""
        server = components.server
        keeper: threading.Thread | None = None
        try:
            self._await_sync()
            if not self._stop.is_set():
                components.reconciler.start()
                components.auditor.start()
                components.gangs.start()
                self.register_itself(client, rotation, server.port)
                self._rotate(rotation, server)
                settle_memory()
                announce()
                keeper = self.keep_certificates(rotation, server)
                self._watch_over(components)
                # Load balancers need time to see that /readyz fails.
                self._lifecycle.stop()
                time.sleep(self._options.drain)
        finally:
            self._lifecycle.stop()
            self.stop()
            components.stop()
            if keeper is not None:
                keeper.join(STOP_SECONDS)

    def _watched(self, client: Client, groups: AutomaticGroups) -> list[Reflector]:
        """The watches of what reviews need, and rounds of gangs."""

        def sink(event: Event) -> None:
            self._cache.sink(event)
            groups.sink(event)

        return [self._reflector(client, *kind, sink) for kind in WATCHED]

    def _gang_parts(self, client: Client, direct: Client, owners: OwnerCache) -> GangParts:
        """The parts that make gangs; no review waits for `client`."""
        finder, lasting = self._finder(direct, owners), self._finder(client, owners)
        made = MadeGroups(direct, finder, self._cache.reservations)
        members, automatic = StoredPods(), AutomaticGroups()
        return GangParts(
            GangGroups(made, finder),
            StoredGangs(client, lasting, made, members, self._asks_for_gangs),
            automatic,
            GangUpkeep(client, lasting, automatic, self._asks_for_gangs, made.take_changed),
            self._reflector(client, PODS, stored_pod_parser(lasting), members.sink, labels=MARKED),
        )

    def _finder(self, client: Client, owners: OwnerCache) -> GangFinder:
        return GangFinder(client, self._options.gang_owners, owners.resource)

    def _asks_for_gangs(self, namespace: str) -> bool:
        """Whether the groups of pods in the namespace are made."""
        home = self._cache.namespace(namespace)
        exempt = self._options.settings.exempt_namespaces
        if home is None or namespace in exempt or home.labels.get(EXEMPT_LABEL) == "true":
            return False
        return home.labels.get(GANG_LABEL) == GANG_AUTO

    def _watch_over(self, components: Components) -> None:
        """Wait until stopped. Raises Ended."""
        while not self._stop.wait(LOOK_SECONDS):
            if problem := components.problem():
                raise ComponentEnded(problem)

    def _await_sync(self) -> None:
        while self._cache.unsynced and not self._stop.wait(SYNC_POLL_SECONDS):
            pass

    def keep_certificates(self, rotation: Rotation, server: WebhookServer) -> threading.Thread:
        """Start the thread that renews certificates until stopped; a slow API server delays nothing else."""

        def keep() -> None:
            while True:
                self.wake.wait(rotation.interval)
                if self._stop.is_set():
                    return
                self.wake.clear()
                self._rotate(rotation, server)

        thread = threading.Thread(target=keep, name="certificates", daemon=True)
        thread.start()
        return thread

    def _rotate(self, rotation: Rotation, server: WebhookServer) -> None:
        """Renew certificates and reread client CAs. After a failure, the last good ones stay in use."""
        try:
            rotation.check(self._clock(), server.use)
            server.reread_clients()
        except Exception as error:
            # Without this thread the certificates would expire.
            self.metrics.reload_failed()
            unforeseen = None if isinstance(error, MusterError) else error
            log.warning("certificate rotation: %s", error, exc_info=unforeseen)

    @staticmethod
    def _trouble_with_certificates(error: Exception) -> None:
        log.log(level_of(error), "watch of the certificates and configurations: %s", error)

    def _charge_store(
        self, direct: Client, watches: PodWatches, reads: ClientReads, rule: ServerRule
    ) -> ChargeStore:
        """The store that charges ElasticQuotas for pods of other schedulers and for resizes."""

        def fresh(namespace: str) -> QuotaStanding | None:
            return self._cache.standing(namespace, reads.quotas(namespace).quotas)

        return ChargeStore(
            LedgerClient(direct, ELASTIC_NAME, rule),
            self._cache.charges,
            watches,
            QuotaStandings(self._cache.standing, fresh),
            self._options.settings.ours,
            self._options.times,
        )

    def _pod_watch(
        self, client: Client, rule: ServerRule, namespace: str, sink: Callable[[Event], None]
    ) -> Reflector:
        reader = plain_reader(lambda raw: parse_pod_use(raw, rule()), rule.followed())
        return self._reflector(client, PODS, reader, sink, namespace)

    def _reflector(
        self,
        client: Client,
        resource: Resource,
        parse: Callable[[Any], Any] | ObjectReader,
        sink: Callable[[Event], None],
        namespace: str = "",
        fields: str = "",
        labels: str = "",
    ) -> Reflector:
        def malformed(error: ModelError) -> None:
            log.warning("ignored: %s", error)

        def trouble(error: Exception) -> None:
            log.log(level_of(error), "watch of %s: %s", resource.plural, error)

        return Reflector(
            client,
            resource,
            parse,
            sink,
            namespace=namespace,
            field_selector=fields,
            label_selector=labels,
            on_malformed=malformed,
            on_error=trouble,
        )

    def _url(self, port: int) -> str:
        host = self._options.host
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def register_itself(self, client: Client, rotation: Rotation, port: int) -> None:
        """Write the configurations once. Later only their CAs are updated: deleted ones stay deleted."""
        if not self._options.register:
            return
        bundle = rotation.bundle if isinstance(rotation, OwnCertificates) else b""
        namespace, name = self._options.service
        url = "" if name else self._options.url or self._url(port)
        endpoint = WebhookEndpoint(bundle, url, namespace, name, self._options.service_port)
        try:
            register(client, endpoint, sorted(self._options.settings.exempt_namespaces))
        except ApiError as error:
            raise RegistrationError(str(error)) from None


TURN_SECONDS: Final = 0.0005


def settle_memory() -> None:
    """Take the objects of the start out of garbage collection, which would delay reviews.

    Also shorten the switch interval: at the default a typical review would wait longer for one turn of a
    costly one than it takes itself.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(TURN_SECONDS)


def in_turn(*steps: Callable[[], None]) -> Callable[[], None]:
    """One step after the other, all of them: what one namespace makes fail must not end the others. The first
    ApiError or KubeconfigError is raised then.
    """

    def run() -> None:
        failed: list[MusterError] = []
        for step in steps:
            try:
                step()
            except (ApiError, KubeconfigError) as error:
                failed.append(error)
        if failed:
            raise failed[0]

    return run


class ComponentEnded(MusterError):
    """A component that the process needs has ended."""


class RegistrationError(MusterError):
    """The webhook configurations could not be written; holds the API server's message."""

    def __str__(self) -> str:
        return f"the webhook could not be registered: {self.args[0]}"
