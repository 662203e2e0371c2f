"""docs/load-aware.md names every argument, annotation and flag of load-aware scheduling, with its default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from scheduler_core.app.__main__ import main
from scheduler_core.config.args.muster import AggregatedArgs, LoadAwareSchedulingArgs
from scheduler_core.model import names
from scheduler_core.model.duration import format_duration

TEXT = (Path(__file__).parents[2] / "docs" / "load-aware.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("|")
]
KEYS = [
    names.USAGE_THRESHOLDS_ANNOTATION,
    names.RAW_ALLOCATABLE_ANNOTATION,
    names.SCALING_FACTORS_ANNOTATION,
    names.SECONDS_AFTER_SCHEDULED_ANNOTATION,
    names.SECONDS_AFTER_INITIALIZED_ANNOTATION,
    names.PRIORITY_CLASS_LABEL,
    names.QOS_CLASS_LABEL,
    names.REPORTER_ANNOTATION,
]


def shown(value: Any) -> str:
    """A default as the page writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {number}" for name, number in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]" if not value else str(list(value))
    if isinstance(value, float):
        return format_duration(value)
    if value == "":
        return '""'
    return "null" if value is None else str(value)


def defaults(args: Any) -> list[tuple[str, str]]:
    return [(field.encode_name, shown(getattr(args, field.name))) for field in msgspec.structs.fields(args)]


@pytest.mark.parametrize(
    ("argument", "default"), defaults(LoadAwareSchedulingArgs().filled()) + defaults(AggregatedArgs())
)
def test_every_argument_is_documented_with_its_default(argument: str, default: str) -> None:
    found = [row[1] for row in ROWS if row[0] == f"`{argument}`"]
    assert f"`{default}`" in found


@pytest.mark.parametrize("key", KEYS)
def test_every_annotation_and_label_is_documented(key: str) -> None:
    rows = [row for row in ROWS if row[0].startswith(f"`{key}`")]
    assert len(rows) == 1
    assert all(rows[0])


def test_no_key_of_koordinator_is_missing() -> None:
    written = {
        value for value in vars(names).values() if isinstance(value, str) and "koordinator.sh/" in value
    }
    assert written <= set(KEYS)


@pytest.mark.parametrize(
    "word", [names.SLO_CONFIG_NAME, names.COLOCATION_CONFIG_KEY, names.REASON_INVALID_ANNOTATION]
)
def test_names_that_users_meet_are_documented(word: str) -> None:
    assert word in TEXT


def test_the_flags_of_node_metrics_are_documented() -> None:
    options = {text for param in main.params if isinstance(param, click.Option) for text in param.opts}
    flags = {text for text in options if "node-metrics" in text}
    assert flags == {"--report-node-metrics", "--manage-node-metrics"}
    assert flags <= set(re.findall(r"--[a-z-]+", TEXT))
