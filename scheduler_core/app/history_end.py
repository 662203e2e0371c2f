"""Stores what the history of quotas has not stored yet, when a leader ends in order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from scheduler_core.controllers.quota_history import QuotaHistory
from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Conflict
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import HISTORY_LABEL, HISTORY_LABEL_VALUE
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState

log = logging.getLogger(__name__)

# The first write may be computed from a version that the watch had not caught up with.
_TRIES: Final = 2


class EndingWriter:
    """Requests of a process whose loop has ended: each is sent once."""

    def __init__(self, client: Client, namespace: str, may_write: Callable[[], bool]) -> None:
        self._client = Client(client.session, retry_budget=0.0)
        self._namespace = namespace
        self.may_write = may_write

    def write(self, write: Write) -> None:
        """Send a write. Raises MusterError."""
        self._client.write(write)

    def stored(self) -> list[ConfigMap]:
        """The history as it is stored. Raises MusterError."""
        selector = f"{HISTORY_LABEL}={HISTORY_LABEL_VALUE}"
        items = self._client.list_raw(CONFIG_MAPS, self._namespace, label_selector=selector)
        return [parse_config_map(raw, self._namespace) for raw in items]


def store_rest(history: QuotaHistory, state: ClusterState, ending: EndingWriter, now: float) -> None:
    """Write the history once more, while the process still leads. Failures are logged: the next leader goes
    on from what is stored.
    """
    try:
        for number in range(_TRIES):
            if number:
                for found in ending.stored():
                    state.config_maps.put(found)
            try:
                for write in history.last_writes(state, now):
                    if not ending.may_write():
                        return
                    ending.write(write)
                return
            except Conflict as error:
                if number + 1 == _TRIES:
                    raise error
    except MusterError as error:
        log.warning("storing the history of quotas: %s", error)
