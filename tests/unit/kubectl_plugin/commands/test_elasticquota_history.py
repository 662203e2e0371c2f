"""`kubectl elasticquota history`, whole, against a small server."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import Any

import pytest

from kubectl_plugin.cluster.reclaim_history import UNREAD_EVENTS
from scheduler_core.model.timestamps import format_micro_time, format_time
from tests.unit.kubectl_plugin.plugin_api import Api, Command, quota_object

BY = (
    "preempted by team-b/serve-2 (priority 0) for node gpu-0, which reclaims the min of ElasticQuota "
    "team-b/quota; ElasticQuota team-a/quota borrows cpu=2"
)


def preempted(name: str, ago: float) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team-a", "name": f"{name}.1"},
        "reason": "Preempted",
        "note": BY,
        "regarding": {"kind": "Pod", "namespace": "team-a", "name": name},
        "eventTime": format_micro_time(time.time() - ago),
    }


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """A reclaim of two pods ten minutes ago, told by the quota's status and by two Events."""
    quota = quota_object("team-a", min={"cpu": "4"})
    quota["status"]["lastReclaim"] = {
        "time": format_time(time.time() - 600),
        "byQuota": "team-b/quota",
        "by": "Pod team-b/serve-2",
        "resources": {"cpu": "2"},
        "pods": 2,
    }
    api.objects["elasticquotas"] = [quota]
    api.objects["events"] = [preempted("a", 600), preempted("b", 600), preempted("c", 60)]


def test_one_line_per_preemption_newest_last(eq: Command) -> None:
    done = eq("history")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[1:] for line in done.out.splitlines()] == [
        ["RESOURCES", "PODS", "BY", "FOR", "QUOTA"],
        ["cpu=2", "a,b", "Pod", "team-b/serve-2", "team-b/quota"],
        ["?", "c", "Pod", "team-b/serve-2", "team-b/quota"],
    ]
    ages = [line.split()[0] for line in done.out.splitlines()]
    assert ages[:2] == ["AGE", "10m"]


def test_only_what_is_new_enough(eq: Command) -> None:
    found = json.loads(eq("history", "-A", "--since", "5m", "-o", "json").out)["history"]
    assert [(item["namespace"], item["pods"]) for item in found] == [("team-a", ["c"])]


def test_csv_has_one_record_per_line(eq: Command) -> None:
    first, *_ = csv.DictReader(io.StringIO(eq("history", "-o", "csv").out))
    assert (first["resources"], first["pods"], first["count"]) == ("cpu=2", "a b", "2")
    assert (first["by"], first["byQuota"]) == ("Pod team-b/serve-2", "team-b/quota")


def test_without_the_right_to_list_events_the_last_reclaim_is_told(api: Api, eq: Command) -> None:
    api.forbidden = {("events", "team-a")}
    done = eq("history", "--no-headers")
    assert (done.code, done.err) == (0, f"{UNREAD_EVENTS}\n")
    assert done.out.split()[1:3] == ["cpu=2", "(2)"]


def test_nothing_taken_back_is_said(api: Api, eq: Command) -> None:
    api.objects["events"] = []
    api.objects["elasticquotas"] = []
    done = eq("history", "-A")
    assert (done.code, done.out) == (0, "")
    assert done.err == "Nothing was taken back in the last 24h, as far as Events are kept.\n"


@pytest.mark.parametrize("text", ["yesterday", "-1h", "0s", "1d"])
def test_a_time_that_is_none_is_refused(eq: Command, text: str) -> None:
    done = eq("history", f"--since={text}")
    assert (done.code, done.out) == (2, "")
    assert f"'{text}' is not a time like 30m or 24h" in done.err
