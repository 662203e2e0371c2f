"""Certificates of replicas in a Secret, trusted through the webhook configurations of an API server."""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.certificates import is_signed_by, issue_serving, split_bundle
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.webhooks.process import START_SECONDS, WebhookProcess
from webhook.__main__ import serving_hosts
from webhook.certs import rotation
from webhook.certs.ca_bundle import read_published
from webhook.certs.plan import NO_MATERIAL, SETTLE_SECONDS, Material, renewed
from webhook.certs.source import Source
from webhook.certs.store import SecretStore, ensure
from webhook.process import RunningWebhook, WebhookOptions

pytestmark = pytest.mark.long

KINDS = ("validating", "mutating")
HOSTS = serving_hosts("127.0.0.1", "", ("", ""))
DAY = 86400.0
# Two thirds of the life, which starts an hour before it is made, are over in a minute.
AUTHORITY_AGE = (3650 * DAY + 3600) * 2 / 3 - 3600 - 60
SERVING_AGE = (90 * DAY + 3600) * 2 / 3 - 3600 - 60


def path(kind: str) -> str:
    return f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"


class Installed:
    """A Secret and configurations as a chart makes them: empty, and without any CA."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace("muster")
        cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": "big"}})
        status = {"status": {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}}}
        cluster.request("PATCH", "/api/v1/nodes/big/status", status)
        secret = {"metadata": {"name": "certificates"}, "type": "Opaque"}
        cluster.request("POST", self.secrets, secret)

    @property
    def secrets(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets"

    def configure(self, port: int) -> None:
        """What a first installation does."""
        for kind, body in self.rendered(port).items():
            self.cluster.request("POST", path(kind), body)

    def upgrade(self, port: int) -> None:
        """What an upgrade with empty bundles in its templates does."""
        for kind, body in self.rendered(port).items():
            for entry in body["webhooks"]:
                entry["clientConfig"]["caBundle"] = ""
            self.cluster.request("PATCH", f"{path(kind)}/muster-webhook", {"webhooks": body["webhooks"]})

    @staticmethod
    def rendered(port: int) -> dict[str, dict[str, Any]]:
        endpoint = WebhookEndpoint(b"", f"https://127.0.0.1:{port}")
        made = {
            "validating": validating_configuration(endpoint),
            "mutating": mutating_configuration(endpoint),
        }
        for body in made.values():
            for entry in body["webhooks"]:
                entry["clientConfig"].pop("caBundle", None)
        return made

    def material(self) -> Material:
        client, _ = connect(Overrides(kubeconfig=str(self.cluster.kubeconfig)))
        with closing(client.session):
            return SecretStore(client, self.namespace, "certificates").read()[0]

    def trusted(self) -> set[bytes]:
        """The bundles in the configurations."""
        client, _ = connect(Overrides(kubeconfig=str(self.cluster.kubeconfig)))
        with closing(client.session):
            found = read_published(client).found
        return {
            base64.b64decode(entry["clientConfig"].get("caBundle") or "")
            for _, configuration in found
            for entry in configuration["webhooks"]
            if entry["name"].endswith(".muster.dev")
        }

    def ask(self, low: int, labels: dict[str, str] | None = None) -> int:
        """The status of a quota's creation, as a dry run; only the webhook knows that 9 is too much."""
        body = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "eq", "labels": labels or {}},
            "spec": {"min": {"cpu": str(low)}, "max": {"cpu": "100"}},
        }
        stem = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{self.namespace}/elasticquotas?dryRun=All"
        try:
            self.cluster.request("POST", stem, body)
        except RequestFailed as error:
            return error.status
        return 201

    def await_asked(self) -> None:
        """API servers read configurations with a delay: wait for a refusal."""
        eventually(lambda: self.ask(9) == 403, timeout=30)


@pytest.fixture
def installed(cluster: Cluster) -> Installed:
    return Installed(cluster)


Start = Callable[[], WebhookProcess]


@pytest.fixture
def start(installed: Installed, tmp_path: Path) -> Iterator[Start]:
    """Starts replicas that share the Secret."""
    made: list[WebhookProcess] = []

    def one() -> WebhookProcess:
        secret = ("--certificate-secret", f"{installed.namespace}/certificates")
        log = tmp_path / f"webhook-{len(made)}.log"
        made.append(WebhookProcess(installed.cluster.server, log, *secret, "--drain", "0"))
        return made[-1]

    yield one
    for replica in made:
        replica.kill()


