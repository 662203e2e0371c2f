"""How the scheduler reports what restarts its watches, and what it reads in part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from scheduler_core.app import wiring
from scheduler_core.app.wiring import RunningScheduler, report_part, report_watch
from scheduler_core.config.load import muster_config
from scheduler_core.config.schema import Extender
from scheduler_core.kube.client import Client
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


Make = Callable[..., RunningScheduler]


@pytest.fixture
def scheduler() -> Iterator[Make]:
    """Makes one that is not started, on no server."""
    made: list[RunningScheduler] = []

    def make(config: Any = None, **options: Any) -> RunningScheduler:
        client = Client(cast(Any, SimpleNamespace()))
        made.append(RunningScheduler(config or muster_config(), client, "me", **options))
        return made[-1]

    yield make
    for each in made:
        # Its threads alone close what they wait on.
        each.writer.start()
        each.recorder.start()
        each.close(5.0)


# Options, the arguments of the controller of NodeMetrics (None without one), whether reports are written.
NODE_METRICS_OPTIONS: list[tuple[str, dict[str, bool], dict[str, bool] | None, bool]] = [
    ("neither", {}, None, False),
    ("kept", {"manage_node_metrics": True}, {"only_own": False, "creates": True}, False),
    ("reported", {"report_node_metrics": True}, {"only_own": True, "creates": False}, True),
    (
        "kept and reported",
        {"manage_node_metrics": True, "report_node_metrics": True},
        {"only_own": False, "creates": False},
        True,
    ),
]


@pytest.mark.parametrize(
    ("options", "policy", "reports"),
    [case[1:] for case in NODE_METRICS_OPTIONS],
    ids=[case[0] for case in NODE_METRICS_OPTIONS],
)
def test_who_writes_node_metrics(
    options: dict[str, bool],
    policy: dict[str, bool] | None,
    reports: bool,
    scheduler: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[dict[str, bool]] = []
    real = wiring.NodeMetricPolicy
    monkeypatch.setattr(wiring, "NodeMetricPolicy", lambda **given: (made.append(given), real(**given))[1])
    assert (scheduler(**options).reporter is not None) is reports
    assert made == ([] if policy is None else [policy])


# An extender, and whether whole nodes are read for it.
EXTENDERS = {
    "none": (None, False),
    "one that filters": ({"filter_verb": "f"}, True),
    "one that scores": ({"prioritize_verb": "p"}, True),
    "one that filters and keeps nodes itself": ({"filter_verb": "f", "node_cache_capable": True}, False),
    "one that only binds": ({"bind_verb": "b"}, False),
}


@pytest.mark.parametrize(("given", "reads"), EXTENDERS.values(), ids=EXTENDERS)
def test_whole_nodes_are_read_for_extenders_that_need_them(
    given: dict[str, Any] | None, reads: bool, scheduler: Make
) -> None:
    extenders = () if given is None else (Extender(url_prefix="http://e", weight=1, **given),)
    found = scheduler(msgspec.structs.replace(muster_config(), extenders=extenders))
    assert (found.node_texts is not None) is reads


def test_a_scheduler_that_does_not_run_says_what_is_missing(scheduler: Make) -> None:
    found = scheduler()
    assert found.problem() == "the scheduling loop ended"
    text = found.unsynced()
    assert text.startswith("not listed yet: ")
    assert {"nodes", "pods", "elasticquotas", "configmaps"} <= set(text.partition(": ")[2].split(", "))


def test_nobody_waits_long_for_a_loop_that_does_not_answer(
    scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "ANSWER_SECONDS", 0.0)
    found = scheduler()
    with pytest.raises(wiring.LoopBusy, match="did not answer within 0 s"):
        found.ask(lambda engine: engine)
    assert found.sample() is None


def test_the_configured_backoffs_are_those_of_the_queue(
    scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    real = wiring.Scheduler
    monkeypatch.setattr(wiring, "Scheduler", lambda *a, **kw: (given.append(kw), real(*a, **kw))[1])
    scheduler(
        msgspec.structs.replace(muster_config(), pod_initial_backoff_seconds=3, pod_max_backoff_seconds=17)
    )
    assert [(each["initial_backoff"], each["max_backoff"]) for each in given] == [(3.0, 17.0)]


def test_groups_of_groups_are_watched_where_they_are_wanted(
    scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched() -> set[str]:
        return set(scheduler().unsynced().partition(": ")[2].split(", "))

    usual = watched()
    monkeypatch.setattr(wiring, "wants_composites", lambda profiles: True)
    assert watched() - usual == {"compositepodgroups"}
    assert usual <= watched()
