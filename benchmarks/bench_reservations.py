"""What a pod's admission costs where nothing is reserved, and where its group has a hold to draw on.

With a hold, the webhook is a process of its own, registered on a sandbox. Its reviews are timed by itself
(`muster_admission_review_duration_seconds`), which has the writes of the ledger in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.bench_webhook import SECONDS, envelope, filled_cache, in_process, percentile, pod
from benchmarks.row import Row
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.errors import ApiError, Forbidden
from scheduler_core.model.kinds import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    RESOURCE_QUOTAS,
)
from scheduler_core.model.names import GROUP_NAME_ANNOTATION
from scheduler_core.model.writes import Create
from tests.support.full_sandbox import FullSandbox
from webhook.review import Request
from webhook.service import Service
from webhook.verdict import Verdict

CRDS = Path(__file__).parents[1] / "charts" / "muster" / "crds"
NAMESPACE = "bench"
MEMBERS = 500
RATE = 50
CONNECTIONS = 4
_BUCKET = re.compile(
    r'muster_admission_review_duration_seconds_bucket\{(?=[^}]*operation="CREATE")(?=[^}]*kind="Pod")'
    r'(?=[^}]*allowed="true")[^}]*le="([^"]+)"[^}]*\} ([0-9.e+]+)'
)


class Hook(NamedTuple):
    """A webhook that serves."""

    metrics: str

    def buckets(self) -> dict[float, float]:
        """How many pods were admitted within so many seconds, by its metrics."""
        with urllib.request.urlopen(f"{self.metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return {float(limit): float(count) for limit, count in _BUCKET.findall(text)}


@contextmanager
def hook(kubeconfig: Path) -> Iterator[Hook]:
    """A webhook process, registered."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-u", "-m", "webhook", "serve", "--kubeconfig", str(kubeconfig)]
        command += ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--cert-dir", folder]
        command += ["--register", "--drain", "0"]
        log = Path(folder) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if " on https://" not in line:
                raise RuntimeError(f"the webhook did not start: {line}{log.read_text()}")
            yield Hook(line.rpartition(" on ")[2].strip())
        finally:
            process.terminate()
            process.wait(20)


def member(number: int) -> dict[str, Any]:
    """A pod of the group. It names a scheduler of its own, so that nothing but its quota is reviewed."""
    return {
        "metadata": {"name": f"train-{number}", "annotations": {GROUP_NAME_ANNOTATION: "train"}},
        "spec": {
            "schedulerName": "nobody",
            "containers": [
                {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
            ],
        },
    }


def prepare(client: Client, members: int) -> None:
    """Kinds, a namespace with a native quota, and a group that reserves all of it."""
    for path in sorted(CRDS.glob("*.yaml")):
        client.create(Create(CUSTOM_RESOURCE_DEFINITIONS, "", yaml.safe_load(path.read_text())))
    client.create(Create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}}))
    hard = {"metadata": {"name": "compute"}, "spec": {"hard": {"requests.cpu": str(members + 100)}}}
    client.create(Create(RESOURCE_QUOTAS, NAMESPACE, hard))


def reserve(client: Client, members: int) -> None:
    """The group; somebody who does not belong to it must be refused."""
    spec = {"minMembers": members, "totalResources": {"cpu": str(members)}}
    body = {**_identity(), "metadata": {"name": "train"}, "spec": spec}
    client.create(Create(POD_GROUPS, NAMESPACE, body))
    stranger = member(0)
    stranger["metadata"] = {"name": "stranger"}
    stranger["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200"
    try:
        client.create(Create(PODS, NAMESPACE, stranger))
    except Forbidden:
        return
    raise RuntimeError("a stranger took what was reserved: the webhook is not asked")


def _identity() -> dict[str, str]:
    return {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}


def create_members(client: Client, members: int) -> list[float]:
    """Create the members at a fixed rate; sorted seconds from the moment that each was due."""
    times: list[list[float]] = [[] for _ in range(CONNECTIONS)]
    failures: list[ApiError] = []
    begin = time.perf_counter() + 0.5

    def run(first: int) -> None:
        for number in range(first, members, CONNECTIONS):
            due = begin + number / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            try:
                client.create(Create(PODS, NAMESPACE, member(number)))
            except ApiError as error:
                failures.append(error)
            times[first].append(time.perf_counter() - due)

    threads = [threading.Thread(target=run, args=(first,)) for first in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError(f"{len(failures)} members were refused: {failures[0]}")
    return sorted(taken for own in times for taken in own)


def quantile(counts: dict[float, float], share: float) -> float:
    """Seconds that this share of a histogram's entries stays within, linear inside a bucket."""
    wanted, below, start = share * max(counts.values()), 0.0, 0.0
    for limit, count in sorted(counts.items()):
        if count >= wanted:
            return start + (limit - start) * (wanted - below) / (count - below) if count > below else limit
        below, start = count, limit
    return start


def with_holds(members: int) -> Iterator[Row]:
    """Members of a group with a hold, created on a sandbox."""
    with FullSandbox() as server:
        client, _ = connect(Overrides(kubeconfig=str(server.kubeconfig)))
        prepare(client, members)
        with hook(server.kubeconfig) as served:
            reserve(client, members)
            before = served.buckets()
            times = create_members(client, members)
            after = served.buckets()
        client.session.close()
    counts = {limit: count - before.get(limit, 0.0) for limit, count in after.items()}
    name = f"pod that draws on a hold, {RATE}/s on a sandbox"
    yield Row(f"{name}, review p50", quantile(counts, 0.5) * 1e3, "ms")
    yield Row(f"{name}, review p99", quantile(counts, 0.99) * 1e3, "ms", ceiling=75.0)
    yield Row(f"{name}, the client's wait p99", percentile(times, 0.99) * 1e3, "ms")


def both(service: Service) -> Any:
    """Both reviews that a new pod gets."""

    def decide(request: Request) -> Verdict:
        service.mutate(request)
        return service.validate(request)

    return decide


def main(small: bool = False) -> list[Row]:
    """Microseconds in process where nothing is reserved, then milliseconds with a ledger behind it."""
    seconds, members = (0.2, 20) if small else (SECONDS, MEMBERS)
    plain = in_process(envelope(pod(10_000)), both(Service(filled_cache())), seconds)
    return [
        Row("pod of 10 KB without a hold, both reviews, p50", percentile(plain, 0.5) * 1e6, "us"),
        Row(
            "pod of 10 KB without a hold, both reviews, p99",
            percentile(plain, 0.99) * 1e6,
            "us",
            ceiling=3000,
        ),
        *with_holds(members),
    ]