def served(port: int) -> bytes:
    """The certificate that a replica serves."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=20).encode()


def test_replicas_share_certificates_and_make_themselves_trusted(installed: Installed, start: Start) -> None:
    first, second = start(), start()
    installed.configure(first.port)
    installed.await_asked()
    assert installed.ask(1) == 201
    assert served(first.port).split() == served(second.port).split()
    eventually(lambda: installed.trusted() == {installed.material().bundle})


def test_upgrade_that_empties_the_bundles_is_repaired(installed: Installed, start: Start) -> None:
    replica = start()
    installed.configure(replica.port)
    installed.await_asked()
    installed.upgrade(replica.port)
    bundle = installed.material().bundle
    eventually(lambda: installed.trusted() == {bundle})
    installed.await_asked()


def test_damaged_secret_is_put_back_and_nothing_new_is_served(installed: Installed, start: Start) -> None:
    replica = start()
    installed.configure(replica.port)
    before = installed.material()
    half = {"data": {"tls.key": base64.b64encode(before.serving.key[:60]).decode()}}
    installed.cluster.request("PATCH", f"{installed.secrets}/certificates", half)
    eventually(lambda: installed.material() == before)
    assert served(replica.port).split() == before.serving.certificate.split()
    installed.await_asked()


def test_secret_that_is_deleted_means_a_new_authority_beside_the_old(
    installed: Installed, start: Start
) -> None:
    replicas = [start(), start()]
    installed.configure(replicas[0].port)
    before = installed.material()
    installed.await_asked()
    installed.cluster.request("DELETE", f"{installed.secrets}/certificates")
    eventually(lambda: installed.material().authorities[1:] == before.authorities)
    after = installed.material()
    eventually(lambda: installed.trusted() == {after.bundle})
    assert after.serving == before.serving
    assert [installed.ask(low) for low in (1, 9) * 5] == [201, 403] * 5


def test_everything_lost_needs_no_hand(installed: Installed, start: Start) -> None:
    replica = start()
    installed.configure(replica.port)
    installed.await_asked()
    replica.kill()
    installed.cluster.request("DELETE", f"{installed.secrets}/certificates")
    fresh = start()
    installed.upgrade(fresh.port)
    installed.await_asked()


def test_mounted_certificates_are_taken_over_within_seconds(installed: Installed, tmp_path: Path) -> None:
    material = renewed(NO_MATERIAL, HOSTS, time.time(), lambda bundle: True)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    key.write_bytes(material.serving.key)
    certificate.write_bytes(material.serving.certificate)
    options = ("--certificate-dir", str(tmp_path), "--drain", "0")
    replica = WebhookProcess(installed.cluster.server, tmp_path / "webhook.log", *options)
    try:
        following = issue_serving(material.authority, HOSTS, time.time())
        certificate.write_bytes(following.certificate[:100])
        eventually(lambda: "certificate rotation" in replica.text, timeout=90)
        assert served(replica.port).split() == material.serving.certificate.split()
        key.write_bytes(following.key)
        certificate.write_bytes(following.certificate)
        eventually(lambda: served(replica.port).split() == following.certificate.split(), timeout=90)
    finally:
        replica.kill()


class Clock:
    """The time of the machine, and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead


class Creator(threading.Thread):
    """Asks through the API server all the time; `wrong` are answers that nobody should get."""

    def __init__(self, installed: Installed) -> None:
        super().__init__(daemon=True)
        self._installed = installed
        self._stopping = threading.Event()
        self.done = 0
        self.wrong: list[int] = []

    def run(self) -> None:
        while not self._stopping.wait(0.005):
            low, wanted = ((1, 201), (9, 403))[self.done % 2]
            if (status := self._installed.ask(low)) != wanted:
                self.wrong.append(status)
            self.done += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)


def aged(due: str) -> Material:
    """Material of which one part is due for renewal in a minute."""
    now = time.time()
    if due == "serving":
        return renewed(NO_MATERIAL, HOSTS, now - SERVING_AGE, lambda bundle: True)
    old = renewed(NO_MATERIAL, HOSTS, now - AUTHORITY_AGE, lambda bundle: True)
    return renewed(old, HOSTS, now, lambda bundle: False)


def notice(installed: Installed, name: str) -> None:
    """Wait until the API server has read what is stored now: by a later change that can be seen."""
    marker = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": installed.rendered(1)["validating"]["webhooks"][0]["rules"],
        "objectSelector": {"matchLabels": {"notice": name}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "failurePolicy": "Fail",
    }

    def added() -> bool:
        # Versions are compared: what somebody else wrote in between is not lost.
        stored = installed.cluster.request("GET", f"{path('validating')}/muster-webhook")
        stored["webhooks"].append(marker)
        try:
            installed.cluster.request("PUT", f"{path('validating')}/muster-webhook", stored)
        except RequestFailed as error:
            if error.status != 409:
                raise
            return False
        return True

    eventually(added)
    eventually(lambda: installed.ask(1, {"notice": name}) == 500, timeout=30)


@pytest.mark.parametrize("due", ["serving", "authority"])
def test_renewal_under_load_fails_no_creation(
    installed: Installed, monkeypatch: pytest.MonkeyPatch, due: str
) -> None:
    monkeypatch.setattr(rotation, "SECRET_SECONDS", 0.2)
    cluster, clock = installed.cluster, Clock()
    client, _ = connect(Overrides(kubeconfig=str(cluster.kubeconfig)))
    before = aged(due)
    with closing(client.session):
        store = SecretStore(client, installed.namespace, "certificates")
        store.write(before, store.read()[1])
        assert ensure(store, HOSTS, clock.time()) == before
    source = Source(Path("unused"), (installed.namespace, "certificates"), patch=True)
    overrides = Overrides(kubeconfig=str(cluster.kubeconfig))
    options = WebhookOptions(
        "127.0.0.1", 0, ("127.0.0.1", 0), source, overrides=overrides, register=True, hosts=HOSTS, drain=0.0
    )
    webhook = RunningWebhook(options, clock.time)
    announced = threading.Event()
    thread = threading.Thread(target=webhook.run, args=(lambda _: announced.set(),))
    thread.start()
    creator = Creator(installed)
    try:
        assert announced.wait(START_SECONDS)
        installed.await_asked()
        creator.start()
        clock.ahead = 120.0
        if due == "authority":
            eventually(lambda: {len(split_bundle(bundle)) for bundle in installed.trusted()} == {2})
            assert installed.material().serving == before.serving
            notice(installed, "both-trusted")
            clock.ahead = 120.0 + SETTLE_SECONDS
        eventually(lambda: installed.material().serving != before.serving)
        after = installed.material()
        assert is_signed_by(after.serving.certificate, after.authorities[0])
        assert (after.authorities == before.authorities) is (due == "serving")
        sofar = creator.done
        eventually(lambda: creator.done >= sofar + 20, timeout=30)
    finally:
        creator.stop()
        webhook.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert creator.wrong == []
