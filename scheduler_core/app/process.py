"""The scheduler process: connects, watches, takes part in leader election, leads, and shuts down."""

from __future__ import annotations

import gc
import logging
import os
import queue
import signal
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from prometheus_client import disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from scheduler_core.app import debugger
from scheduler_core.app.delegated_auth import DelegatedAuthorizer
from scheduler_core.app.entry_points import load_plugins
from scheduler_core.app.wiring import RunningScheduler
from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.render import view
from scheduler_core.errors import MusterError
from scheduler_core.health import JSON, HealthServer, Page
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.lease import LeaderElector, LeaseTimes
from scheduler_core.logs import fields
from scheduler_core.model.kinds import NODES
from scheduler_core.model.names import SERVES_ANNOTATION, STUCK_ANNOTATION

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
# Seconds that bindings in flight have after SIGTERM, and after them events; both usually take milliseconds.
_BIND_SECONDS: Final = 5.0
_EVENT_SECONDS: Final = 2.0
# Thresholds of garbage collection. Most allocated objects stay, and few of the others are in cycles.
_COLLECTIONS: Final = (50_000, 20, 20)


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command-line options beside the configuration. A `port` of 0 means no HTTP port.

    `manage_node_metrics`: keep a NodeMetric per node. `report_node_metrics`: fill NodeMetrics without an
    agent.
    """

    context: str = ""
    address: str = "127.0.0.1"
    port: int = 0
    manage_node_metrics: bool = False
    report_node_metrics: bool = False


class Run:
    """A process of the scheduler from its first connection to its exit code."""

    def __init__(self, config: SchedulerConfiguration, options: SchedulerOptions) -> None:
        """Raises MusterError where the run cannot start: kubeconfig, server, credentials, port."""
        self._config = config
        self._signals: queue.SimpleQueue[int | str] = queue.SimpleQueue()
        self.identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self._client = _connected(config, options)
        self._lease = self._election(self._client) if config.leader_election.leader_elect else None
        may_write = self._lease.is_leader if self._lease else lambda: True
        self.process = RunningScheduler(
            config,
            self._client,
            self.identity,
            may_write=may_write,
            manage_node_metrics=options.manage_node_metrics,
            report_node_metrics=options.report_node_metrics,
        )
        self._server = self._http(options) if options.port else None

    def run(self) -> int:
        """Run until SIGTERM or SIGINT (returns 0), or until leadership or a required thread is lost (1)."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            signal.signal(number, lambda number, _: self._signals.put(number))
        if self._server is not None:
            self._server.start()
            log.info("serving", extra=fields(url=self._server.url))
        self.process.start()
        campaign = None
        if self._lease is not None:
            campaign = threading.Thread(target=self._lease.run, name="lease", daemon=True)
            campaign.start()
        else:
            self._lead()
        problem = self._wait(campaign)
        if problem:
            log.error("ending: %s", problem, extra=fields(loop=self.process.doing()))
            return 1
        self._stop(campaign)
        return 0

    def _wait(self, campaign: threading.Thread | None) -> str:
        """The reason to end with an error; empty after a signal."""
        while True:
            with suppress(queue.Empty):
                received = self._signals.get(timeout=_LOOK_SECONDS)
                if isinstance(received, str):
                    return received
                if received != signal.SIGUSR2:
                    return ""
                threading.Thread(target=self._log_report, name="debugger", daemon=True).start()
            if problem := self.process.problem():
                return problem
            if campaign is not None and not campaign.is_alive():
                return "the leader election ended"

    def _stop(self, campaign: threading.Thread | None) -> None:
        """Finish the writes in flight, release the Lease, post the remaining events."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.process.stop_deciding(_BIND_SECONDS)
        if self._lease is not None and campaign is not None:
            self._lease.stop()
            campaign.join(_BIND_SECONDS)
            self._lease.close()
        self.process.close(_EVENT_SECONDS)
        if self._server is not None:
            self._server.stop()
        self._client.session.close()
        log.info("shut down")

    def _lead(self) -> None:
        log.info("leading", extra=fields(identity=self.identity))
        self.process.lead()

    def _election(self, client: Client) -> LeaderElector:
        election = self._config.leader_election
        return LeaderElector(
            client,
            election.resource_namespace,
            election.resource_name,
            self.identity,
            times=LeaseTimes(election.lease_duration, election.renew_deadline, election.retry_period),
            annotations=self._annotations,
            on_started=self._lead,
            on_lost=lambda reason: self._signals.put(f"leadership lost: {reason}"),
            on_error=lambda error: log.warning("lease: %s", error),
        )

    def _annotations(self) -> dict[str, str]:
        """What the Lease tells of the leader."""
        serves = ",".join(profile.scheduler_name for profile in self._config.profiles)
        return {SERVES_ANNOTATION: serves, STUCK_ANNOTATION: ",".join(self.process.loop.schedule.stuck)}

    # The HTTP port

    def _http(self, options: SchedulerOptions) -> HealthServer:
        process = self.process
        alive = [("process", process.problem)]
        pages: dict[str, Callable[[], Page]] = {
            "/metrics": lambda: (CONTENT_TYPE_LATEST, generate_latest(process.metrics.registry)),
            "/configz": self._configz,
            "/debug/cache": lambda: (JSON, self._report()),
        }
        checks = {
            "/healthz": alive,
            "/livez": alive,
            "/readyz": [*alive, ("watches", process.unsynced), ("events", process.loop.lag.problem)],
        }
        # Pages with object names, and with the cluster's configuration, need authorization.
        gate = DelegatedAuthorizer(Client(self._client.session, retry_budget=0.0))
        guarded = frozenset({"/configz", "/debug/cache"})
        return HealthServer(options.address, options.port, checks, pages, guarded, gate)

    def _configz(self) -> Page:
        shown = {"kubescheduler.config.k8s.io": view(self._config, load_plugins().points)}
        return JSON, msgspec.json.encode(shown)

    def _report(self) -> bytes:
        return debugger.report(Client(self._client.session), self.process.ask)

    def _log_report(self) -> None:
        try:
            log.info("cache", extra=fields(report=msgspec.json.decode(self._report())))
        except MusterError as error:
            log.warning("the cache cannot be compared: %s", error)


def _connected(config: SchedulerConfiguration, options: SchedulerOptions) -> Client:
    """A client of a server that answers. Raises MusterError."""
    connection = config.client_connection
    overrides = Overrides(kubeconfig=connection.kubeconfig, context=options.context)
    client, _ = connect(overrides, qps=connection.qps, burst=connection.burst)
    # One request at the start, so that a wrong address or missing right ends the process with one line.
    Client(client.session, retry_budget=0.0).get_page(NODES, limit=1)
    return client


def run(config: SchedulerConfiguration, options: SchedulerOptions, say: Callable[[str], None]) -> int:
    """Run a scheduler; returns its exit code. A failed start is reported in one line."""
    gc.set_threshold(*_COLLECTIONS)
    # The creation time of series has no use here, and doubles the size of a scrape.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    try:
        started = Run(config, options)
    except MusterError as error:
        say(f"error: {error}")
        return 1
    return started.run()
