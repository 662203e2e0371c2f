"""The Prometheus metrics of the webhook. Label sets are bounded: unknown kinds count as `other`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from scheduler_core.logs import dropped_lines
from webhook.http.admission_review import OPERATIONS, ReviewResponse

KINDS = frozenset({"Pod", "ElasticQuota", "ResourceQuota", "PodGroup", "ConfigMap"})
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class WebhookMetrics:
    """The metrics of the webhook, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self._duration = Histogram(
            "muster_admission_review_duration_seconds",
            "Time from the whole request read to the answer made.",
            ("operation", "kind", "allowed"),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._denials = counter(
            "muster_admission_denials_total", "Requests refused, by the rule they break.", ("rule",)
        )
        self._failures = counter(
            "muster_admission_failures_total",
            "Reviews not decided, by the HTTP code of the answer.",
            ("code",),
        )
        self._synced = gauge(
            "muster_webhook_cache_synced", "1 if all watched resources were listed once, else 0."
        )
        self._in_flight = gauge("muster_admission_reviews_in_flight", "Reviews that are being decided.")
        self._staleness = gauge(
            "muster_webhook_watch_staleness_seconds",
            "Time since the API server was last heard of by the watch of a resource.",
            ("resource",),
        )
        self._expiry = gauge(
            "muster_webhook_cert_expiry_timestamp_seconds",
            "When the serving certificate ends, in seconds since the epoch.",
        )
        self._reload_failures = counter(
            "muster_webhook_cert_reload_failures_total",
            "Times that new certificates could not be made or loaded and the last good ones were kept.",
        )

        self._authority = gauge(
            "muster_webhook_ca_expiry_timestamp_seconds",
            "When the CA that signs serving certificates ends, in seconds since the epoch.",
        )
        self._bundle_writes = counter(
            "muster_webhook_ca_bundle_writes_total",
            "Webhook configurations whose CA bundle had to be written.",
        )

        dropped = gauge("muster_log_lines_dropped", "Log lines dropped since the start.")
        dropped.set_function(dropped_lines)

    def reviewed(self, answer: ReviewResponse, seconds: float) -> None:
        """Count one answered review."""
        if answer.verdict is None:
            self._failures.labels(str(answer.status)).inc()
            return
        if answer.request is not None:
            operation, kind = answer.request.operation, answer.request.kind.kind
            self._duration.labels(
                operation if operation in OPERATIONS else "other",
                kind if kind in KINDS else "other",
                "true" if answer.verdict.allowed else "false",
            ).observe(seconds)
        for rule in answer.verdict.rules:
            self._denials.labels(rule).inc()

    def failed(self, code: int) -> None:
        """Count a request that was not a review, or could not be read."""
        self._failures.labels(str(code)).inc()

    def certificate(self, expiry: float) -> None:
        """Set when the serving certificate expires, in seconds since the epoch."""
        self._expiry.set(expiry)

    def authority(self, expiry: float) -> None:
        """Set when the CA expires, in seconds since the epoch."""
        self._authority.set(expiry)

    def bundle_written(self) -> None:
        """Count a configuration into which the CA bundle was written."""
        self._bundle_writes.inc()

    def reload_failed(self) -> None:
        """Count a failure to make or load certificates."""
        self._reload_failures.inc()

    def in_flight(self) -> AbstractContextManager[object]:
        """A context manager that counts a review while it is decided."""
        return self._in_flight.track_inprogress()

    def render(self, synced: bool, ages: Mapping[str, float]) -> bytes:
        """The exposition text; `ages` are seconds by watched resource."""
        self._synced.set(1 if synced else 0)
        for resource, age in ages.items():
            self._staleness.labels(resource).set(age)
        return generate_latest(self.registry)
