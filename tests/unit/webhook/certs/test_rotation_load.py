"""Ten certificates and two CAs, one after the other, while clients connect all the time: none is refused."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from scheduler_core.certificates import Lifetimes, is_valid
from scheduler_core.model.admission_webhooks import NAME
from scheduler_core.model.kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from tests.support.eventually import eventually
from tests.unit.webhook.http.reviews import envelope, quota, synced
from tests.unit.webhook.stored_objects import StoredObjects
from webhook.certs.plan import SETTLE_SECONDS
from webhook.certs.rotation import OwnCertificates
from webhook.certs.store import SecretStore
from webhook.http.app import create_app
from webhook.http.server import WebhookServer
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher

REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()
START = 1_800_000_000.0
DAY = 86400.0
SECRET = ("ns", "certificates")
SHORT = Lifetimes(authority=timedelta(days=360), serving=timedelta(days=90))
# OpenSSL reads the machine's clock, which tests do not move; the dates are checked against theirs.
NO_CHECK_TIME = 0x200000
CLIENTS = 3


class Cluster:
    """Two replicas behind one name, configurations as a chart makes them, and a clock."""

    def __init__(self) -> None:
        self.now = START
        self.objects = StoredObjects()
        self.objects.failure = None
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            self.objects.put(resource, "", NAME, {"webhooks": [{"name": "a.muster.dev"}]})
        self.replicas = [Replica(self) for _ in range(2)]

    def bundle(self) -> str:
        stored = self.objects.get_json(VALIDATING_WEBHOOKS, "", NAME)
        return base64.b64decode(stored["webhooks"][0]["clientConfig"]["caBundle"]).decode()

    def check(self) -> None:
        """Everybody looks once, whoever came last the last time first."""
        self.replicas.reverse()
        for replica in self.replicas:
            replica.own.check(self.now, replica.server.use)


class Replica:
    def __init__(self, cluster: Cluster) -> None:
        self.metrics = WebhookMetrics()
        store = SecretStore(cluster.objects.client, *SECRET)
        self.own = OwnCertificates(store, ("localhost",), cluster.objects.client, self.metrics, SHORT)
        app = create_app(ReviewDispatcher(synced()), self.metrics)
        self.server = WebhookServer(app, ("127.0.0.1", 0), self.own.first(cluster.now))
        self.server.start()


class Client(threading.Thread):
    """Connects anew for every request, as often as it can, and keeps one connection for good."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.number = number
        self.stopping = threading.Event()
        self.handshakes = 0
        self.served: Counter[bytes] = Counter()
        self.failures: list[str] = []

    def run(self) -> None:
        lasting = self.connect()
        while not self.stopping.is_set():
            try:
                self.ask(lasting)
                link = self.connect()
                self.ask(link)
                link.close()
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.failures.append(f"after {self.handshakes}: {error!r}")
        lasting.close()

    def connect(self) -> http.client.HTTPSConnection:
        port = self.cluster.replicas[(self.handshakes + self.number) % 2].server.port
        context = ssl.create_default_context(cadata=self.cluster.bundle())
        context.verify_flags |= ssl.VerifyFlags(NO_CHECK_TIME)
        link = http.client.HTTPSConnection("localhost", port, timeout=20)
        link.sock = context.wrap_socket(
            socket.create_connection(("127.0.0.1", port), timeout=20), server_hostname="localhost"
        )
        pem = ssl.DER_cert_to_PEM_cert(link.sock.getpeercert(binary_form=True) or b"").encode()
        assert is_valid(pem, self.cluster.now)
        self.served[pem] += 1
        self.handshakes += 1
        return link

    def ask(self, link: http.client.HTTPSConnection) -> None:
        link.request("POST", "/validate", REVIEW, {"Content-Type": "application/json"})
        answer = link.getresponse()
        answer.read()
        assert answer.status == 200


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    made.check()
    yield made
    for replica in made.replicas:
        replica.server.stop()


@pytest.mark.long
def test_rotations_under_load_refuse_no_handshake(cluster: Cluster) -> None:
    clients = [Client(cluster, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    bundles = [cluster.bundle()]
    try:
        for step in range(21):
            if step == 7:
                spoil(cluster)
            cluster.now += 30 * DAY
            cluster.check()
            if cluster.bundle() != bundles[-1]:
                everybody_connects(clients)
                cluster.now += SETTLE_SECONDS
                cluster.check()
            bundles.append(cluster.bundle())
            everybody_connects(clients)
    finally:
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(60)
    assert [failure for client in clients for failure in client.failures] == []
    served = set().union(*(client.served for client in clients))
    assert len(served) >= 11
    newest = {bundle.split("-----END")[0] for bundle in bundles}
    assert len(newest) == 3
    assert max(bundle.count("BEGIN CERTIFICATE") for bundle in bundles) == 2


def everybody_connects(clients: list[Client]) -> None:
    """Time for each to trust what is published now, and to use it."""
    made = [client.handshakes for client in clients]

    def moved_on() -> bool:
        pairs = zip(clients, made, strict=True)
        return all(client.handshakes >= before + 2 or client.failures for client, before in pairs)

    eventually(moved_on, timeout=60)


def spoil(cluster: Cluster) -> None:
    """A half-written serving certificate in the Secret."""
    secret = cluster.objects.get_json(SECRETS, *SECRET)
    half = {**secret["data"], "tls.crt": secret["data"]["tls.crt"][:200]}
    cluster.objects.put(SECRETS, *SECRET, {**secret, "data": half})
