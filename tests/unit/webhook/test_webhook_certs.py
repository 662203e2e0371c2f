"""Certificates: what is in them, when they are renewed, how they are kept."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from webhook.cert_store import FileStore
from webhook.certs import (
    CertificateError,
    KeyPair,
    check_pair,
    expiry,
    issue_serving,
    make_authority,
    read_certificate,
    rotation_due,
    serves,
)

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0
HOSTS = ("localhost", "127.0.0.1", "muster-webhook.muster-system.svc")


def test_authority_signs_certificates_for_ten_years_and_nothing_else() -> None:
    certificate = read_certificate(make_authority(NOW).certificate, "")
    assert certificate.not_valid_before_utc.timestamp() == NOW - HOUR
    assert certificate.not_valid_after_utc.timestamp() == NOW + 3650 * DAY
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.value.ca, constraints.value.path_length, constraints.critical) == (True, 0, True)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.digital_signature) == (True, False)


def test_serving_certificate_is_for_its_hosts_for_ninety_days() -> None:
    authority = make_authority(NOW)
    pair = issue_serving(authority, HOSTS, NOW)
    certificate = read_certificate(pair.certificate, "")

    certificate.verify_directly_issued_by(read_certificate(authority.certificate, ""))
    assert certificate.not_valid_before_utc.timestamp() == NOW - HOUR
    assert expiry(pair.certificate) == NOW + 90 * DAY
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "muster-webhook.muster-system.svc"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.SERVER_AUTH]
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)


LIFE = 90 * DAY + HOUR
DUE = [
    ("at birth", NOW, False),
    ("an hour before, for clocks that differ", NOW - HOUR, False),
    ("before it is valid", NOW - HOUR - 1, True),
    ("just before two thirds", NOW - HOUR + LIFE * 2 / 3 - 1, False),
    ("at two thirds", NOW - HOUR + LIFE * 2 / 3, True),
    ("after its end", NOW + 91 * DAY, True),
]


@pytest.mark.parametrize(("now", "due"), [d[1:] for d in DUE], ids=[d[0] for d in DUE])
def test_rotation_due(now: float, due: bool) -> None:
    assert rotation_due(issue_serving(make_authority(NOW), HOSTS, NOW).certificate, now) is due


def test_unreadable_certificate_is_due() -> None:
    assert rotation_due(b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n", NOW)


def test_pair_that_does_not_fit_is_refused() -> None:
    one, other = make_authority(NOW), make_authority(NOW)
    with pytest.raises(CertificateError, match="do not belong together"):
        check_pair(KeyPair(one.certificate, other.key), "x")
    with pytest.raises(CertificateError, match="is not a PEM private key"):
        check_pair(KeyPair(one.certificate, b"nonsense"), "x")


def test_serves_wants_the_same_authority_and_hosts() -> None:
    authority = make_authority(NOW)
    pair = issue_serving(authority, HOSTS, NOW)
    assert serves(pair, authority.certificate, HOSTS)
    assert serves(pair, authority.certificate, reversed(HOSTS))
    assert not serves(pair, authority.certificate, HOSTS[:2])
    assert not serves(pair, make_authority(NOW).certificate, HOSTS)
    assert not serves(KeyPair(pair.certificate, authority.key), authority.certificate, HOSTS)


def test_store_makes_a_pair_once_that_openssl_takes(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "new" / "folder", HOSTS)
    first, renewed = store.ensure(NOW)
    second, again = store.ensure(NOW + DAY)

    assert (renewed, again) == (True, False)
    assert first == second
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(store.certificate, store.key)
    assert stat.S_IMODE(store.key.stat().st_mode) == 0o600
    assert sorted(path.name for path in store.key.parent.iterdir()) == [
        "ca.crt",
        "ca.key",
        "tls.crt",
        "tls.key",
    ]


def test_store_renews_the_serving_pair_and_keeps_the_authority(tmp_path: Path) -> None:
    store = FileStore(tmp_path, HOSTS)
    first, _ = store.ensure(NOW)
    second, renewed = store.ensure(NOW + 61 * DAY)

    assert renewed
    assert second.authority == first.authority
    assert expiry(second.serving.certificate) == NOW + 151 * DAY


def test_store_renews_the_authority_when_it_is_due(tmp_path: Path) -> None:
    store = FileStore(tmp_path, HOSTS)
    first, _ = store.ensure(NOW)
    second, _ = store.ensure(NOW + 3000 * DAY)
    assert second.authority != first.authority
    assert serves(second.serving, second.authority.certificate, HOSTS)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("damage", ["missing", "empty", "half"])
def test_store_replaces_what_is_damaged(tmp_path: Path, name: str, damage: str) -> None:
    store = FileStore(tmp_path, HOSTS)
    store.ensure(NOW)
    path = tmp_path / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(b"" if damage == "empty" else content[: len(content) // 2])

    certificates, renewed = store.ensure(NOW)

    assert renewed
    assert serves(certificates.serving, certificates.authority.certificate, HOSTS)


def test_other_hosts_need_another_certificate(tmp_path: Path) -> None:
    FileStore(tmp_path, HOSTS).ensure(NOW)
    certificates, renewed = FileStore(tmp_path, ("example.com",)).ensure(NOW)
    assert renewed
    assert serves(certificates.serving, certificates.authority.certificate, ("example.com",))


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match=r"file/certs: Not a directory"):
        FileStore(tmp_path / "file" / "certs", HOSTS).ensure(NOW)
