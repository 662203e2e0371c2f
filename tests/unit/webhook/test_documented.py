"""docs/webhook.md names every option, metric and limit, as they are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from scheduler_core.model.groups import topology
from scheduler_core.model.pods.use import MAX_AMOUNTS, MAX_CONTAINERS
from scheduler_core.model.quotas.resource_quota import MAX_HARD, MAX_SCOPES
from scheduler_core.serving import idle_connections as resting
from scheduler_core.serving import server as bounded
from scheduler_core.serving import stream
from webhook.__main__ import cli
from webhook.certs.rotation import SECRET_SECONDS
from webhook.http import chunked_body as chunks
from webhook.http import headers as heads
from webhook.http import server
from webhook.http import throttling as lanes
from webhook.http.admission_review import MAX_VALUES
from webhook.http.body import FREE_BYTES, MAX_BODIES, MAX_BODY, READ_SECONDS
from webhook.http.deadline import MARGIN, MOST_SECONDS
from webhook.metrics import WebhookMetrics
from webhook.view.freshness import STALE_SECONDS

TEXT = (Path(__file__).parents[3] / "docs" / "webhook.md").read_text()
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
    for line in TEXT.splitlines()
    if line.startswith("|")
]
SERVE = cli.commands["serve"]
OPTIONS = [param for param in SERVE.params if isinstance(param, click.Option)]


def metric_names() -> set[str]:
    """Names as Prometheus shows them: counters end in _total."""
    return {
        family.name + ("_total" if family.type == "counter" else "")
        for family in WebhookMetrics().registry.collect()
    }


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.opts[-1])
def test_every_option_is_documented(option: click.Option) -> None:
    name = option.opts[0]
    if name == "--register":
        assert name in TEXT
        return
    assert any(re.search(rf"`{name}\b", cell) for row in ROWS for cell in row[:1])


@pytest.mark.parametrize("name", sorted(metric_names()))
def test_every_metric_has_a_row(name: str) -> None:
    assert [row for row in ROWS if row[0] == f"`{name}`"]


LIMITS = [
    ("body", f"{MAX_BODY >> 20} MiB"),
    (
        f"bodies of all requests together, beside the first {FREE_BYTES >> 10} KiB of each",
        f"{MAX_BODIES >> 20} MiB",
    ),
    ("path and query", f"{heads.MAX_TARGET} characters"),
    ("headers", f"{heads.MAX_LINES} lines, {heads.MAX_VALUE >> 10} KiB each, {server.MAX_HEADERS >> 10} KiB"),
    (
        "chunks of a body",
        f"{chunks.FREE_CHUNKS:,}, and one more for each KiB; lines of at most {chunks.CHUNK_LIMITS.line}",
    ),
    ("packets of a request", f"{stream.FREE_PIECES:,}, and one more for each {stream.LEAST_PIECE} bytes"),
    ("values in a review", f"{MAX_VALUES:,}"),
    ("a pod where something is reserved", f"{MAX_CONTAINERS:,} containers, {MAX_AMOUNTS:,} requests"),
    ("a ResourceQuota", f"{MAX_HARD:,} resources, {MAX_SCOPES} scopes"),
    ("a topology", f"{topology.LARGEST_TREE:,} units on {topology.MOST_LEVELS} levels"),
    ("a topology", f"names of {topology.LONGEST_NAME} characters"),
    ("a topology", f"{topology.LONGEST_CONSTRAINTS >> 10} KiB of constraints"),
    ("a body's arrival", f"{READ_SECONDS:g} s"),
    ("a request's arrival, and the reading of its answer", f"{bounded.REQUEST_SECONDS:g} s"),
    ("a request's arrival, and the reading of its answer", f"{bounded.PRESSED_SECONDS:g} s for"),
    ("requests at the same time", f"{server.THREADS} threads"),
    ("connections", f"{bounded.MAX_CONNECTIONS:,}"),
    ("connections", f"{bounded.SPARE_DESCRIPTORS} less"),
    ("connections without a request", f"{server.TIMEOUT} s"),
    ("connections that rest after an answer", f"{resting.IDLE_SECONDS:g} s"),
]


@pytest.mark.parametrize(("what", "limit"), LIMITS)
def test_limits_are_those_of_the_server(what: str, limit: str) -> None:
    (found,) = (row[1] for row in ROWS if row[0] == what)
    assert limit in found


@pytest.mark.parametrize(
    "words",
    [
        f"within {100 - MARGIN * 100:g} % of the `timeout` in its URL, {MOST_SECONDS:g} s at most",
        f"Bodies of more than {lanes.LARGE_BYTES >> 10} KiB are judged one at a time",
        f"took more than {lanes.FREE_SECONDS * 1e3:g} ms is answered after a pause of {lanes.REST:g} times",
        f"after {STALE_SECONDS:g} s without a sign of a watch",
        f"check every {SECRET_SECONDS:g} s in any case",
    ],
)
def test_times_are_those_of_the_code(words: str) -> None:
    assert words in " ".join(TEXT.split())
