"""The audit: finds stored objects that break a rule and pods that bypassed the webhook, and reports them.

With failurePolicy `Ignore`, objects pass while the webhook is unavailable, and no webhook sees older objects.
So all stored objects are examined when the cache is full, and every few seconds from then on. Findings become
Events on the objects, and a metric.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import REFUSALS, AlreadyExists, ApiError, KubeconfigError
from scheduler_core.kube.writes.correlator import event_name, truncate
from scheduler_core.model.kinds import ELASTIC_QUOTAS, EVENTS, PODS, QUOTA_FLAVORS, QUOTA_GROUPS, Resource
from scheduler_core.model.names import MUSTER_NAMESPACE
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create
from scheduler_core.quota.flavor_validation import validate_flavors
from scheduler_core.quota.group_validation import validate_groups
from scheduler_core.quota.validation import validate_capacity, validate_stored
from webhook.policy.review_dispatcher import Settings
from webhook.view.bypassing_pods import BypassingPod, BypassSearch, DefaultSchedulerPod
from webhook.view.cache import Cache, StoredQuotas

PASSED_BY: Final = "passed-by"
RULES: Final = (
    "whole",
    "bounds",
    "hard",
    "single",
    "sharing",
    "capacity",
    "max",
    "tree",
    "flavor",
    PASSED_BY,
)


class AuditFinding(msgspec.Struct, frozen=True):
    """One finding. Without a `uid` it concerns no single object, and gets no Event."""

    rule: str
    message: str
    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


def broken_rules(stored: StoredQuotas, *, capacity: bool) -> list[AuditFinding]:
    """The rules that stored quotas break now; with `capacity` including that of the sum of min."""
    broken = validate_stored(stored.quotas, stored.natives, stored.groups, stored.flavors)
    if capacity:
        broken += validate_capacity(stored.total_min, stored.allocatable)
    in_groups = [
        AuditFinding(
            "tree", str(item), QUOTA_GROUPS.kind, QUOTA_GROUPS.api_version, "", group.name, group.uid
        )
        for group, item in validate_groups(stored.groups, stored.quotas)
    ]
    overlaps = [
        AuditFinding(
            "flavor", str(item), QUOTA_FLAVORS.kind, QUOTA_FLAVORS.api_version, "", flavor.name, flavor.uid
        )
        for flavor, item in validate_flavors(stored.flavors)
    ]
    return [*in_groups, *overlaps] + [
        _about(ELASTIC_QUOTAS, item.quota, item.rule, item.violation)
        if item.quota is not None
        else AuditFinding(item.rule, str(item.violation))
        for item in broken
    ]


def _about(
    kind: Resource, obj: ElasticQuota | DefaultSchedulerPod, rule: str, message: object
) -> AuditFinding:
    return AuditFinding(rule, str(message), kind.kind, kind.api_version, obj.namespace, obj.name, obj.uid)


INTERVAL_SECONDS: Final = 5.0
EVENTS_PER_ROUND: Final = 50
REPEAT_SECONDS: Final = 3000.0
"""Events are written again before an API server deletes them (after an hour by default)."""
REASON: Final = "RuleBroken"

log = logging.getLogger("muster.webhook")


def passed_by(found: Iterable[BypassingPod]) -> list[AuditFinding]:
    """The findings about bypassing pods."""
    return [_about(PODS, item.pod, PASSED_BY, item) for item in found]


class Auditor:
    """Runs the audit on one thread. `look` returns the findings, `mend` repairs what it may afterwards.

    Both may raise ApiError, which ends the round. Every replica runs the audit; the name of an Event depends
    on its content only, so that one replica writes it.
    """

    def __init__(
        self,
        client: Client,
        look: Callable[[], list[AuditFinding]],
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
        self._told: dict[AuditFinding, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start the thread; the cache must be synced."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current round."""
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
        """Run one round: find, count, write missing Events, and mend. Raises ApiError."""
        findings = self._look()
        counts = Counter(finding.rule for finding in findings)
        for rule in RULES:
            self._found.labels(rule).set(counts[rule])
        now = self._wall()
        present = set(findings)
        self._told = {finding: at for finding, at in self._told.items() if finding in present}
        new = [
            finding
            for finding in findings
            if finding.uid and now - self._told.get(finding, 0.0) >= REPEAT_SECONDS
        ]
        refused: list[ApiError] = []
        for finding in round_robin(new, lambda finding: finding.namespace)[:EVENTS_PER_ROUND]:
            # A namespace that accepts no Events, because it is full or terminating, must not block others.
            try:
                self._tell(finding, now)
            except REFUSALS as refusal:
                refused.append(refusal)
            self._told[finding] = now
        if refused:
            log.warning("audit: %d Events were refused, as here: %s", len(refused), refused[0])
        self._mend()

    def _tell(self, finding: AuditFinding, now: float) -> None:
        # The Event exists if another replica was first, or this one before a restart.
        with suppress(AlreadyExists):
            self._client.create(Create(EVENTS, finding.namespace, event_of(finding, now)))


def audit_of(
    cache: Cache,
    search: BypassSearch,
    settings: Settings,
    others: Callable[[], list[AuditFinding]] = list,
) -> Callable[[], list[AuditFinding]]:
    """The `look` of an Auditor, from the cache alone; `others` are findings of other parts."""

    def look() -> list[AuditFinding]:
        findings = broken_rules(cache.stored(), capacity=settings.sum_of_min != "off")
        return findings + passed_by(search.find()) + others()

    return look


def event_of(finding: AuditFinding, now: float) -> dict[str, object]:
    """The Event (events.k8s.io/v1) of one finding; equal findings within REPEAT_SECONDS share a name."""
    epoch = int(now // REPEAT_SECONDS)
    digest = hashlib.sha256(f"{finding.uid} {finding.rule} {finding.message} {epoch}".encode()).hexdigest()[
        :16
    ]
    regarding = {
        "apiVersion": finding.api_version,
        "kind": finding.kind,
        "namespace": finding.namespace,
        "name": finding.name,
        "uid": finding.uid,
    }
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": event_name(finding.name, f".{digest}"),
            "namespace": finding.namespace,
        },
        "eventTime": format_micro_time(now),
        "type": "Warning",
        "reason": REASON,
        "action": "Audit",
        "note": truncate(finding.message),
        "regarding": regarding,
        "reportingController": "muster-webhook",
        "reportingInstance": MUSTER_NAMESPACE,
    }


T = TypeVar("T")


def round_robin(items: Iterable[T], namespace: Callable[[T], str]) -> list[T]:
    """The first item of every namespace, then the second of each, and so on: no namespace delays others."""
    seen: Counter[str] = Counter()
    placed = []
    for item in items:
        name = namespace(item)
        seen[name] += 1
        placed.append((seen[name], item))
    return [item for _, item in sorted(placed, key=lambda one: one[0])]
