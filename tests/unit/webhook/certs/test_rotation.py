"""Certificates in use and CAs that are trusted follow what is stored, and failures are made good."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.certificates import (
    CertificateError,
    KeyPair,
    Lifetimes,
    expiry,
    is_signed_by,
    issue_serving,
    make_authority,
    split_bundle,
)
from scheduler_core.kube.errors import Conflict, Forbidden
from scheduler_core.model.admission_webhooks import NAME
from scheduler_core.model.kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from tests.unit.webhook.stored_objects import StoredObjects
from webhook.certs.ca_bundle import publish, read_published, with_bundle
from webhook.certs.plan import SETTLE_SECONDS
from webhook.certs.rotation import MountedCertificates, OwnCertificates
from webhook.certs.store import FileStore, SecretStore, ensure
from webhook.metrics import WebhookMetrics

NOW = 1_800_000_000.0
DAY = 86400.0
HOSTS = ("hook.ns.svc",)
SECRET = ("ns", "certificates")
SHORT = Lifetimes(authority=timedelta(days=360), serving=timedelta(days=90))
KINDS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


def configuration(*names: str, bundle: str | None = None) -> dict[str, Any]:
    client: dict[str, Any] = {"service": {"name": "hook", "namespace": "ns"}}
    if bundle is not None:
        client["caBundle"] = bundle
    return {"webhooks": [{"name": name, "clientConfig": client} for name in names]}


class World:
    """An API server with the configurations as a chart makes them, and replicas that share a Secret."""

    def __init__(self) -> None:
        self.server = StoredObjects()
        for resource in KINDS:
            self.server.put(resource, "", NAME, configuration("pods.muster.dev", "quotas.muster.dev"))

    def replica(self) -> Replica:
        return Replica(self.server)

    def bundles(self) -> set[bytes]:
        return {
            base64.b64decode(entry["clientConfig"].get("caBundle", ""))
            for resource in KINDS
            for entry in self.server.get_json(resource, "", NAME)["webhooks"]
        }


class Replica:
    """One process; `refuses` makes its server take no new pair."""

    def __init__(self, server: StoredObjects) -> None:
        self.metrics = WebhookMetrics()
        store = SecretStore(server.client, *SECRET)
        self.own = OwnCertificates(store, HOSTS, server.client, self.metrics, SHORT)
        self.served = self.own.first(NOW)
        self.refuses = False

    def use(self, pair: KeyPair) -> None:
        if self.refuses:
            raise CertificateError("serving certificate", "cannot be loaded")
        self.served = pair

    def check(self, now: float) -> None:
        self.own.check(now, self.use)

    def sample(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)


@pytest.fixture
def world() -> World:
    return World()


def test_empty_bundles_of_a_chart_are_filled_and_then_left_alone(world: World) -> None:
    replica = world.replica()
    for _ in range(3):
        replica.check(NOW)
    assert world.bundles() == {replica.own.bundle}
    assert sorted(world.server.writes) == [
        "MutatingWebhookConfiguration",
        "Secret",
        "ValidatingWebhookConfiguration",
    ]
    assert replica.sample("muster_webhook_ca_bundle_writes_total") == 2


def test_bundle_that_an_upgrade_wrote_over_is_repaired(world: World) -> None:
    replica = world.replica()
    replica.check(NOW)
    for resource, text in zip(KINDS, ("", base64.b64encode(b"other").decode()), strict=True):
        world.server.put(resource, "", NAME, configuration("pods.muster.dev", bundle=text))
    replica.check(NOW)
    assert world.bundles() == {replica.own.bundle}


def test_webhooks_of_others_in_the_same_configuration_keep_their_bundle(world: World) -> None:
    foreign = configuration("theirs.example.com", "pods.muster.dev", bundle="AAAA")
    world.server.put(MUTATING_WEBHOOKS, "", NAME, foreign)
    replica = world.replica()
    replica.check(NOW)
    first, second = world.server.get_json(MUTATING_WEBHOOKS, "", NAME)["webhooks"]
    assert first["clientConfig"]["caBundle"] == "AAAA"
    assert base64.b64decode(second["clientConfig"]["caBundle"]) == replica.own.bundle


def test_configurations_that_do_not_exist_are_not_made(world: World) -> None:
    world.server.objects.clear()
    replica = world.replica()
    replica.check(NOW)
    assert world.server.writes == ["Secret"]


def test_renewed_pair_is_served_by_all_replicas_and_measured(world: World) -> None:
    replicas = [world.replica() for _ in range(3)]
    for replica in replicas:
        replica.check(NOW + 61 * DAY)
    assert len({replica.served for replica in replicas}) == 1
    assert world.server.writes.count("Secret") == 2
    name = "muster_webhook_cert_expiry_timestamp_seconds"
    assert {replica.sample(name) for replica in replicas} == {NOW + 151 * DAY}
    assert replicas[0].sample("muster_webhook_ca_expiry_timestamp_seconds") == NOW + 360 * DAY


def test_new_authority_is_trusted_everywhere_before_anybody_serves_with_it(world: World) -> None:
    fast, slow = world.replica(), world.replica()
    now = NOW
    while len(split_bundle(fast.own.bundle)) == 1:
        now += 30 * DAY
        fast.check(now)
        for pair in (fast.served, slow.served):
            good = expiry(pair.certificate) > now
            assert not good or any(
                is_signed_by(pair.certificate, pem) for pem in split_bundle(fast.own.bundle)
            )
        assert world.bundles() == {fast.own.bundle}
    assert not is_signed_by(fast.served.certificate, split_bundle(fast.own.bundle)[0])
    fast.check(now + SETTLE_SECONDS)
    slow.check(now + SETTLE_SECONDS)
    assert is_signed_by(fast.served.certificate, split_bundle(fast.own.bundle)[0])
    assert slow.served == fast.served


def test_slow_replica_cannot_put_an_older_bundle_over_a_newer_one(world: World) -> None:
    replica = world.replica()
    before = read_published(world.server.client)
    replica.check(NOW)
    with pytest.raises(Conflict):
        publish(world.server.client, before, b"older")
    assert world.bundles() == {replica.own.bundle}


def test_lost_race_for_a_configuration_is_run_again(world: World) -> None:
    replica = world.replica()
    stolen = iter([True])

    def interfere() -> None:
        for _ in stolen:
            world.server.put(MUTATING_WEBHOOKS, "", NAME, configuration("pods.muster.dev", "new.muster.dev"))

    world.server.before_write = interfere
    replica.check(NOW)
    assert world.bundles() == {replica.own.bundle}
    names = [entry["name"] for entry in world.server.get_json(MUTATING_WEBHOOKS, "", NAME)["webhooks"]]
    assert names == ["pods.muster.dev", "new.muster.dev"]


def test_pair_that_was_not_taken_is_tried_again(world: World) -> None:
    replica = world.replica()
    first = replica.served
    replica.refuses = True
    with pytest.raises(CertificateError, match="cannot be loaded"):
        replica.check(NOW + 61 * DAY)
    assert replica.served == first
    replica.refuses = False
    replica.check(NOW + 61 * DAY)
    assert replica.served != first


class Guarded(StoredObjects):
    """A server on which the configurations may not be read."""

    def get_json(self, resource: Any, namespace: str, name: str) -> dict[str, Any]:
        if resource != SECRETS:
            raise Forbidden(403, "Forbidden", name)
        return super().get_json(resource, namespace, name)


def test_renewal_needs_no_access_to_the_configurations() -> None:
    replica = Replica(Guarded())
    first = replica.served
    with pytest.raises(Forbidden):
        replica.check(NOW + 61 * DAY)
    assert replica.served != first


def test_damaged_secret_is_put_back_and_counted(world: World) -> None:
    replica = world.replica()
    secret = world.server.get_json(SECRETS, *SECRET)
    half = {**secret["data"], "tls.key": secret["data"]["tls.key"][:40]}
    world.server.put(SECRETS, *SECRET, {**secret, "data": half})
    first = replica.served
    replica.check(NOW)
    assert replica.served == first
    assert world.server.get_json(SECRETS, *SECRET)["data"] == secret["data"]
    assert replica.sample("muster_webhook_cert_reload_failures_total") == 1


def test_everything_lost_is_made_anew_without_help(world: World) -> None:
    world.replica().check(NOW)
    del world.server.objects["secrets", *SECRET]
    for resource in KINDS:
        world.server.put(resource, "", NAME, configuration("pods.muster.dev"))
    fresh = world.replica()
    fresh.check(NOW)
    assert world.bundles() == {fresh.own.bundle}


def test_directory_of_one_process_follows_another_writer(tmp_path: Path) -> None:
    own = OwnCertificates(FileStore(tmp_path), HOSTS, None, WebhookMetrics())
    served = [own.first(NOW)]
    ensure(FileStore(tmp_path), HOSTS, NOW + 61 * DAY)
    own.check(NOW + 61 * DAY, served.append)
    assert len(served) == 2


def test_with_bundle_changes_nothing_else() -> None:
    stored = {"metadata": {"name": NAME}, **configuration("pods.muster.dev", "x.example.com")}
    changed = with_bundle(stored, b"CA")
    assert changed["webhooks"][0].pop("clientConfig")["caBundle"] == base64.b64encode(b"CA").decode()
    assert stored["webhooks"][0].pop("clientConfig")
    assert changed == stored


class Mounted:
    """A directory as a kubelet fills it: the files are links that are exchanged at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = make_authority(NOW)
        self.versions = 0
        self.fill(self.pair(NOW))
        self.metrics = WebhookMetrics()
        self.mounted = MountedCertificates(folder, HOSTS, self.metrics)
        self.served = self.mounted.first(NOW)

    def pair(self, now: float, hosts: tuple[str, ...] = HOSTS) -> KeyPair:
        return issue_serving(self.authority, hosts, now)

    def fill(self, pair: KeyPair) -> None:
        self.versions += 1
        inside = self.folder / f"..{self.versions}"
        inside.mkdir()
        (inside / "tls.crt").write_bytes(pair.certificate)
        (inside / "tls.key").write_bytes(pair.key)
        link = self.folder / "..new"
        link.symlink_to(inside.name)
        link.replace(self.folder / "..data")
        for name in ("tls.crt", "tls.key"):
            if not (self.folder / name).exists():
                (self.folder / name).symlink_to(f"..data/{name}")

    def use(self, pair: KeyPair) -> None:
        self.served = pair

    def check(self, now: float) -> None:
        self.mounted.check(now, self.use)


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path)


