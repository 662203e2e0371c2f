"""Admission cost of a pod without any reservation, and of a pod whose group has a reservation.

With a reservation, the webhook is a separate process that is registered on a sandbox. Its own metric
`muster_admission_review_duration_seconds` measures the reviews, including the writes of the ledger.
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
from benchmarks.support.row import Row
from benchmarks.support.threads import run_all
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
from tests.support.clusters.full_sandbox import FullSandbox
from webhook.http.admission_review import ReviewRequest
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.policy.verdict import Verdict

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
    """A serving webhook."""

    metrics: str

    def buckets(self) -> dict[float, float]:
        """Number of admitted pods by upper bound of the duration in seconds, from the webhook's metrics."""
        with urllib.request.urlopen(f"{self.metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return {float(limit): float(count) for limit, count in _BUCKET.findall(text)}


@contextmanager
def hook(kubeconfig: Path) -> Iterator[Hook]:
    """A registered webhook process."""
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
    """A pod of the group with another scheduler's name, so that only its quota is reviewed."""
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
    """Create the CRDs, a namespace with a ResourceQuota, and a group that reserves the whole quota."""
    for path in sorted(CRDS.glob("*.yaml")):
        client.create(Create(CUSTOM_RESOURCE_DEFINITIONS, "", yaml.safe_load(path.read_text())))
    client.create(Create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}}))
    hard = {"metadata": {"name": "compute"}, "spec": {"hard": {"requests.cpu": str(members + 100)}}}
    client.create(Create(RESOURCE_QUOTAS, NAMESPACE, hard))


def reserve(client: Client, members: int) -> None:
    """Create the group, and check that a pod outside of the group is refused."""
    spec = {"minMembers": members, "totalResources": {"cpu": str(members)}}
    kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    body = {**kind, "metadata": {"name": "train"}, "spec": spec}
    client.create(Create(POD_GROUPS, NAMESPACE, body))
    stranger = member(0)
    stranger["metadata"] = {"name": "stranger"}
    stranger["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200"
    try:
        client.create(Create(PODS, NAMESPACE, stranger))
    except Forbidden:
        return
    raise RuntimeError("a stranger took what was reserved: the webhook is not asked")


def create_members(client: Client, members: int) -> list[float]:
    """Create the members at a fixed rate; returns sorted latencies in seconds from the due times."""
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

    run_all([threading.Thread(target=run, args=(first,)) for first in range(CONNECTIONS)])
    if failures:
        raise RuntimeError(f"{len(failures)} members were refused: {failures[0]}")
    return sorted(taken for own in times for taken in own)


def quantile(counts: dict[float, float], share: float) -> float:
    """Quantile of a histogram in seconds, with linear interpolation inside a bucket."""
    wanted, below, start = share * max(counts.values()), 0.0, 0.0
    for limit, count in sorted(counts.items()):
        if count >= wanted:
            return start + (limit - start) * (wanted - below) / (count - below) if count > below else limit
        below, start = count, limit
    return start


def with_holds(members: int) -> Iterator[Row]:
    """Rows for members of a group with a reservation, created on a sandbox."""
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


def both(service: ReviewDispatcher) -> Any:
    """Both reviews of a new pod."""

    def decide(request: ReviewRequest) -> Verdict:
        service.mutate(request)
        return service.validate(request)

    return decide


def main(small: bool = False) -> list[Row]:
    """Microseconds in process without a reservation, then milliseconds with a reservation ledger."""
    seconds, members = (0.2, 20) if small else (SECONDS, MEMBERS)
    plain = in_process(envelope(pod(10_000)), both(ReviewDispatcher(filled_cache())), seconds)
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
