"""`kubectl elasticquota history`, whole, against a small server."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from kubectl_plugin.cluster.reclaim_history import UNREAD_EVENTS
from scheduler_core.model.quotas.quota_history import (
    HOUR_SECONDS,
    QuotaEviction,
    QuotaHistoryDay,
    day_of,
    encode_day,
    name_of,
    start_of,
)
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


@pytest.mark.parametrize("output", ["table", "json", "yaml", "csv"])
@pytest.mark.parametrize("created", [True, False], ids=["with a time of creation", "without one"])
@pytest.mark.parametrize(
    "told",
    [
        pytest.param("9999-12-31T23:59:59.999999Z", id="the end of time"),
        pytest.param("9999-12-31T23:59:59-23:59", id="beyond the end of time"),
        pytest.param("2300-01-01T00:00:00.000000Z", id="a distant future"),
        pytest.param("0001-01-01T00:00:00+23:59", id="before the beginning of time"),
    ],
)
def test_an_event_of_an_impossible_time_keeps_nobody_from_reading_the_others(
    api: Api, eq: Command, told: str, created: bool, output: str
) -> None:
    event = preempted("z", 0)
    event["eventTime"] = told
    if created:
        event["metadata"]["creationTimestamp"] = format_time(time.time() - 7200)
    api.objects["events"].append(event)
    done = eq("history", "--since", "1h", "-o", output)
    assert (done.code, done.err) == (0, "")
    if created:
        assert "z" not in json.loads(eq("history", "--since", "1h", "-o", "json").out)["history"][-1]["pods"]


FORMULA = "=HYPERLINK(team-b/x)"


@pytest.mark.parametrize(
    ("told", "field"),
    [
        pytest.param({"by": FORMULA}, "by", id="who took the place"),
        pytest.param({"by": "Pod b/p", "byQuota": FORMULA}, "byQuota", id="for which quota"),
        pytest.param({"by": "Pod b/p", "count": 1, "pods": [FORMULA]}, "pods", id="which pods"),
        pytest.param({"by": "Pod b/p", "count": 1, "resources": {FORMULA: "1"}}, "resources", id="of what"),
    ],
)
def test_csv_has_no_formula_of_whoever_may_write_events(
    api: Api, eq: Command, told: dict[str, Any], field: str
) -> None:
    event = preempted("z", 30)
    event["metadata"]["annotations"] = {"muster.dev/eviction": json.dumps(told)}
    if "count" in told:
        event |= {
            "reason": "Reclaimed",
            "regarding": {"kind": "ElasticQuota", "namespace": "team-a", "name": "q"},
        }
    api.objects["events"] = [event]
    *_, last = csv.DictReader(io.StringIO(eq("history", "-o", "csv").out))
    assert last[field].startswith(f"'{FORMULA}")


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


@pytest.mark.parametrize("text", ["yesterday", "-1h", "0s", "d", "-1d"])
def test_a_time_that_is_none_is_refused(eq: Command, text: str) -> None:
    done = eq("history", f"--since={text}")
    assert (done.code, done.out) == (2, "")
    assert f"'{text}' is not a time like 30m, 24h or 7d" in done.err


# Use over time


SYSTEM = "kube-system"


def recorded(ago: float = 7200.0, **sums: int) -> dict[str, Any]:
    """The ConfigMap of the day of a moment, with sums of one hour of team-a's CPU."""
    moment = time.time() - ago
    day = day_of(moment)
    hour = int(moment - start_of(day)) // HOUR_SECONDS
    columns = {kind: [0] * hour + [value] for kind, value in sums.items()}
    taken = QuotaEviction(
        int(moment), "team-a", "team-a/quota", "PodGroup team-b/g", "team-b/quota", {"cpu": 3000}, ("x",), 1
    )
    payload = encode_day(QuotaHistoryDay(day, 0, "me", {"team-a": {"cpu": columns}}, (taken,)))
    return {
        "metadata": {"namespace": SYSTEM, "name": name_of(day), "resourceVersion": "1", "uid": "h"},
        **payload.fields(),
    }


@pytest.fixture
def measured(api: Api) -> Api:
    """An hour of 3 cores, one of them borrowed."""
    api.objects["configmaps"] = [
        recorded(
            measured=3600, used=3000 * 3600, borrowed=1000 * 3600, lent=0, waiting=500 * 3600, min=2000 * 3600
        )
    ]
    return api


def test_resource_hours_by_team(measured: Api, eq: Command) -> None:
    done = eq("history", "-A", "--by", "team")
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["NAMESPACE", "RESOURCE", "USED", "BORROWED", "LENT", "WAITING", "MEASURED"],
        ["team-a", "cpu", "3", "1", "0", "0.5", "60m"],
    ]


