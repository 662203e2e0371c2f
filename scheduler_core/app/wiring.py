"""The composition root: everything that a scheduler process is made of, put together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from scheduler_core.app.effects import Effects
from scheduler_core.app.loop import Loop
from scheduler_core.app.outcomes import Stop
from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.controllers.quota_status import QuotaStatus
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.kube.client import Client
from scheduler_core.kube.recorder import Recorder
from scheduler_core.kube.reflector import Reflector
from scheduler_core.model.elastic_quota import parse_elastic_quota
from scheduler_core.model.kinds import (
    CSI_NODES,
    ELASTIC_QUOTAS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from scheduler_core.model.namespace import parse_namespace
from scheduler_core.model.node import parse_node
from scheduler_core.model.pdb import parse_pdb
from scheduler_core.model.pod import parse_pod
from scheduler_core.model.storage import (
    parse_csi_node,
    parse_persistent_volume,
    parse_persistent_volume_claim,
    parse_storage_class,
)
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState

log = logging.getLogger(__name__)

WATCHED: Final[tuple[tuple[Resource, Callable[[Any], Any]], ...]] = (
    (NODES, parse_node),
    (NAMESPACES, parse_namespace),
    (ELASTIC_QUOTAS, parse_elastic_quota),
    (POD_DISRUPTION_BUDGETS, parse_pdb),
    (PERSISTENT_VOLUMES, parse_persistent_volume),
    (PERSISTENT_VOLUME_CLAIMS, parse_persistent_volume_claim),
    (STORAGE_CLASSES, parse_storage_class),
    (CSI_NODES, parse_csi_node),
    (PODS, parse_pod),
)


class Process:
    """A scheduler on one API server. `start` watches, `lead` decides, `stop` ends both in order."""

    def __init__(self, config: SchedulerConfiguration, client: Client, identity: str) -> None:
        scheduler = Scheduler(
            ClusterState(),
            build_profiles(config, FACTORIES, KNOWN_PLUGINS),
            initial_backoff=float(config.pod_initial_backoff_seconds),
            max_backoff=float(config.pod_max_backoff_seconds),
        )
        self.loop = Loop(scheduler, [QuotaStatus()], [resource for resource, _ in WATCHED])
        self.recorder = Recorder(client)
        self.effects = Effects(client, self.recorder, self.loop.inbox.put, identity)
        self.reflectors = [
            Reflector(
                client,
                resource,
                parse,
                self.loop.inbox.put,
                on_malformed=lambda error: log.warning("malformed object: %s", error),
                on_error=lambda error: log.warning("watching: %s", error),
            )
            for resource, parse in WATCHED
        ]
        self._thread = threading.Thread(target=self.loop.run, name="loop", daemon=True)

    def start(self) -> None:
        """Fill the state from the API; decisions wait for `lead`."""
        for reflector in self.reflectors:
            reflector.start()
        self.recorder.start()
        self._thread.start()

    def lead(self) -> None:
        """Begin to decide."""
        self.loop.carrier = self.effects

    def stop(self) -> None:
        """No new decisions, bindings under way are finished, watches end."""
        self.loop.inbox.put(Stop())
        self._thread.join()
        self.effects.stop()
        self.recorder.stop()
        for reflector in self.reflectors:
            reflector.stop()

    @property
    def healthy(self) -> bool:
        """Whether the loop and all reflectors are alive."""
        return self._thread.is_alive() and all(reflector.alive for reflector in self.reflectors)
