"""Both replicas of the webhook are replaced, one after the other, while pods and groups race for a quota."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from tests.e2e.webhook.test_reservations import (
    VALIDATING,
    another_quota,
    await_asked,
    create_once,
    group,
    held,
    knows_another_quota,
    ledger,
    pod,
    with_quota,
)
from tests.e2e.webhook.test_webhook import start, stop
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import SCHEDULER, create_quota
from tests.support.clusters.server import RequestFailed
from tests.support.clusters.service_proxy import ServiceProxy
from tests.support.eventually import eventually
from tests.support.faults.burst import Losses
from tests.support.faults.stage import Ground
from tests.support.faults.witness import milli
from webhook.reservations.provisional_entries import WaitLimits

pytestmark = pytest.mark.timeout(900)
MOST_ROLLS = 5

Record = Callable[[str, int, Losses], None]
REPLICAS = 2
MUTATING = VALIDATING.rpartition("/")[0].replace("validating", "mutating")
LIMIT = 12
GROUPS, MEMBERS, LONERS = 8, 2, 8
CLIENTS = 4
HOLD_SECONDS = "5"
PATIENCE = 60.0
# An entry is believed for so long before its object exists, where others need the room.
GRACE = WaitLimits().grace


class Replicas:
    """The webhook's processes behind their Service."""

    def __init__(self, ground: Ground, folder: Path, service: ServiceProxy) -> None:
        self._ground = ground
        self.folder = folder
        self._service = service
        self._running: list[tuple[subprocess.Popen[str], int]] = []
        self.rolled = 0
        self.codes: list[int] = []

    def add(self) -> None:
        flags = ("--hold-timeout", HOLD_SECONDS, "--drain", "1")
        process, line = start(self._ground.server, self.folder, *flags)
        port = urlsplit(line.split(" on ")[1].split(" for ")[0]).port or 0
        self._running.append((process, port))
        self._service.ports.append(port)

    def roll(self) -> None:
        """As a Deployment does: a new one is ready before an old one ends and leaves the Service."""
        for _ in range(REPLICAS):
            self.add()
            process, port = self._running.pop(0)
            ending = threading.Timer(0.3, self._service.ports.remove, [port])
            ending.start()
            self.codes.append(stop(process))
            ending.join()
            self.rolled += 1

    def end(self) -> None:
        for process, _ in self._running:
            self.codes.append(stop(process))

    @property
    def authority(self) -> bytes:
        return (self.folder / "certs" / "ca.crt").read_bytes()


@contextmanager
def replicas(ground: Ground, folder: Path) -> Iterator[Replicas]:
    """Two replicas that the API server asks about everything.

    Without the answer of one nothing is admitted; pods that none sends to Muster go elsewhere, as by default.
    """
    with ServiceProxy() as service:
        found = Replicas(ground, folder, service)
        try:
            for _ in range(REPLICAS):
                found.add()
            endpoint = WebhookEndpoint(found.authority, f"https://127.0.0.1:{service.port}")
            configuration = validating_configuration(endpoint)
            for entry in configuration["webhooks"]:
                entry["failurePolicy"] = "Fail"
            ground.cluster.request("POST", VALIDATING.rpartition("/")[0], configuration)
            ground.cluster.request("POST", MUTATING, mutating_configuration(endpoint))
            await_asked(ground.cluster)
            yield found
        finally:
            found.end()


