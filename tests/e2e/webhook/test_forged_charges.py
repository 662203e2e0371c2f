"""A forger claims all the time that foreign pods are created: its victim goes on working, within its max."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scheduler.test_gangs import create_group, create_members
from tests.e2e.webhook.test_reservations import Hook
from tests.e2e.webhook.test_tenant_max import (
    LEDGERS,
    MAX,
    guarded,
    hook,
    limited,
    may_resize,
    pod,
    resize,
)
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_pod, scheduler
from tests.support.clusters.server import RequestFailed
from tests.support.clusters.tenant import PatientTenant, Undecided, witness
from tests.support.eventually import eventually
from tests.support.webhooks.forger import flood

__all__ = ["guarded", "hook"]

pytestmark = [pytest.mark.e2e, pytest.mark.told_by("tests/unit/webhook/reservations/test_forged_charges.py")]
SECONDS = 12.0
OWN = {"m0", "m1", "mine"}


def forged(namespace: str, name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    return pod(name, cpu, metadata={"namespace": namespace}, **spec)


@contextmanager
def forger(hook: Hook, namespace: str, rate: int) -> Iterator[dict[str, Any]]:
    """Somebody who reaches the port; what it counted is there once the block has ended."""
    authority = hook.log.parent / "certs" / "ca.crt"
    objects = [
        forged(namespace, "forged-{n}", str(MAX), nodeName="n1"),
        forged(namespace, "forged-{n}", "1", schedulerName="volcano"),
        forged(namespace, "forged-{n}", "100m", nodeName="n1"),
    ]
    with flood(hook.url, str(authority), objects, rate=rate, seconds=SECONDS) as figures:
        yield figures


def charges(cluster: Cluster, namespace: str) -> list[str]:
    """The pods in the ledger of charges."""
    try:
        ledger = cluster.request("GET", f"{LEDGERS.format(namespace)}/elastic")
    except RequestFailed:
        return []
    return [entry["pod"] for entry in ledger["spec"].get("charges", ())]


class Tries:
    """Requests of the tenant that must be let in; it tries again where it is told to."""

    def __init__(self, tenant: PatientTenant) -> None:
        self.tenant = tenant
        self.undecided = 0

    def one(self, *asked: Any) -> float:
        """Seconds until it was let in."""
        began = time.monotonic()

        def let_in() -> bool:
            try:
                said = self.tenant.hasty.tries(*asked)
            except Undecided:
                self.undecided += 1
                return False
            if said:
                raise ValueError(f"refused because of what does not exist: {said}")
            return True

        eventually(let_in, 40)
        return time.monotonic() - began


def past_the_scheduler(tries: Tries) -> list[float]:
    """Seconds until pods with a node or of another scheduler, and a resize, were let in: all that fits."""
    return [
        tries.one("POST", "pods", pod("past", "500m", nodeName="n1")),
        tries.one(*resize("past", "1")),
        tries.one("POST", "pods", pod("other", "500m", schedulerName="volcano")),
    ]


# In a flood of that many, pods past the scheduler are told to try again until it is over.
FLOOD = 1000


@pytest.mark.parametrize("rate", [5, pytest.param(FLOOD, marks=pytest.mark.long)])
def test_continuous_forged_reviews_of_foreign_pods_stop_no_placement(
    guarded: Cluster, hook: Hook, tmp_path: Path, rate: int
) -> None:
    tenant, bystander = limited(guarded), Tries(limited(guarded))
    namespace, tries = tenant.namespace, Tries(tenant)
    may_resize(tenant)
    with scheduler(guarded, tmp_path), witness(guarded, namespace) as seen:
        with forger(hook, namespace, rate) as figures:
            eventually(lambda: charges(guarded, namespace))
            began = time.monotonic()
            create_group(guarded, namespace, 2)
            create_members(guarded, namespace, "m0", "m1")
            create_pod(guarded, namespace, "mine", "500m")
            eventually(lambda: set(bound(guarded, namespace)) >= OWN)
            started = time.monotonic() - began
            took = past_the_scheduler(tries) if rate < FLOOD else []
            # A slow read makes a pod of another namespace wait, too, but not until the flood is over.
            elsewhere = bystander.one("POST", "pods", pod("past", str(MAX), nodeName="n1"))
            entries = len(charges(guarded, namespace))
            assert seen.peaks["cpu"] <= MAX * 1000
        took = took or past_the_scheduler(tries)
        print(
            f"{figures}; own started in {started:.1f} s; foreign in {took}, {tries.undecided} undecided; "
            f"elsewhere in {elsewhere:.1f} s, {bystander.undecided} undecided; {entries} entries"
        )
        assert entries < 128
        eventually(lambda: not [name for name in charges(guarded, namespace) if "forged" in name], 30)
    assert seen.peaks["cpu"] == MAX * 1000
