"""The history of quotas: written, gone on with after restarts, and told by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_core.answers.showback import Period, showback
from scheduler_core.model.quotas.quota_history import (
    BINARY_KEY,
    TEXT_KEY,
    HourSums,
    Payload,
    QuotaHistoryDay,
    days_between,
    name_of,
    parse_day,
)
from tests.e2e.test_answers import quota
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, scheduler
from tests.support.console_session import local_console
from tests.support.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240), pytest.mark.long]
SYSTEM = "kube-system"
WAIT = 40.0


def days(cluster: Cluster, since: float) -> list[QuotaHistoryDay]:
    """What is stored of the days since a moment."""
    found = []
    for day in days_between(since, time.time()):
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps?fieldSelector=metadata.name={name_of(day)}"
        for item in cluster.request("GET", path)["items"]:
            text = (item.get("data") or {}).get(TEXT_KEY, "")
            payload = Payload(text, (item.get("binaryData") or {}).get(BINARY_KEY, ""))
            found.append(parse_day(payload, day))
    return found


def sums(cluster: Cluster, since: float, namespace: str) -> HourSums:
    """The sums of CPU of a namespace."""
    period = Period.back(time.time(), time.time() - since + 7200)
    rows = showback(days(cluster, since), period, "team", lambda *_: None)
    return next((row.sums for row in rows if (row.namespace, row.resource) == (namespace, "cpu")), HourSums())


def pod(namespace: str, name: str, cpu: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": "muster-scheduler",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        },
    }


def test_sums_go_on_after_restarts(cluster: Cluster, tmp_path: Path) -> None:
    """Ended in order, nothing is lost; killed, only what was not written; nothing counts twice."""
    mine, other = cluster.namespace("uses"), cluster.namespace("lends")
    create_node(cluster, "n1", cpu="8")
    priced = quota(mine, "2", "4")
    priced["metadata"]["annotations"] = {"muster.dev/price": "cpu=3600"}
    work = [priced, quota(other, "6", "8"), pod(mine, "runs", "3"), pod(mine, "waits", "2")]
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(work))
    began = time.time()
    with scheduler(cluster, tmp_path) as first:
        eventually(lambda: len(bound(cluster, mine)) == 1, WAIT)
        placed = time.time()
        # What is counted are seconds: some have to pass.
        eventually(lambda: time.time() > placed + 4, WAIT)
        ended = time.time()
        assert first.end() == 0
    one = sums(cluster, began, mine)
    assert ended - placed - 4 <= one.measured <= time.time() - began
    # 3 cores, of which 1 is borrowed; 2 wait. The second of the placement may count or not.
    least = int(ended - placed) - 2
    assert 3000 * least <= one.used <= 3000 * one.measured
    assert one.borrowed * 3 == one.used
    assert sums(cluster, began, other).lent == one.borrowed
    assert one.waiting >= 2000 * least
    assert one.min == 2000 * one.measured
    again = time.time()
    with scheduler(cluster, tmp_path) as second:
        eventually(lambda: second.leads, WAIT)
        led = time.time()
        eventually(lambda: time.time() > led + 3, WAIT)
        second.end(9)
    assert sums(cluster, began, mine) == one
    with scheduler(cluster, tmp_path) as third:
        eventually(lambda: third.leads, WAIT)
        led = time.time()
        eventually(lambda: time.time() > led + 3, WAIT)
        assert third.end() == 0
    two = sums(cluster, began, mine)
    assert one.measured + 2 <= two.measured <= one.measured + time.time() - again
    assert two.used - one.used == 3000 * (two.measured - one.measured)
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nprices: {cpu: 1, memory: 0.5}\n")
    rows = {by: json.loads(_printed(cluster, mine, by, "json", prices))["rows"] for by in ("team", "day")}
    (row,) = (item for item in rows["team"] if item["resource"] == "cpu")
    # Costs are exact, and amounts are printed with six decimals.
    assert float(row["cost"]) == pytest.approx(two.used / 1000, abs=1e-3)
    assert float(row["used"]) == pytest.approx(two.used / 3_600_000, abs=1e-6)
    # The annotation of the quota comes before the file.
    (lends,) = json.loads(_printed(cluster, other, "team", "json", prices))["rows"]
    assert (row["price"], lends["price"]) == ("3600", "1")
    with local_console(cluster.kubeconfig, "--prices", str(prices)) as (_, session):
        for by, printed in rows.items():
            shown = session.page(f"/history?by={by}&format=json").json()["use"]["rows"]
            assert [item for item in shown if item["namespace"] == mine] == printed
            lines = _printed(cluster, mine, by, "csv", prices).splitlines()
            assert set(lines) <= set(session.page(f"/history?by={by}&format=csv").body.splitlines())
            own = session.page(f"/history?by={by}&namespace={mine}&format=csv").body.splitlines()
            assert own == lines
            assert len(lines) == 1 + len(printed)


def _printed(cluster: Cluster, namespace: str, by: str, output: str, prices: Path) -> str:
    """What the command line prints."""
    program = Path(sys.executable).parent / "kubectl-elasticquota"
    flags = [
        "-n",
        namespace,
        "--by",
        by,
        "-o",
        output,
        "--history-namespace",
        SYSTEM,
        "--prices",
        str(prices),
    ]
    done = subprocess.run(
        [str(program), "history", *flags, "--kubeconfig", str(cluster.kubeconfig)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
