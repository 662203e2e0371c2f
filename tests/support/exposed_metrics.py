"""What scheduler and webhook expose, asked of their own metrics: every series, and its labels."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_core.app.extenders.metrics import ExtenderMetrics
from scheduler_core.app.loop.inbox import Timing
from scheduler_core.app.metrics.metrics import SampledMetrics, SchedulerMetrics, WatchMetrics
from scheduler_core.app.metrics.quota_seconds import QuotaSecondsMetrics
from scheduler_core.app.metrics.sample import Sample
from scheduler_core.engine.decisions import Evicted, Placed, Rejected
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.writes import Bind
from webhook.http.admission_review import GroupKind, ReviewRequest, ReviewResponse
from webhook.metrics import WebhookMetrics
from webhook.policy.verdict import Verdict
from webhook.view.audit import Auditor

Labels = dict[str, frozenset[str]]
_POD = parse_pod({"metadata": {"name": "p", "namespace": "a", "uid": "u"}, "spec": {"containers": []}})
_BY_RESOURCE = {("a", "cpu"): 1.0}
_SAMPLE = Sample(
    {"active": 1.0},
    {"nodes": 1.0},
    {("active", "PodAdd"): 1.0},
    dict.fromkeys(("min", "max", "used", "borrowed"), _BY_RESOURCE),
    0,
    {("a", "quota"): 1.0},
    {("a", "quota", "cpu"): 1.0},
    {"Running": 1.0},
    dict.fromkeys(("min", "max", "used"), _BY_RESOURCE),
    {("a", "gang"): 1.0},
)


class _Reflector:
    """A watch that was restarted once."""

    def __init__(self) -> None:
        self.resource = type("Resource", (), {"plural": "pods"})
        self.restarts = Counter(["cut"])

    def staleness(self) -> float:
        return 1.0


def exposed() -> Labels:
    """The labels of every series of both programs, by its name in queries, `le` included.

    Each measurement is made once, as what has never happened has no series.
    """
    return labels_in(_scheduler()) | labels_in(_webhook())


def labels_in(text: str) -> Labels:
    """The labels of every series of a page of metrics; when a counter was created is left out."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        sample.name: frozenset(sample.labels) for sample in samples if not sample.name.endswith("_created")
    }


def _scheduler() -> str:
    metrics = SchedulerMetrics("1", ["p"])
    metrics.add(SampledMetrics(lambda: _SAMPLE))
    metrics.add(QuotaSecondsMetrics(lambda: {("a", "cpu", "used"): 1}))
    metrics.add(WatchMetrics(cast(Any, [_Reflector()]), lambda: True))
    metrics.decided([Evicted(_POD, _POD, "p", ""), Rejected(_POD, "p", "Unschedulable", "")], 1.0)
    metrics.bound(Placed(_POD, "n", "p", Bind("a", "p", "u", "n")), Timing(waited_for="quota"), 1.0)
    metrics.malformed("Pod")
    metrics.part_stuck("reviews", stuck=True)
    metrics.write_failed("pods")
    extender = ExtenderMetrics(metrics.registry)
    extender.called("e", "filter", 1.0)
    extender.failed("e", "filter", "timeout", "late")
    return generate_latest(metrics.registry).decode()


def _webhook() -> str:
    metrics = WebhookMetrics()
    Auditor(cast(Any, None), list, metrics.registry).round()
    refused = Verdict(False, rules=("max",))
    request = ReviewRequest("u", "CREATE", GroupKind("", "v1", "Pod"))
    metrics.reviewed(ReviewResponse(200, b"", request, refused), 1.0)
    metrics.failed(503)
    return metrics.render(True, {"pods": 1.0}).decode()
