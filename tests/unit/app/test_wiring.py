"""How the scheduler reports what restarts its watches, and what it reads in part."""

from __future__ import annotations

import logging

import pytest

from scheduler_core.app.wiring import report_part, report_watch
from scheduler_core.kube.errors import ApiError, NotFound, TooManyRequests, Unauthorized
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NATIVE_POD_GROUPS, X_POD_GROUPS, Resource
from tests.support.builders import make_pod

ABSENT = NotFound(404, "NotFound", "the server could not find the requested resource")
PREPARES = TooManyRequests(429, "TooManyRequests", "storage is (re)initializing")
REPORTS = [
    ("another project's kind that is not served", X_POD_GROUPS, ABSENT, "INFO"),
    ("a kind that older servers lack", NATIVE_POD_GROUPS, ABSENT, "INFO"),
    ("a kind of Muster that is not installed", ELASTIC_QUOTAS, ABSENT, "WARNING"),
    ("a kind that the server still prepares", ELASTIC_QUOTAS, PREPARES, "INFO"),
    ("credentials that are refused", X_POD_GROUPS, Unauthorized(401, "Unauthorized", "no"), "WARNING"),
]


@pytest.mark.parametrize(("sentence", "resource", "error", "level"), REPORTS, ids=[row[0] for row in REPORTS])
def test_only_what_the_cluster_should_have_is_a_warning(
    sentence: str, resource: Resource, error: ApiError, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        report_watch(resource, error)
    assert [record.levelname for record in caplog.records] == [level], sentence


def test_what_is_read_in_part_is_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    tolerations = [{"key": f"k{number}"} for number in range(501)]
    counted: list[str] = []
    report_part(make_pod("a/p").spec(tolerations=tolerations).on("n").obj(), counted.append)
    assert counted == ["Pod"]
    text = "read in part: Pod a/p: spec.tolerations: has 501 tolerations, at most 500 are read"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", text)]
