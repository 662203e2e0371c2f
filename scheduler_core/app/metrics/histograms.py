"""Histograms with little cost per value; those of prometheus_client take a lock and search linearly."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import inf

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


def _spelled(bound: float) -> str:
    spelled: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return spelled


class Series:
    """The values of one combination of labels. `observe` may be called from any thread."""

    __slots__ = ("_bounds", "_counts", "_lock", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """`bounds`: upper bounds of all buckets but the last, ascending."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        """Count one value."""
        bucket = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += value

    def cumulative(self) -> tuple[list[tuple[str, float]], float]:
        """(bound, values up to it) of every bucket, and the sum of all values."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        found: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip((*self._bounds, inf), counts, strict=True):
            so_far += count
            found.append((_spelled(bound), float(so_far)))
        return found, total


class Histogram(Collector):
    """One measurement under one or several `names`; without labels it is exported from the start."""

    def __init__(
        self, names: tuple[str, ...], what: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> None:
        self._names = names
        self._what = what
        self._bounds = bounds
        self._labels = labels
        self._series: dict[tuple[str, ...], Series] = {}
        if not labels:
            self.of()

    def of(self, *values: str) -> Series:
        """The series of these label values."""
        found = self._series.get(values)
        if found is None:
            # If two threads come at once, both get the series that was stored.
            found = self._series.setdefault(values, Series(self._bounds))
        return found

    def describe(self) -> Iterable[Metric]:
        """The families without values."""
        return [HistogramMetricFamily(name, self._what, labels=self._labels) for name in self._names]

    def collect(self) -> Iterator[Metric]:
        """One family per name."""
        for name in self._names:
            family = HistogramMetricFamily(name, self._what, labels=self._labels)
            for values, series in list(self._series.items()):
                buckets, total = series.cumulative()
                family.add_metric(values, buckets, total)
            yield family
