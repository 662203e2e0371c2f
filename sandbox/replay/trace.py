"""Reads traces of jobs: Muster's own csv, and Philly's csv (docs/replay.md#the-csv)."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scheduler_core.errors import MusterError

# Columns by the names that they may have.
_COLUMNS: Final = {
    "submit": ("submit", "timestamp"),
    "duration": ("duration",),
    "gpus": ("gpus", "num_gpus"),
    "quota": ("quota", "cluster"),
}
OWN_HEADER: Final = ("submit", "duration", "gpus", "quota")
# Years; longer jobs and later submissions are mistakes of units.
MOST_SECONDS: Final = 1e9
_MOST_GPUS: Final = 1_000_000
_MOST_PRIORITY: Final = 1_000_000_000
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_MOST_NAME: Final = 63


class TraceError(MusterError):
    """A trace that cannot be replayed: the file, and what is wrong with it."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.file, self.problem = file, problem


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job: times in seconds from the first submission, GPUs of all pods together, and the pods' number.

    `pods` is 0 where the trace does not say it. `quota` is the namespace of the job's quota.
    """

    submit: float
    duration: float
    gpus: int
    quota: str
    pods: int = 0
    priority: int = 0

    @property
    def gpu_seconds(self) -> float:
        """The work of the job."""
        return self.duration * self.gpus


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row that is skipped: its line in the file, the column, the value, and the rule that it breaks."""

    line: int
    column: str
    value: str
    rule: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.column}={self.value!r} {self.rule}"


@dataclass(frozen=True)
class Trace:
    """The jobs of a trace in the order of their submission, and the rows that are skipped."""

    jobs: tuple[TraceJob, ...]
    broken: tuple[BrokenRow, ...] = ()

    @property
    def span(self) -> float:
        """Seconds from the first submission to the last."""
        return self.jobs[-1].submit if self.jobs else 0.0

    @property
    def work(self) -> float:
        """GPU-seconds of all jobs."""
        return math.fsum(job.gpu_seconds for job in self.jobs)


class _Broken(Exception):
    """The first field of a row that breaks a rule."""

    def __init__(self, column: str, value: str, rule: str) -> None:
        super().__init__(rule)
        self.column, self.value, self.rule = column, value, rule


def read_trace(text: str, file: str) -> Trace:
    """The trace in the text of a csv file. Raises TraceError if a column is missing or no row is valid."""
    rows = csv.reader(io.StringIO(text))
    try:
        header = next(rows, [])
        columns = _columns(header, file)
        jobs: list[TraceJob] = []
        broken: list[BrokenRow] = []
        for row in rows:
            if not any(map(str.strip, row)):
                continue
            try:
                jobs.append(_job(row, columns))
            except _Broken as problem:
                broken.append(BrokenRow(rows.line_num, problem.column, problem.value, problem.rule))
    except csv.Error as error:
        raise TraceError(file, f"line {rows.line_num}: {error}") from None
    if not jobs:
        first = f"; the first of {len(broken)}: {broken[0]}" if broken else ""
        raise TraceError(file, f"has no valid row{first}")
    return Trace(from_first(jobs), tuple(broken))


def from_first(jobs: Iterable[TraceJob]) -> tuple[TraceJob, ...]:
    """The jobs in the order of submission, with times from the first one; equal times keep their order."""
    ordered = sorted(jobs, key=lambda job: job.submit)
    start = ordered[0].submit
    return tuple(
        TraceJob(job.submit - start, job.duration, job.gpus, job.quota, job.pods, job.priority)
        for job in ordered
    )


def trace_text(jobs: Sequence[TraceJob]) -> str:
    """The jobs as Muster's own csv."""
    lines = [",".join(OWN_HEADER)]
    lines += [f"{job.submit:.0f},{job.duration:.0f},{job.gpus},{job.quota}" for job in jobs]
    return "\n".join(lines) + "\n"


def _columns(header: Sequence[str], file: str) -> Mapping[str, int]:
    """The index of each column by its own name. Raises TraceError."""
    names = [name.strip().lower().lstrip("\ufeff") for name in header]
    found = {}
    for column, aliases in _COLUMNS.items():
        index = next((names.index(name) for name in aliases if name in names), None)
        if index is None:
            wanted = " or ".join(aliases)
            raise TraceError(file, f"has no column {wanted}; its columns are {', '.join(names) or 'none'}")
        found[column] = index
    for column in ("pods", "priority"):
        if column in names:
            found[column] = names.index(column)
    return found


def _job(row: Sequence[str], columns: Mapping[str, int]) -> TraceJob:
    missing = next((name for name, index in columns.items() if index >= len(row)), None)
    if missing is not None:
        raise _Broken(missing, "", "is missing")
    cells = {name: row[index].strip() for name, index in columns.items()}
    gpus = _whole(cells, "gpus", 1, _MOST_GPUS)
    pods = _whole(cells, "pods", 0, gpus) if cells.get("pods") else 0
    if pods and gpus % pods:
        raise _Broken("pods", cells["pods"], f"must divide gpus={gpus}")
    return TraceJob(
        _submitted(cells["submit"]),
        _seconds("duration", cells["duration"]),
        gpus,
        quota_name(cells["quota"]),
        pods,
        _whole(cells, "priority", -_MOST_PRIORITY, _MOST_PRIORITY) if cells.get("priority") else 0,
    )


def quota_name(text: str) -> str:
    """A namespace that stands for a name of the trace. Raises _Broken if nothing of the name is left."""
    name = _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:_MOST_NAME].strip("-")
    if not name:
        raise _Broken("quota", text, "must have a letter or digit")
    return name


def _seconds(column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _Broken(column, text, "must be a number of seconds") from None
    if not 0 <= value <= MOST_SECONDS:
        raise _Broken(column, text, f"must be from 0 to {MOST_SECONDS:.0f} seconds")
    return value


def _submitted(text: str) -> float:
    """Seconds, from any origin, of a number of seconds or a date and time (UTC unless it says otherwise)."""
    if not text[:4].isdigit() or "-" not in text:
        # Seconds since the epoch are larger than any span.
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value) and value >= 0:
            return value
        raise _Broken("submit", text, "must be a number of seconds of at least 0, or a date and time")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _Broken("submit", text, "must be a date and time, such as 2026-01-31 12:00:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _whole(cells: Mapping[str, str], column: str, least: int, most: int) -> int:
    text = cells[column]
    try:
        # Some traces write whole numbers as 8.0.
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer() or not least <= value <= most:
        raise _Broken(column, text, f"must be a whole number from {least} to {most}")
    return int(value)
