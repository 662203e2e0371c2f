"""Every view of a live cluster counts resized pods as the scheduler charges them, by the server's version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from kubectl_plugin.cluster import group_watch
from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.doctor.objects import check_quota_use
from kubectl_plugin.cluster.doctor.reads import Reads
from kubectl_plugin.cluster.group_view import GroupView, read_members
from kubectl_plugin.cluster.quota_snapshot import ObjectSelection, QuotaSnapshot, take_snapshot
from kubectl_plugin.cluster.quota_usage import read_usage
from kubectl_plugin.cluster.quota_watch import changed_rows
from kubectl_plugin.cluster.reading import ListScope
from kubectl_plugin.commands.elasticquota_lending import gather
from kubectl_plugin.inspection.loan_watch import changed_loans
from kubectl_plugin.live.live_world import read_world
from sandbox.api.discovery import VERSION
from scheduler_core.answers.draft import Draft
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.simulate.world import Simulation
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.faults.ground import install_crds
from tests.support.resized_pods import RESIZES, put, quota, resized_pod

OWN = "default"
# CPUs of the quota whose pods are resized: they borrow, whatever they count for.
LOW = 1
RULES = {"36": ResizeRule.SUM_OF_LARGEST, "37": ResizeRule.LARGEST_SUM}


def charge(client: Client, rule: ResizeRule) -> int:
    """What the scheduler charges the quota for the pods, in thousandths of a CPU."""
    simulation = Simulation(rule=rule)
    assert simulation.load_list(PODS, list(client.list_raw(PODS))) == []
    simulation.create(quota())
    return simulation.state.ledger.used(OWN)["cpu"]


def silent(_: object) -> None:
    """What a command would say beside its figures."""


def _snapshot(client: Client) -> QuotaSnapshot:
    return take_snapshot(
        client,
        ObjectSelection(ListScope(OWN)),
        wide=False,
        even_if_none=False,
        on_error=silent,
        on_malformed=silent,
        note=silent,
    )


def _used(rows: list[Any]) -> int:
    return next(row.used for row, _ in rows if row.resource == "cpu" and row.namespace == OWN)


def get(client: Client) -> int:
    return _used(_snapshot(client).rows_with_labels(wide=False))


def get_watch(client: Client) -> int:
    changes = changed_rows(
        client, ObjectSelection(ListScope(OWN)), _snapshot(client), wide=False, note=silent
    )
    with closing(changes) as batches:  # type: ignore[type-var]
        return _used(next(batches))


def usage(client: Client) -> int:
    found = read_usage(client, OWN, Diagnostics(), owners=False)
    by_pod = sum(charged.pod.requests["cpu"] for charged in found.pods)
    (used,) = (use.used for use in found.uses if use.resource == "cpu")
    assert used == by_pod
    return used


def lending(client: Client) -> int:
    return gather(client, Diagnostics()).used(OWN)["cpu"]


def lending_watch(client: Client) -> int:
    with closing(changed_loans(client, OWN, silent)) as batches:  # type: ignore[type-var]
        return LOW * 1000 + sum(row.amount for row in next(batches) if row.borrower == OWN)


def _of_group(view: GroupView) -> int:
    return sum(pod.requests["cpu"] for pod in view.state.pods.values())


def groups(client: Client) -> int:
    return _of_group(read_members(client, OWN, Diagnostics()))


def groups_watch(client: Client, monkeypatch: pytest.MonkeyPatch) -> int:
    views: list[GroupView] = []

    def kept(*given: Any) -> GroupView:
        views.append(GroupView(*given))
        return views[-1]

    class Enough(Exception):
        """Ends the watch."""

    def first(_: object) -> None:
        raise Enough

    monkeypatch.setattr(group_watch, "GroupView", kept)
    session: Any = type("Session", (), {"client": client, "scope": OWN})
    with pytest.raises(Enough):
        group_watch.watch_groups(session, "", first, Diagnostics())
    return _of_group(views[0])


def doctor(client: Client) -> int:
    """What the status lacks, which tells of none."""
    found = check_quota_use(Reads(client, "")).findings
    (lacking,) = (finding.evidence[1] for finding in found if finding.subject == f"ElasticQuota {OWN}/quota")
    return int(lacking.removeprefix("difference cpu="))


def answers(client: Client) -> int:
    """What `why`, `what-if`, `eta`, `snapshot` and `simulate --live` ask, with pods that they write anew."""
    base = read_world(client, OWN, silent).world.base
    draft = Draft(base)
    for raw in draft.all("Pod"):
        draft.put(raw)
    assert sum(pod.requests["cpu"] for pod in draft.pods()) == base.state.ledger.used(OWN)["cpu"]
    return base.state.ledger.used(OWN)["cpu"]


VIEWS: dict[str, Callable[..., int]] = {
    "get": get,
    "get, watching": get_watch,
    "usage": usage,
    "lending": lending,
    "lending, watching": lending_watch,
    "podgroup status": groups,
    "podgroup status, watching": groups_watch,
    "doctor": doctor,
    "questions and simulations": answers,
}


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        install_crds(running)
        client = connect(Overrides(kubeconfig=str(running.kubeconfig)))[0]
        for name, containers in RESIZES.items():
            put(client, resized_pod(f"{OWN}/{name}", containers, group="g"))
        for obj in (quota(OWN, LOW), quota("kube-system", 1000)):
            put(client, obj)
        client.session.close()
        yield running


@pytest.fixture
def client(server: SandboxServer) -> Iterator[Client]:
    made = connect(Overrides(kubeconfig=str(server.kubeconfig)))[0]
    yield made
    made.session.close()


@pytest.mark.parametrize("minor", RULES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_shows_what_the_scheduler_charges(
    view: Callable[..., int], minor: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VERSION, "minor", minor)
    shown = view(client, monkeypatch) if view is groups_watch else view(client)
    assert shown == charge(client, RULES[minor])


def test_the_versions_differ_in_what_they_charge(client: Client) -> None:
    newest, older = (charge(client, RULES[minor]) for minor in ("37", "36"))
    assert (newest, older) == (29000, 32000)
