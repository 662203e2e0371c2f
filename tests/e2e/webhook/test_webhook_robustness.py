"""The webhook behind a real API server while replicas come, go and die, and while clients misbehave."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import create_node, create_quota
from tests.support.clusters.server import RequestFailed, Server
from tests.support.clusters.service_proxy import ServiceProxy
from tests.support.eventually import eventually
from tests.support.webhooks.clients import HEAD, SLOW, Asker, half_body
from tests.support.webhooks.process import WebhookProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "operation": "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "ResourceQuota"},
        "namespace": "default",
        "name": "rq",
        "dryRun": True,
        "object": {"metadata": {"name": "rq", "namespace": "default"}, "spec": {"hard": {"cpu": "4"}}},
        "oldObject": {"metadata": {"name": "rq", "namespace": "default"}, "spec": {"hard": {"cpu": "5"}}},
    },
}
BODY = json.dumps(REVIEW).encode()
GROUP = "/apis/scheduling.x-k8s.io/v1alpha1"
KILLS = 2
# Within which pods that passed by are found.
FOUND_SECONDS = 60.0
# API servers wait 2 s for the webhook of pods; after that a pod passes by, and nobody is to blame.
PROMPT_SECONDS = 1.5
# Between two requests of a client: requests are always under way, and the processor is not full of them.
PAUSE = 0.05


class Replicas:
    """Replicas that share a Secret, behind one address that is registered."""

    def __init__(self, cluster: Cluster, folder: Path, service: ServiceProxy) -> None:
        self.cluster = cluster
        self.service = service
        self.namespace = cluster.namespace("replicas")
        self._folder = folder
        self.running: list[WebhookProcess] = []
        self.started = 0

    def start(self) -> WebhookProcess:
        """One more, which is asked from now on."""
        self.started += 1
        made = WebhookProcess(
            self.cluster.server,
            self._folder / f"webhook-{self.started}.log",
            *("--certificate-secret", f"{self.namespace}/certificates", "--register", "--drain", "1"),
            *("--url", f"https://127.0.0.1:{self.service.port}", "--logging-format", "json"),
        )
        self.running.append(made)
        self.service.ports.append(made.port)
        return made

    def retire(self, replica: WebhookProcess) -> int:
        """SIGTERM; who routes to it hears of that only a moment later. Its exit code."""
        replica.terminate()
        eventually(lambda: self.readiness(replica) != 200)
        return self.remove(replica).wait()

    def remove(self, replica: WebhookProcess) -> WebhookProcess:
        """Route nothing to it any more."""
        self.running.remove(replica)
        self.service.ports.remove(replica.port)
        return replica

    def readiness(self, replica: WebhookProcess) -> int:
        """The status of /readyz."""
        return replica.page("/readyz")[0]

    def context(self) -> ssl.SSLContext:
        secret = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/secrets/certificates")
        return ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())

    def connect(self, port: int = 0) -> http.client.HTTPSConnection:
        target = port or self.service.port
        return http.client.HTTPSConnection("127.0.0.1", target, timeout=30, context=self.context())


@contextmanager
def one_replica(cluster: Cluster, folder: Path) -> Iterator[Replicas]:
    """A first replica that is asked; it and those that came after it end with the block."""
    create_node(cluster, "big", "8")
    with ServiceProxy() as service:
        made = Replicas(cluster, folder, service)
        try:
            made.start()
            await_asked(cluster, made.namespace)
            yield made
        finally:
            for replica in made.running:
                replica.kill()


@pytest.fixture
def replicas(cluster: Cluster, tmp_path: Path) -> Iterator[Replicas]:
    """Replicas of a test that starts more, and ends some."""
    with one_replica(cluster, tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def lone(server: Server, kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """One replica that lives through all kinds of clients."""
    # Not `cluster`, which takes its registration away after each test.
    own = Cluster(server, kubectl, "lone")
    with one_replica(own, tmp_path_factory.mktemp("lone")) as made:
        yield made
    own.clean()


def ask(cluster: Cluster, namespace: str, low: int = 1) -> int:
    """The status of a quota's creation, as a dry run; only the webhook knows that more than 8 is too much."""
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "eq"},
        "spec": {"min": {"cpu": str(low)}, "max": {"cpu": "100"}},
    }
    try:
        cluster.request("POST", f"{GROUP}/namespaces/{namespace}/elasticquotas?dryRun=All", body)
    except RequestFailed as error:
        return error.status
    return 201