def test_mounted_pair_is_served_when_it_changes(mounted: Mounted) -> None:
    wanted = mounted.pair(NOW + DAY)
    mounted.fill(wanted)
    mounted.check(NOW + DAY)
    mounted.check(NOW + DAY)
    assert mounted.served == wanted
    name = "muster_webhook_cert_expiry_timestamp_seconds"
    assert mounted.metrics.registry.get_sample_value(name) == NOW + 91 * DAY


def test_bad_mounted_pairs_are_reported_once_and_keep_the_last_good_one(mounted: Mounted) -> None:
    first = mounted.served
    other = mounted.pair(NOW)
    later = NOW + DAY
    bad = [
        (KeyPair(b"", b""), "is not a PEM certificate"),
        (KeyPair(other.certificate, other.key[:50]), "is not a PEM private key"),
        (KeyPair(other.certificate, first.key), "do not belong together"),
        (mounted.pair(NOW - 91 * DAY), "has ended or is not valid yet; the last one stays in use"),
        (mounted.pair(NOW + 90 * DAY), "has ended or is not valid yet"),
        (mounted.pair(NOW, ("elsewhere",)), "is not for hook.ns.svc; the last one stays in use"),
    ]
    for pair, words in bad:
        mounted.fill(pair)
        with pytest.raises(CertificateError, match=words):
            mounted.check(later)
        mounted.check(later)
        assert mounted.served == first
    mounted.fill(other)
    mounted.check(later)
    assert mounted.served == other


def test_when_the_last_good_pair_has_ended_another_one_is_taken_whatever_it_is(mounted: Mounted) -> None:
    elsewhere = mounted.pair(NOW + 80 * DAY, ("elsewhere",))
    mounted.fill(elsewhere)
    with pytest.raises(CertificateError):
        mounted.check(NOW + 80 * DAY)
    mounted.check(NOW + 90 * DAY)
    assert mounted.served == elsewhere


def test_missing_files_are_named(mounted: Mounted, tmp_path: Path) -> None:
    first = mounted.served
    (tmp_path / f"..{mounted.versions}" / "tls.key").unlink()
    with pytest.raises(CertificateError, match=r"tls.key: No such file or directory"):
        mounted.check(NOW)
    assert mounted.served == first
    with pytest.raises(CertificateError, match=r"tls.crt: No such file or directory"):
        MountedCertificates(tmp_path / "nowhere", HOSTS, WebhookMetrics()).first(NOW)
