"""The last checkpoint of a pod, from its annotation."""

from __future__ import annotations

import pytest

from scheduler_core.model.pods.checkpoint import checkpointed_at


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:01:40Z", 100.0),
        ("1970-01-01T01:01:40+01:00", 100.0),
        ("1970-01-01T00:01:40", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_that_cannot_be_read_counts_as_none(text: str, moment: float | None) -> None:
    assert checkpointed_at({"muster.dev/checkpointed-at": text}) == moment


def test_most_pods_have_none() -> None:
    assert checkpointed_at({}) is None
