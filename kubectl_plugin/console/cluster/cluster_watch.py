"""The thread that keeps a live cluster current, and what it lacks."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import time

from kubectl_plugin.cli.errors import describe
from kubectl_plugin.cluster.reading import kind_name
from kubectl_plugin.cluster.reflectors import Reflectors
from kubectl_plugin.console.cluster.feeds import Feed, blind, feeds, unread, unread_limits
from kubectl_plugin.console.cluster.live_cluster import LiveCluster
from kubectl_plugin.live.configuration import config_of_cluster, config_of_file, topology_namespaces
from scheduler_core.engine.profile_settings import wants_composites
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.server_version import ServerRule
from scheduler_core.kube.watch.reading import plain_reader
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.printable import visible


class ClusterWatch:
    """Watches a cluster with one identity. `start` returns at once; `ready` is set when all was read.

    Where a user may not list a kind in the whole cluster, only `namespace` is watched.
    """

    def __init__(self, client: Client, namespace: str, *, config: str = "") -> None:
        self.client = client
        self.namespace = namespace
        effective = config_of_file(config) if config else config_of_cluster(client)
        # The scheduler keeps its history where it keeps its lease.
        self.history_namespace = effective.config.leader_election.resource_namespace
        self._topologies = topology_namespaces(effective.config)
        self._rule = ServerRule(client)
        self.cluster = LiveCluster(effective.config, time.time(), self._rule)
        self.feeds: list[Feed] = []
        # The feeds by the plural name of their kind.
        self._of: dict[str, list[Feed]] = {}
        self.ready = threading.Event()
        self.failure = ""
        self._reflectors = Reflectors(client, lambda line: None)
        self._thread = threading.Thread(target=self._run, name="console-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch. Raises the ApiError tree where the server cannot be asked for the first list."""
        composites = wants_composites(self.cluster.simulation.scheduler.profiles)
        self.feeds = feeds(
            self.client,
            self.namespace,
            composites=composites,
            topologies=self._topologies,
            rule=self._rule,
        )
        for feed in self.feeds:
            self._of.setdefault(feed.resource.plural, []).append(feed)
        self.cluster.view.unread = unread_limits(self.lists)
        for feed in self.feeds:
            if not feed.denied:
                followed = feed.resource == PODS
                reader = plain_reader(feed.parse, self._rule.followed()) if followed else feed.parse
                self._reflectors.start(feed.name, feed.resource, reader, feed.scope)
        self._thread.start()

    def stop(self) -> None:
        """End the watches."""
        self._reflectors.stop()

    @property
    def blind(self) -> tuple[str, ...]:
        """What no run of the scheduler can do without, and the identity may not list or the server lacks."""
        return (*self._denied(), *([self.uninstalled] if self.uninstalled else ()))

    @property
    def hindrance(self) -> str:
        """Why there can be no run of the scheduler, as a sentence; empty if there can."""
        denied = self._denied()
        rights = [f"you may not list {', '.join(denied)}"] if denied else []
        kinds = [f"the server does not have {self.uninstalled}"] if self.uninstalled else []
        return "; ".join([*rights, *kinds])

    def _denied(self) -> tuple[str, ...]:
        with self.cluster.lock:
            return blind(self.feeds, self.cluster.view.hidden())

    @property
    def uninstalled(self) -> str:
        """The kind that Muster cannot do without, where the server does not have it now; else empty."""
        name = kind_name(ELASTIC_QUOTAS)
        return name if self._reflectors.absent(name) else ""

    @property
    def whole_use(self) -> bool:
        """Whether the quotas and pods of all namespaces are watched, so that loans are known."""
        return self.lists("elasticquotas", everywhere=True) and self.lists("pods", everywhere=True)

    @property
    def unread(self) -> tuple[str, ...]:
        """All that the identity may not list."""
        return unread(self.feeds)

    def lists(self, plural: str, *, everywhere: bool = False) -> bool:
        """Whether a kind is watched; `everywhere`: in all namespaces."""
        found = self._of.get(plural, ())
        return all(not (feed.missing if everywhere else feed.denied) for feed in found)

    def lists_in(self, plural: str, namespace: str) -> bool:
        """Whether all objects of a kind in a namespace are watched."""
        found = self._of.get(plural, ())
        return all(not feed.denied and feed.scope.namespace in ("", namespace) for feed in found)

    @property
    def reclaims_in(self) -> str:
        """The namespace whose quotas may be read; empty for all."""
        return "" if self.lists("elasticquotas", everywhere=True) else self.namespace

    def trouble(self) -> str:
        """Why what is shown may be old; empty while the watches have contact with the server."""
        if self.failure:
            return self.failure
        error = self._reflectors.trouble()
        if error is None:
            return ""
        text = describe(error) if isinstance(error, MusterError) else str(error)
        return visible(" ".join(text.split()))

    def unreadable(self) -> list[ModelError]:
        """Why objects are left out, or shown as they were before: they cannot be read as they are."""
        return self._reflectors.unreadable()

    def _run(self) -> None:
        # Nothing of what is made while all is read becomes garbage; each collection would look at all of it.
        gc.disable()
        try:
            for batch in self._reflectors.batches():
                self.cluster.apply(batch, time.time())
                if not self.ready.is_set():
                    # A child process must not copy pages because its collector touches each object.
                    gc.freeze()
                    gc.enable()
                    give_back()
                    self.ready.set()
        except Exception as error:
            # The page must say that it is no longer current, whatever the reason is.
            self.failure = f"internal error, please report it: {type(error).__name__}: {error}"
            self.ready.set()
            raise


def give_back() -> None:
    """Give memory back to the system that lists of pods took while they were read, where libc can do that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
