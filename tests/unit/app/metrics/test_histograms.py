from __future__ import annotations

import threading

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from scheduler_core.app.metrics.histograms import Histogram

BOUNDS = (0.001, 0.1, 2.0)


def scraped(histogram: Histogram) -> str:
    registry = CollectorRegistry()
    registry.register(histogram)
    return generate_latest(registry).decode()


@given(st.lists(st.one_of(st.sampled_from([0.0, *BOUNDS]), st.floats(0, 10))))
def test_a_scrape_shows_what_the_official_histogram_shows(values: list[float]) -> None:
    registry = CollectorRegistry()
    official = prometheus_client.Histogram(
        "wait_seconds", "Waits.", ["who"], registry=registry, buckets=BOUNDS
    )
    ours = Histogram(("wait_seconds",), "Waits.", BOUNDS, ("who",))
    for value in values:
        official.labels("a").observe(value)
        ours.of("a").observe(value)
    expected = generate_latest(registry).decode().splitlines()
    assert scraped(ours).splitlines() == [line for line in expected if "_created" not in line]


def test_without_labels_zeros_show_before_the_first_value() -> None:
    assert "wait_seconds_count 0.0" in scraped(Histogram(("wait_seconds",), "Waits.", BOUNDS))


def test_every_name_shows_the_same_values() -> None:
    histogram = Histogram(("new_seconds", "old_seconds"), "Waits.", BOUNDS)
    histogram.of().observe(0.5)
    said = scraped(histogram)
    assert 'new_seconds_bucket{le="2.0"} 1.0' in said
    assert 'old_seconds_bucket{le="2.0"} 1.0' in said


def test_no_value_of_two_threads_is_lost() -> None:
    series = Histogram(("wait_seconds",), "Waits.", BOUNDS).of()

    def observe() -> None:
        for _ in range(5000):
            series.observe(1.0)

    threads = [threading.Thread(target=observe) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buckets, total = series.cumulative()
    assert (buckets[-1][1], total) == (20_000.0, 20_000.0)
