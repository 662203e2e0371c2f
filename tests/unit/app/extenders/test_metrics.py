"""Failures of extenders are counted each and logged seldom."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import CollectorRegistry

from scheduler_core.app.extenders.metrics import ExtenderMetrics

URL = "http://x"


def test_failures_of_one_kind_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    registry = CollectorRegistry()
    metrics = ExtenderMetrics(registry, lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            metrics.failed(URL, "filter", "timeout", "late")
        metrics.failed(URL, "filter", "status", "500")
        assert [record.getMessage() for record in caplog.records] == ["extender: late", "extender: 500"]
        now[0] = 11.0
        metrics.failed(URL, "filter", "timeout", "late again")
    assert caplog.records[-1].getMessage() == "extender: late again"
    kept = [record.fields.get("more") for record in caplog.records]  # type: ignore[attr-defined]
    assert kept == [None, None, 99], "those that no line told"
    labels = {"extender": URL, "verb": "filter", "reason": "timeout"}
    assert registry.get_sample_value("muster_extender_errors_total", labels) == 101


def test_calls_are_timed_by_extender_and_verb() -> None:
    registry = CollectorRegistry()
    metrics = ExtenderMetrics(registry)
    metrics.called(URL, "filter", 0.25)
    labels = {"extender": URL, "verb": "filter"}
    assert registry.get_sample_value("muster_extender_duration_seconds_count", labels) == 1
    assert registry.get_sample_value("muster_extender_duration_seconds_sum", labels) == 0.25