def test_days_prices_and_csv(measured: Api, eq: Command, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nprices: {cpu: 0.1, memory: 2}\n")
    done = eq("history", "-A", "--by", "day", "--prices", str(prices), "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert (row["namespace"], row["used"], row["price"], row["cost"]) == ("team-a", "3", "0.1", "0.3")
    assert "these prices: memory" in done.err
    table = eq("history", "-A", "--by", "team", "--prices", str(prices)).out.splitlines()
    assert table[0].split()[-2:] == ["COST", "(EUR)"]
    measured.objects["elasticquotas"][0]["metadata"]["annotations"] = {"muster.dev/price": "cpu=2"}
    (entry,) = json.loads(eq("history", "-A", "--by", "team", "--prices", str(prices), "-o", "json").out)[
        "rows"
    ]
    assert (entry["price"], entry["cost"]) == ("2", "6")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prices: {cpu: -1}", "prices[cpu]: '-1' must be a number from 0 to 999999999"),
        # YAML 1.1 has octal, hexadecimal, grouped and base-60 numbers.
        ("prices: {cpu: 010}", "prices[cpu]: '010' must be a number"),
        ("prices: {cpu: 0x10}", "prices[cpu]: '0x10' must be a number"),
        ("prices: {cpu: 0b1}", "prices[cpu]: '0b1' must be a number"),
        ("prices: {cpu: 1_000}", "prices[cpu]: '1_000' must be a number"),
        ("prices: {cpu: 1_000.5}", "prices[cpu]: '1_000.5' must be a number"),
        ("prices: {cpu: '1:30'}", "prices[cpu]: '1:30' must be a number"),
        ("prices:\n  cpu: 1:30", "prices[cpu]: '1:30' must be a number"),
        ("prices: {cpu: .5}", "prices[cpu]: '.5' must be a number"),
        ("prices: {cpu: yes}", "prices[cpu]: 'yes' must be a number"),
        ("prices: {cpu: }", "prices[cpu]: '' must be a number"),
        ("prices: {cpu: {a: 1}}", "prices[cpu]: a list or a map must be a number"),
        ("prices: {cpu: 1, cpu: 2}", "prices[cpu]: is there twice, again in line 1: '2'"),
        ("prices: {}\nprices: {cpu: 1}", "prices: is there twice, again in line 2: a list or a map"),
        ("prices: {[cpu]: 1}", "prices: has a list or a map as a key, which must be a text"),
        ("prices: {}\ncurrency: Doubloons", "currency: 'Doubloons' must be a text of at most 8"),
        ("", "prices: is required"),
        ("[" * 5000, "is not YAML"),
        ("prices: {cpu: 1e400}", "prices[cpu]: '1e400' must be a number"),
        ("prices: [1]", "prices: is required"),
        ("price: {}", "prices: is required"),
        ("prices: {}\nmore: 1", "more: is not known"),
        ("prices: {}\ncurrency: [EUR]", "currency: a list or a map must be"),
        ("{", "is not YAML"),
    ],
)
def test_bad_prices_are_refused(measured: Api, eq: Command, tmp_path: Path, text: str, words: str) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(text)
    done = eq("history", "--by", "team", "--prices", str(prices))
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert str(prices) in done.err


def test_numbers_are_what_the_file_says(measured: Api, eq: Command, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    for text, price in (("2", "2"), ("'2'", "2"), ("0.1", "0.1"), ("999999999.999999", "999999999.999999")):
        prices.write_text(f"currency: ~\nprices: {{cpu: {text}}}\n")
        done = eq("history", "-A", "--by", "team", "--prices", str(prices), "-o", "json")
        assert (done.code, done.err) == (0, "")
        assert json.loads(done.out)["rows"][0]["price"] == price


def test_prices_of_nothing_are_named(measured: Api, eq: Command, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("prices: {CPU: 1, cpu: 2, gpu: 3}\n")
    done = eq("history", "-A", "--by", "team", "--prices", str(prices))
    assert done.code == 0
    assert done.err == "note: no quota was measured with the resources of these prices: CPU, gpu\n"


def test_who_may_not_read_the_history_is_told_what_is_missing(measured: Api, eq: Command) -> None:
    measured.forbidden = {("configmaps", SYSTEM)}
    done = eq("history", "--by", "team")
    assert (done.code, done.out) == (1, "")
    assert "right to list configmaps there (--history-namespace names another one)" in done.err
    assert SYSTEM in done.err
    # What was taken back is told as far as Events and quotas tell.
    assert eq("history").code == 0


def test_a_damaged_day_is_named_and_the_others_are_shown(measured: Api, eq: Command) -> None:
    (config_map,) = measured.objects["configmaps"]
    config_map["data"] = {"day.json": "nonsense"}
    done = eq("history", "-A", "--by", "team")
    assert done.code == 1
    assert f"ConfigMap {SYSTEM}/{config_map['metadata']['name']}: data[day.json]" in done.err


def test_what_the_scheduler_recorded_is_told_beyond_events(measured: Api, eq: Command) -> None:
    found = json.loads(eq("history", "-A", "-o", "json").out)["history"]
    assert (found[0]["by"], found[0]["pods"]) == ("PodGroup team-b/g", ["x"])


def test_flags_of_use_need_by(eq: Command) -> None:
    done = eq("history", "--prices", "x")
    assert (done.code, "--by" in done.err) == (2, True)