def await_asked(cluster: Cluster, namespace: str) -> None:
    """API servers read webhook configurations with a delay: wait for a refusal."""
    eventually(lambda: ask(cluster, namespace, 9) == 403, timeout=30)


class Creator(threading.Thread):
    """Creates quotas through the API server, legal and illegal in turn; `wrong` are unexpected answers.

    `patience` is how often one is tried: what fails because its webhook died may be sent again.
    """

    def __init__(self, cluster: Cluster, namespace: str, patience: int) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._namespace = namespace
        self._patience = patience
        self._stopping = threading.Event()
        self.done = 0
        self.wrong: list[int] = []

    def run(self) -> None:
        while not self._stopping.wait(PAUSE):
            low, wanted = ((1, 201), (9, 403))[self.done % 2]
            for left in reversed(range(self._patience)):
                found = ask(self._cluster, self._namespace, low)
                if found == wanted or self._stopping.wait(0.1 if left else 0.0):
                    break
            if found != wanted and not self._stopping.is_set():
                self.wrong.append(found)
            self.done += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)


def governed(cluster: Cluster) -> str:
    """A namespace under a quota, of which the webhook knows."""
    namespace = cluster.namespace("pods")
    create_quota(cluster, namespace, {}, {"cpu": "8"})
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    probe = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "m", "image": "example.com/app:1"}]}}

    def seen() -> bool:
        made = cluster.request("POST", path, probe)
        return bool(made["spec"]["schedulerName"] == "muster-scheduler")

    eventually(seen, timeout=30)
    return namespace