class Race:
    """Clients that want more of one namespace's quota than there is."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = with_quota(cluster, **{"requests.cpu": str(LIMIT)})
        self.lost: list[str] = []
        # Promises that were not kept, and the seconds that each creation took.
        self.broken: list[str] = []
        self.seconds: list[float] = []
        create_quota(cluster, self.namespace, {}, {"cpu": str(LIMIT)})
        with another_quota(cluster, self.namespace):
            eventually(self._governed)

    def _governed(self) -> bool:
        """Whether every replica may know of both quotas by now."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All"
        probes = [self.cluster.request("POST", path, pod("probe", "1")) for _ in range(2 * REPLICAS)]
        known = [knows_another_quota(self.cluster, self.namespace) for _ in range(2 * REPLICAS)]
        return all(probe["spec"]["schedulerName"] == SCHEDULER for probe in probes) and all(known)

    def wanted(self, obj: dict[str, Any], *, promised: bool = False) -> bool:
        """Whether it was admitted. Only the quota may refuse, and never what was promised."""
        for _ in range(20):
            began = time.monotonic()
            try:
                create_once(self.cluster, self.namespace, obj)
                self.seconds.append(time.monotonic() - began)
                return True
            except RequestFailed as error:
                said = str(error)
            if not said.endswith("; try again"):
                break
        if "exceeded quota: rq" not in said:
            self.lost.append(f"{obj['metadata']['name']}: {said}")
        elif promised:
            self.broken.append(f"{obj['metadata']['name']}: {said}")
        return False

    def run(self) -> None:
        """Groups with their members, and pods of no group, from several clients at once."""
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(self._group, range(GROUPS)))
            list(clients.map(lambda number: self.wanted(pod(f"p{number}", "1")), range(LONERS)))

    def _group(self, number: int) -> None:
        self.wanted(pod(f"early-{number}", "1"))
        name = f"g{number}"
        if self.wanted(group(name, MEMBERS, cpu=str(MEMBERS))):
            for member in range(MEMBERS):
                self.wanted(pod(f"{name}-{member}", "1", name), promised=True)

    def _pods(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.cluster.request(
            "GET", f"/api/v1/namespaces/{self.namespace}/pods"
        )["items"]
        return items

    def strays(self) -> list[str]:
        """Pods that were sent elsewhere: no replica saw them."""
        return [
            item["metadata"]["name"] for item in self._pods() if item["spec"]["schedulerName"] != SCHEDULER
        ]

    def used(self) -> int:
        """What the pods that exist ask for, in thousandths of a CPU."""
        items = self._pods()
        requests = [item["spec"]["containers"][0]["resources"]["requests"]["cpu"] for item in items]
        return sum(map(milli, requests))

    @property
    def binds(self) -> bool:
        """Whether promises had to be kept: no object was stored so late that its entry was given up."""
        return max(self.seconds) < GRACE

    def judge(self, losses: Losses) -> None:
        """Add what went wrong; every unit of the quota must be in use by now."""
        used = self.used()
        losses.pods += used // 1000
        losses.lost += self.lost
        losses.lost += self.broken if self.binds else []
        losses.lost += [f"{self.namespace}/{name}: sent elsewhere" for name in self.strays()]
        if used > LIMIT * 1000:
            losses.above_quota.append(f"{self.namespace}: {used}m of {LIMIT}")
        losses.lost += [f"{self.namespace}: quota unused"] * (LIMIT - used // 1000)
        # A member that was refused rightly leaves the rest of its group's room reserved.
        losses.leaked += self._leaked() if self.binds or not self.broken else []

    def _leaked(self) -> list[str]:
        """Reservations that nobody needs any more, once there was time to notice."""

        def clean() -> bool:
            return held(self.cluster, self.namespace) == {} and self._charges() == []

        try:
            eventually(clean, PATIENCE)
        except AssertionError:
            return [f"{self.namespace}: {held(self.cluster, self.namespace)} held, {self._charges()} charged"]
        return []

    def _charges(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ledger(self.cluster, self.namespace)["spec"].get("charges") or []
        return found


def test_replacing_both_replicas_in_a_burst_fails_no_request_and_leaks_no_hold(
    ground: Ground, record: Record, tmp_path: Path
) -> None:
    losses = Losses()
    races: list[Race] = []
    rolls = 0
    with replicas(ground, tmp_path) as running:
        # A busy machine may store every object so late that no promise binds: then once more.
        while rolls < MOST_ROLLS and not any(race.binds for race in races):
            rolls += 1
            rolling = threading.Thread(target=running.roll)
            rolling.start()
            while rolling.is_alive():
                races.append(Race(ground.cluster))
                races[-1].run()
            rolling.join()
        for race in races:
            race.judge(losses)
        assert any(race.binds for race in races), "the machine was too busy to say anything of promises"
        ground.cluster.clean()
    assert running.rolled == rolls * REPLICAS
    assert running.codes == [0] * ((rolls + 1) * REPLICAS), (tmp_path / "webhook.log").read_text()
    record("both replicas of the webhook replaced in a burst", running.rolled, losses)
