"""What happens in the cluster that the dashboard shows: quotas lend and reclaim, gangs start and wait."""

from __future__ import annotations

import http.client
import ssl
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import await_quota, bound, create_pod, scheduled_condition
from tests.support.eventually import eventually
from tests.support.prometheus import Prometheus

WAIT = 60.0
GROUP_OF = "scheduling.k8s.io/group-name"
TARGETS = 3
# 14 CPUs of the 24: 4 are its own, 10 are borrowed.
BORROWED_PODS = 14
LENT_PODS = 10
# The resource about which an HTTP extender is asked.
EXTENDED = "example.com/licence"


@dataclass(frozen=True)
class Teams:
    """The namespaces of three teams."""

    lender: str
    borrower: str
    gangs: str


def at_work(cluster: Cluster, webhook_port: int, watching: Prometheus) -> tuple[float, Teams]:
    """Let the cluster work; the moment since when everything is scraped, and the teams.

    Every step is over when its outcome shows. Counters that begin with a number above 0 would not rise in the
    eyes of Prometheus, so the work begins when every program has been scraped.
    """
    since = eventually(lambda: _all_scraped(watching), WAIT)
    teams = Teams(*(cluster.namespace(name) for name in ("lends", "borrows", "gangs")))
    _create_quotas(cluster, teams)
    _borrow(cluster, teams, watching)
    _start_a_gang(cluster, teams.gangs, watching)
    _let_a_gang_wait(cluster, teams.gangs)
    _reclaim(cluster, teams)
    _let_waiting_pods_start(cluster, teams)
    _ask_an_extender(cluster, watching)
    _be_refused(cluster, teams)
    _send_no_review(webhook_port)
    return since, teams


def _all_scraped(watching: Prometheus) -> float:
    """The time, once all programs are scraped and one leads; before that, 0."""
    up = [sample for sample in watching.query("up") if sample["value"][1] == "1"]
    leaders = watching.query("sum(muster_leader) == 1")
    return float(leaders[0]["value"][0]) if len(up) == TARGETS and leaders else 0.0


def _create_quotas(cluster: Cluster, teams: Teams) -> None:
    department = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "QuotaGroup",
        "metadata": {"name": "department"},
        "spec": {"min": {"cpu": 12}, "max": {"cpu": 24}},
    }
    below = {"muster.dev/quota-group": "department"}
    quotas = [
        _quota(teams.lender, 12, 24, below),
        _quota(teams.borrower, 4, BORROWED_PODS),
        _quota(teams.gangs, 6, 20),
    ]
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all([department, *quotas]))
    await_quota(cluster, teams.lender, teams.borrower, teams.gangs, timeout=WAIT)


def _quota(namespace: str, low: int, high: int, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace, "labels": labels or {}},
        "spec": {"min": {"cpu": low}, "max": {"cpu": high}},
    }


def _borrow(cluster: Cluster, teams: Teams, watching: Prometheus) -> None:
    """One team fills its max, and one pod more waits."""
    for number in range(BORROWED_PODS + 1):
        create_pod(cluster, teams.borrower, f"task-{number}")
    eventually(lambda: len(bound(cluster, teams.borrower)) == BORROWED_PODS, WAIT)
    _await_waiting(watching, teams.borrower, "quota")


def _await_waiting(watching: Prometheus, namespace: str, reason: str) -> None:
    """Until Prometheus has scraped that pods wait for this reason, before the first of them starts."""
    series = f'muster_quota_wait_seconds_count{{namespace="{namespace}", reason="{reason}"}}'
    eventually(lambda: watching.query(f"{series} == 0"), WAIT)


def _start_a_gang(cluster: Cluster, namespace: str, watching: Prometheus) -> None:
    """A gang whose second member comes when Prometheus knows that the first one waits."""
    _create_group(cluster, namespace, "starts")
    for number in range(2):
        create_pod(cluster, namespace, f"starts-{number}", annotations={GROUP_OF: "starts"})
        if not number:
            _await_waiting(watching, namespace, "gang")
    eventually(lambda: len(bound(cluster, namespace)) == 2, WAIT)


def _let_a_gang_wait(cluster: Cluster, namespace: str) -> None:
    """A gang for which no room is left."""
    _create_group(cluster, namespace, "waits")
    for number in range(2):
        create_pod(cluster, namespace, f"waits-{number}", cpu="7", annotations={GROUP_OF: "waits"})
    eventually(lambda: scheduled_condition(cluster, namespace, "waits-1").get("message"), WAIT)


def _create_group(cluster: Cluster, namespace: str, name: str) -> None:
    version = "incubator.scheduling.k8s.io/v1alpha1"
    body = {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMembers": 2},
    }
    cluster.request("POST", f"/apis/{version}/namespaces/{namespace}/podgroups", body)


def _reclaim(cluster: Cluster, teams: Teams) -> None:
    """The lender takes its min back: pods of the borrower go."""
    for number in range(LENT_PODS):
        create_pod(cluster, teams.lender, f"own-{number}")
    eventually(lambda: len(bound(cluster, teams.lender)) == LENT_PODS, WAIT)
    assert len(bound(cluster, teams.borrower)) < BORROWED_PODS


def _let_waiting_pods_start(cluster: Cluster, teams: Teams) -> None:
    """The lender's work ends, and what waited for quota starts."""
    before = set(bound(cluster, teams.borrower))
    for number in range(LENT_PODS // 2):
        cluster.request("DELETE", f"/api/v1/namespaces/{teams.lender}/pods/own-{number}")
    eventually(lambda: set(bound(cluster, teams.borrower)) - before, WAIT)


def _ask_an_extender(cluster: Cluster, watching: Prometheus) -> None:
    """Pods outside of all quotas about which an extender is asked; they start although none answers.

    The second comes when the call for the first has been scraped.
    """
    namespace = cluster.namespace("licensed")
    resources = {"requests": {"cpu": "100m", EXTENDED: "1"}, "limits": {EXTENDED: "1"}}
    containers = [{"name": "main", "image": "example.com/app:1", "resources": resources}]
    for name in ("asks", "asks-again"):
        create_pod(cluster, namespace, name, containers=containers)
        eventually(lambda name=name: name in bound(cluster, namespace), WAIT)  # type: ignore[misc]
        eventually(lambda: watching.query("muster_extender_errors_total"), WAIT)


def _be_refused(cluster: Cluster, teams: Teams) -> None:
    """The webhook refuses a second quota of a namespace."""
    second = _quota(teams.lender, 1, 2)
    second["metadata"]["name"] = "second"
    refused = cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(second), check=False)
    assert "denied the request" in refused.stderr


def _send_no_review(port: int) -> None:
    """A client sends the webhook something that is no review."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    link = http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT, context=context)
    with closing(link):
        link.request("POST", "/validate", b"{}", {"Content-Type": "application/json"})
        assert link.getresponse().status == 400