class PodCreator(threading.Thread):
    """Creates pods under a quota. None may fail; `strays` are those that the webhook did not see.

    `late` are such, too, but the API server may have waited for the webhook as long as it does.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._stopping = threading.Event()
        self.done = 0
        self.wrong: list[int] = []
        self.strays: list[str] = []
        self.late: list[str] = []

    def run(self) -> None:
        while not self._stopping.wait(PAUSE):
            container = {"name": "main", "image": "example.com/app:1"}
            body = {"metadata": {"generateName": "p-"}, "spec": {"containers": [container]}}
            began = time.monotonic()
            try:
                made = self._cluster.request("POST", self._path, body)
            except RequestFailed as error:
                self.wrong.append(error.status)
            else:
                if made["spec"]["schedulerName"] != "muster-scheduler":
                    prompt = time.monotonic() - began < PROMPT_SECONDS
                    (self.strays if prompt else self.late).append(made["metadata"]["name"])
            self.done += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)


class Load:
    """Clients of the webhook's address, and clients of the API server; nobody is told of any change.

    Made while one replica runs, which then knows of the quota; those that start later read it first.
    """

    def __init__(self, replicas: Replicas, patience: int) -> None:
        self.pods = governed(replicas.cluster)
        self.pod_creators = [PodCreator(replicas.cluster, self.pods) for _ in range(2)]
        self.askers = [Asker(replicas.connect, BODY, pause=PAUSE) for _ in range(2)]
        self.creators = [Creator(replicas.cluster, replicas.namespace, patience) for _ in range(2)]
        self._all = (*self.askers, *self.creators, *self.pod_creators)

    def __enter__(self) -> Load:
        for thread in self._all:
            thread.start()
        self.go_on()
        return self

    def go_on(self, count: int = 10) -> None:
        """Until each has been answered so many times more."""
        before = self._progress()

        def enough() -> bool:
            behind = {name: done for name, done in self._progress().items() if done < before[name] + count}
            assert not behind, f"stands at {behind} since {before}; what failed: {self.failures()[-20:]}"
            return True

        eventually(enough, timeout=60)

    def _progress(self) -> dict[str, int]:
        """How much each client has been answered so far."""
        creators = (*self.creators, *self.pod_creators)
        counts = [*(one.answered for one in self.askers), *(one.done for one in creators)]
        return {
            f"{type(one).__name__} {at}": n for at, (one, n) in enumerate(zip(self._all, counts, strict=True))
        }

    def __exit__(self, *_: object) -> None:
        for thread in self._all:
            thread.stop()

    @property
    def strays(self) -> set[str]:
        """Pods that were sent elsewhere, though the webhook was not slow."""
        return {name for one in self.pod_creators for name in one.strays}

    @property
    def late(self) -> set[str]:
        """Pods that were sent elsewhere, perhaps as the webhook was slow."""
        return {name for one in self.pod_creators for name in one.late}

    @property
    def made(self) -> int:
        """Pods that were created, or not."""
        return sum(one.done for one in self.pod_creators)

    def failures(self) -> list[object]:
        return [
            *(failure for one in self.askers for failure in one.failures),
            *(status for one in (*self.creators, *self.pod_creators) for status in one.wrong),
        ]


def test_replicas_that_are_exchanged_one_by_one_fail_nobody(
    replicas: Replicas, record_property: Callable[[str, object], None]
) -> None:
    load = Load(replicas, patience=1)
    replicas.start()
    with load:
        for _ in range(2):
            replicas.start()
            load.go_on()
            assert replicas.retire(replicas.running[0]) == 0
            load.go_on()
    record_property("late", f"{len(load.late)} of {load.made}")
    assert load.failures() == []
    assert load.strays == set(), f"of {load.made} pods"
    # A webhook that hangs would be late with most of them; a busy machine is late with some.
    assert len(load.late) <= load.made // 2


def test_replica_that_is_killed_fails_nobody_who_asks_again(
    replicas: Replicas, record_property: Callable[[str, object], None]
) -> None:
    load = Load(replicas, patience=3)
    replicas.start()
    with load:
        for _ in range(KILLS):
            replicas.running[0].kill()
            load.go_on()
            replicas.remove(replicas.running[0])
            replicas.start()
            load.go_on()
    assert load.failures() == []
    # Requests that were under way in the killed process are lost: their pods pass by, and are found.
    record_property("strays", f"{len(load.strays)} of {load.made}, and {len(load.late)} late")
    assert len(load.strays) <= KILLS * len(load.pod_creators) * 2
    passed = load.strays | load.late
    eventually(lambda: found(replicas) == len(passed), timeout=FOUND_SECONDS)
    replicas.cluster.kubectl("elasticquota", "adopt", "-n", load.pods, "--yes")
    eventually(lambda: found(replicas) == 0, timeout=FOUND_SECONDS)


def found(replicas: Replicas) -> int:
    """Pods that passed by, as the last replica counts them."""
    return replicas.running[-1].passed_by()


@pytest.mark.parametrize("kind", SLOW[:-1])
def test_slow_clients_fail_no_creation(lone: Replicas, kind: Callable[[int, ssl.SSLContext], socket]) -> None:
    port, context = lone.running[0].port, lone.context()
    with ExitStack() as opened:
        for _ in range(64):
            opened.enter_context(kind(port, context))
        found = [ask(lone.cluster, lone.namespace, low) for low in (1, 9) * 10]
    assert found == [201, 403] * 10


def test_more_slow_clients_than_workers_are_survived(lone: Replicas) -> None:
    port, context = lone.running[0].port, lone.context()
    with ExitStack() as opened:
        for _ in range(200):
            opened.enter_context(half_body(port, context))
        eventually(lambda: ask(lone.cluster, lone.namespace, 9) == 403, timeout=90)
        found = [ask(lone.cluster, lone.namespace, low) for low in (1, 9) * 10]
    assert found == [201, 403] * 10


def oversized(lone: Replicas, *, chunked: bool) -> int:
    """The status for a body of 300 MB, as much of it as is taken."""
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n" if chunked else b"x" * 0x10000
    header = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (300 << 20)
    with closing(lone.connect(lone.running[0].port)) as link:
        link.connect()
        link.sock.sendall(HEAD + header + b"\r\n\r\n")
        with suppress(OSError):
            for _ in range((300 << 20) // 0x10000):
                link.sock.sendall(piece)
        response = http.client.HTTPResponse(link.sock)
        response.begin()
        response.close()
        return response.status


def test_oversized_bodies_take_no_memory(lone: Replicas) -> None:
    replica = lone.running[0]
    before = replica.resident()
    assert [oversized(lone, chunked=chunked) for chunked in (False, True) * 3] == [413] * 6
    assert replica.resident() - before <= 20 << 20
    assert ask(lone.cluster, lone.namespace, 9) == 403


def test_logs_are_json_throughout(lone: Replicas) -> None:
    replica = lone.running[0]
    assert ask(lone.cluster, lone.namespace, 9) == 403

    def refusals() -> list[dict[str, Any]]:
        # The log is written in the background; what is written of a line so far is none yet.
        lines = [json.loads(line) for line in replica.text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["message"] == "review: deny"]

    found = eventually(refusals)
    assert {line["rules"] for line in found} == {"capacity"}
    assert all(line["user"] for line in found)
