"""Tells of what slipped through, as Events on the objects and as a metric, round by round."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from scheduler_core.kube.client import Client
from scheduler_core.kube.correlator import event_name, truncate
from scheduler_core.kube.errors import REFUSALS, AlreadyExists, ApiError, KubeconfigError
from scheduler_core.kube.timestamps import micro_timestamp
from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.names import MUSTER_NAMESPACE
from scheduler_core.model.writes import Create
from webhook.audit import RULES, Slip, broken_rules
from webhook.cache import Cache
from webhook.elsewhere import Search, passed_by
from webhook.service import Settings
from webhook.turns import in_turns

INTERVAL_SECONDS: Final = 5.0
EVENTS_PER_ROUND: Final = 50
REPEAT_SECONDS: Final = 3000.0
"""Before an API server forgets an Event (an hour by default), it is written again."""
REASON: Final = "RuleBroken"

log = logging.getLogger("muster.webhook")


class Auditor:
    """One thread. `look` finds what is wrong now, `mend` puts right what it may, once all was told.

    Both may raise ApiError, which ends the round.

    Every replica looks; the name of an Event follows from what it says, so that one of them writes it.
    """

    def __init__(
        self,
        client: Client,
        look: Callable[[], list[Slip]],
        registry: CollectorRegistry,
        interval: float = INTERVAL_SECONDS,
        wall: Callable[[], float] = time.time,
        mend: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._look = look
        self._found = Gauge(
            "muster_admission_objects_breaking_rules",
            "Stored objects that break a rule now, by rule.",
            ("rule",),
            registry=registry,
        )
        self._interval = interval
        self._wall = wall
        self._mend = mend
        self._told: dict[Slip, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Begin; the caches must be full."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that is under way."""
        self._stop.set()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, if it was started."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            try:
                self.round()
            except (ApiError, KubeconfigError) as error:
                log.warning("audit: %s", error)
            if self._stop.wait(self._interval):
                return

    def round(self) -> None:
        """Look once, count, write the Events that are not there, and mend. Raises ApiError."""
        slips = self._look()
        counts = Counter(slip.rule for slip in slips)
        for rule in RULES:
            self._found.labels(rule).set(counts[rule])
        now = self._wall()
        present = set(slips)
        self._told = {slip: at for slip, at in self._told.items() if slip in present}
        new = [slip for slip in slips if slip.uid and now - self._told.get(slip, 0.0) >= REPEAT_SECONDS]
        refused: list[ApiError] = []
        for slip in in_turns(new, lambda slip: slip.namespace)[:EVENTS_PER_ROUND]:
            # A namespace that takes no Events, as it is full or ends, must not keep others from theirs.
            try:
                self._tell(slip, now)
            except REFUSALS as refusal:
                refused.append(refusal)
            self._told[slip] = now
        if refused:
            log.warning("audit: %d Events were refused, as here: %s", len(refused), refused[0])
        self._mend()

    def _tell(self, slip: Slip, now: float) -> None:
        # It exists where another replica was first, or this one before it was started again.
        with suppress(AlreadyExists):
            self._client.create(Create(EVENTS, slip.namespace, event_of(slip, now)))


def look_at(cache: Cache, search: Search, settings: Settings) -> Callable[[], list[Slip]]:
    """What an Auditor looks at: memory alone."""

    def look() -> list[Slip]:
        slips = broken_rules(cache.stored(), capacity=settings.sum_of_min != "off")
        return slips + passed_by(search.find())

    return look


def event_of(slip: Slip, now: float) -> dict[str, object]:
    """The Event (events.k8s.io/v1) of one finding; equal findings within REPEAT_SECONDS share a name."""
    epoch = int(now // REPEAT_SECONDS)
    digest = hashlib.sha256(f"{slip.uid} {slip.rule} {slip.message} {epoch}".encode()).hexdigest()[:16]
    regarding = {
        "apiVersion": slip.api_version,
        "kind": slip.kind,
        "namespace": slip.namespace,
        "name": slip.name,
        "uid": slip.uid,
    }
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": event_name(slip.name, f".{digest}"),
            "namespace": slip.namespace,
        },
        "eventTime": micro_timestamp(now),
        "type": "Warning",
        "reason": REASON,
        "action": "Audit",
        "note": truncate(slip.message),
        "regarding": regarding,
        "reportingController": "muster-webhook",
        "reportingInstance": MUSTER_NAMESPACE,
    }
