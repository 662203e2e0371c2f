"""How long the victims of a reclaim have to end, on an API server on which nobody ends them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    await_node,
    await_quota,
    bound,
    create_node,
    create_pod,
    create_quota,
    scheduler,
)
from tests.support.eventually import eventually

WAIT = 60.0
TEN_YEARS = 315_360_000
LIMIT = 300


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


def await_bound(cluster: Cluster, namespace: str, *names: str) -> None:
    eventually(lambda: set(names) <= set(bound(cluster, namespace)), WAIT)


def two_teams(cluster: Cluster, running: SchedulerProcess) -> tuple[str, str]:
    """(lender, borrower) with a node of 2 CPUs that are all the lender's min."""
    lender, borrower = cluster.namespace("lender"), cluster.namespace("borrower")
    create_node(cluster, "one", "2")
    create_quota(cluster, lender, {"cpu": "2"}, {"cpu": "2"})
    create_quota(cluster, borrower, {"cpu": "0"}, {"cpu": "2"})
    await_quota(cluster, lender, borrower)
    await_node(running, "one")
    return lender, borrower


def ending(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """The metadata of the pods that end, by name."""
    pods = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {
        pod["metadata"]["name"]: pod["metadata"] for pod in pods if "deletionTimestamp" in pod["metadata"]
    }


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("own", "sent"),
    [
        pytest.param(TEN_YEARS, LIMIT, id="ten years"),
        pytest.param(2**63 - 1, LIMIT, id="the longest that a server takes"),
        pytest.param(60, 60, id="less than the limit"),
    ],
)
def test_a_victim_has_the_limit_at_most(
    cluster: Cluster, running: SchedulerProcess, own: int, sent: int
) -> None:
    lender, borrower = two_teams(cluster, running)
    create_pod(cluster, borrower, "borrows", "2", terminationGracePeriodSeconds=own)
    await_bound(cluster, borrower, "borrows")
    create_pod(cluster, lender, "claims", "2")
    (found,) = eventually(lambda: ending(cluster, borrower), WAIT).values()
    assert found["deletionGracePeriodSeconds"] == sent


@pytest.mark.parametrize(
    "grace",
    [
        pytest.param(TEN_YEARS, id="ten years"),
        pytest.param(2**63 - 1, id="so long that the time of its end wraps around"),
    ],
)
def test_a_borrower_that_ends_late_is_told_once_more_to_end(
    cluster: Cluster, running: SchedulerProcess, grace: int
) -> None:
    lender, borrower = two_teams(cluster, running)
    for name in ("ends-late", "runs"):
        create_pod(cluster, borrower, name, terminationGracePeriodSeconds=grace)
    await_bound(cluster, borrower, "ends-late", "runs")
    path = f"/api/v1/namespaces/{borrower}/pods/ends-late"
    began = datetime.now(UTC)
    cluster.request("DELETE", path)
    assert ending(cluster, borrower)["ends-late"]["deletionGracePeriodSeconds"] == grace
    create_pod(cluster, lender, "claims")

    def shortened() -> dict[str, Any] | None:
        meta: dict[str, Any] = ending(cluster, borrower)["ends-late"]
        return meta if meta["deletionGracePeriodSeconds"] == LIMIT else None

    second = eventually(shortened, WAIT)
    # The API server counts from the first deletion.
    ends = datetime.fromisoformat(second["deletionTimestamp"])
    assert -1 <= (ends - began).total_seconds() - LIMIT < WAIT
    cluster.request("DELETE", path, {"gracePeriodSeconds": 0})
    await_bound(cluster, lender, "claims")
    assert list(ending(cluster, borrower)) == []
    assert list(bound(cluster, borrower)) == ["runs"]
