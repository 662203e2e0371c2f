"""docs/webhook.md names every option, metric and limit, as they are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from webhook import connections, resting, server
from webhook.__main__ import cli
from webhook.body import MAX_BODIES, MAX_BODY, READ_SECONDS
from webhook.deadline import MARGIN, MOST_SECONDS
from webhook.freshness import STALE_SECONDS
from webhook.metrics import Metrics
from webhook.rotation import SECRET_SECONDS

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
        for family in Metrics().registry.collect()
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
    ("bodies of all requests together", f"{MAX_BODIES >> 20} MiB"),
    ("header", f"{server.MAX_HEADERS >> 10} KiB"),
    ("a body's arrival", f"{READ_SECONDS:g} s"),
    ("a request's arrival, and the reading of its answer", f"{connections.REQUEST_SECONDS:g} s"),
    ("a request's arrival, and the reading of its answer", f"{connections.PRESSED_SECONDS:g} s for"),
    ("requests at the same time", f"{server.THREADS} threads"),
    ("connections", f"{connections.MAX_CONNECTIONS:,}"),
    ("connections", f"{connections.SPARE_DESCRIPTORS} less"),
    ("connections without a request", f"{server.TIMEOUT} s"),
    ("connections that rest after an answer", f"{resting.REST_SECONDS:g} s"),
]


@pytest.mark.parametrize(("what", "limit"), LIMITS)
def test_limits_are_those_of_the_server(what: str, limit: str) -> None:
    (found,) = (row[1] for row in ROWS if row[0] == what)
    assert limit in found


@pytest.mark.parametrize(
    "words",
    [
        f"within {100 - MARGIN * 100:g} % of the `timeout` in its URL, {MOST_SECONDS:g} s at most",
        f"after {STALE_SECONDS:g} s without a word of a watch",
        f"look every {SECRET_SECONDS:g} s in any case",
    ],
)
def test_times_are_those_of_the_code(words: str) -> None:
    assert words in " ".join(TEXT.split())
