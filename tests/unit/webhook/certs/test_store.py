"""Certificates as they are kept: by one process in a directory, by many in a Secret, and never half."""

from __future__ import annotations

import base64
import ssl
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_core.certificates import CertificateError, expiry, is_signed_by, missing_hosts
from scheduler_core.kube.errors import Conflict
from scheduler_core.model.kinds import SECRETS
from tests.unit.webhook.stored_objects import StoredObjects
from webhook.certs.plan import SETTLE_SECONDS, Material
from webhook.certs.store import FILES, CertificateStore, FileStore, SecretStore, ensure

NOW = 1_800_000_000.0
DAY = 86400.0
HOSTS = ("localhost", "127.0.0.1", "muster-webhook.muster-system.svc")
NAME = ("muster-system", "certificates")


def is_good(material: Material, hosts: tuple[str, ...] = HOSTS) -> bool:
    certificate = material.serving.certificate
    signed = any(is_signed_by(certificate, authority) for authority in material.authorities)
    return material.is_usable and signed and not missing_hosts(certificate, hosts)


@pytest.fixture(params=["directory", "secret"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CertificateStore:
    if request.param == "directory":
        return FileStore(tmp_path / "new" / "folder")
    return SecretStore(StoredObjects().client, *NAME)


def test_certificates_are_made_once(store: CertificateStore) -> None:
    first = ensure(store, HOSTS, NOW)
    assert is_good(first)
    assert ensure(store, HOSTS, NOW + DAY) == first == store.read()[0]


def test_a_secret_without_data_is_filled_and_its_other_fields_stay() -> None:
    objects = StoredObjects()
    objects.put(SECRETS, *NAME, {"metadata": {"labels": {"team": "ours"}}, "type": "Opaque"})
    store = SecretStore(objects.client, *NAME)
    assert store.read()[0] == Material()
    made = ensure(store, HOSTS, NOW)
    material, secret = store.read()
    assert material == made
    assert secret is not None
    assert (secret["type"], secret["metadata"]["labels"]) == ("Opaque", {"team": "ours"})


def test_other_entries_of_a_secret_are_kept() -> None:
    objects = StoredObjects()
    objects.put(SECRETS, *NAME, {"data": {"ours": "eA=="}})
    store = SecretStore(objects.client, *NAME)
    ensure(store, HOSTS, NOW)
    secret = store.read()[1]
    assert secret is not None
    assert secret["data"]["ours"] == "eA=="
    assert set(FILES) < set(secret["data"])


def test_serving_pair_is_renewed_and_the_authority_kept(store: CertificateStore) -> None:
    first = ensure(store, HOSTS, NOW)
    second = ensure(store, HOSTS, NOW + 61 * DAY)
    assert second.authorities == first.authorities
    assert expiry(second.serving.certificate) == NOW + 151 * DAY
    assert is_good(second)


def test_other_hosts_are_added(store: CertificateStore) -> None:
    ensure(store, HOSTS, NOW)
    both = ensure(store, ("example.com", "localhost"), NOW)
    assert is_good(both, (*HOSTS, "example.com"))
    assert ensure(store, HOSTS, NOW) == both


def test_a_damaged_secret_is_restored_from_memory(store: CertificateStore) -> None:
    first = ensure(store, HOSTS, NOW)
    store.write(Material(first.authorities, b"half", first.serving), store.read()[1])
    counted: list[bool] = []
    assert ensure(store, HOSTS, NOW, last=first, damaged=lambda: counted.append(True)) == first
    assert store.read()[0] == first
    assert counted == [True]


def test_a_removed_ca_is_replaced_and_the_one_in_use_stays_trusted(store: CertificateStore) -> None:
    first = ensure(store, HOSTS, NOW)
    store.write(Material(), store.read()[1])
    counted: list[bool] = []
    second = ensure(store, HOSTS, NOW, last=first, damaged=lambda: counted.append(True))
    assert second.authorities[1:] == first.authorities
    assert second.serving == first.serving
    third = ensure(store, HOSTS, NOW + SETTLE_SECONDS)
    assert is_signed_by(third.serving.certificate, second.authorities[0])
    assert counted == []


def damage_file(folder: Path, name: str, change: Callable[[bytes], bytes | None]) -> None:
    path = folder / name
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)


DAMAGES: list[tuple[str, Callable[[bytes], bytes | None]]] = [
    ("missing", lambda content: None),
    ("empty", lambda content: b""),
    ("half", lambda content: content[: len(content) // 2]),
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", [d[1] for d in DAMAGES], ids=[d[0] for d in DAMAGES])
def test_damaged_files_are_replaced(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes | None]
) -> None:
    store = FileStore(tmp_path)
    ensure(store, HOSTS, NOW)
    damage_file(tmp_path, name, change)
    made = ensure(store, HOSTS, NOW)
    assert is_good(made)
    assert store.read()[0] == made


@pytest.mark.parametrize("value", ["", "%%%", "bm9uc2Vuc2U=", 7])
@pytest.mark.parametrize("name", FILES)
def test_damaged_secret_is_replaced(name: str, value: object) -> None:
    server = StoredObjects()
    store = SecretStore(server.client, *NAME)
    ensure(store, HOSTS, NOW)
    secret = server.get_json(SECRETS, *NAME)
    server.put(SECRETS, *NAME, {**secret, "data": {**secret["data"], name: value}})
    made = ensure(store, HOSTS, NOW)
    assert is_good(made)
    assert store.read()[0] == made


def test_files_are_what_openssl_takes_and_keys_are_their_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    ensure(FileStore(folder), HOSTS, NOW)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "tls.crt", folder / "tls.key")
    assert stat.S_IMODE((folder / "tls.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "ca.key").stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match=r"file/certs: Not a directory"):
        ensure(FileStore(tmp_path / "file" / "certs"), HOSTS, NOW)


def test_secret_that_the_chart_made_is_filled_and_keeps_the_rest() -> None:
    server = StoredObjects()
    extra = base64.b64encode(b"x").decode()
    labels = {"helm.sh/chart": "muster"}
    server.put(SECRETS, *NAME, {"metadata": {"labels": labels}, "type": "Opaque", "data": {"extra": extra}})
    made = ensure(SecretStore(server.client, *NAME), HOSTS, NOW)
    secret = server.get_json(SECRETS, *NAME)
    assert is_good(made)
    assert server.writes == ["Secret"]
    assert (secret["metadata"]["labels"], secret["data"]["extra"]) == (labels, extra)


@pytest.mark.parametrize("there", [False, True], ids=["created", "replaced"])
def test_of_many_replicas_one_renews_and_all_have_its_certificates(there: bool) -> None:
    server = StoredObjects()
    if there:
        ensure(SecretStore(server.client, *NAME), HOSTS, NOW - 61 * DAY)
        server.writes.clear()
    barrier = threading.Barrier(8)
    server.before_write = lambda: barrier.wait(60) if not server.writes else None
    found: list[Material] = []

    def replica() -> None:
        found.append(ensure(SecretStore(server.client, *NAME), HOSTS, NOW))

    threads = [threading.Thread(target=replica) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert server.writes == ["Secret"]
    assert len(found) == 8
    assert set(found) == {SecretStore(server.client, *NAME).read()[0]}


def test_races_that_are_always_lost_end() -> None:
    server = StoredObjects()
    server.put(SECRETS, *NAME, {"data": {}})
    server.before_write = lambda: server.put(SECRETS, *NAME, {"data": {}})
    with pytest.raises(Conflict):
        ensure(SecretStore(server.client, *NAME), HOSTS, NOW)
