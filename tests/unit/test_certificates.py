"""Certificates: what is in them, and when they are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler_core.certificates import (
    CertificateError,
    KeyPair,
    Lifetimes,
    check_pair,
    expiry,
    is_signed_by,
    is_valid,
    issue_serving,
    made,
    make_authority,
    missing_hosts,
    read_certificate,
    rotation_due,
    split_bundle,
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


def test_certificate_is_for_hosts_and_signed_by_its_own_authority_only() -> None:
    authority = make_authority(NOW)
    pair = issue_serving(authority, (*HOSTS, "::1"), NOW)
    assert is_signed_by(pair.certificate, authority.certificate)
    assert not is_signed_by(pair.certificate, make_authority(NOW).certificate)
    assert not is_signed_by(b"nonsense", authority.certificate)
    assert missing_hosts(pair.certificate, (*HOSTS, "0:0::1")) == ()
    assert missing_hosts(pair.certificate, ("localhost", "other.svc", "10.0.0.1")) == (
        "other.svc",
        "10.0.0.1",
    )
    assert missing_hosts(b"nonsense", ("localhost",)) == ("localhost",)


def test_serving_certificate_ends_with_its_authority() -> None:
    lifetimes = Lifetimes(authority=timedelta(days=100), serving=timedelta(days=90))
    authority = make_authority(NOW, lifetimes)
    late = issue_serving(authority, HOSTS, NOW + 66 * DAY, lifetimes)
    assert expiry(late.certificate) == expiry(authority.certificate) == NOW + 100 * DAY


def test_bundle_is_split_and_what_cannot_be_read_left_out() -> None:
    one, two = (make_authority(NOW).certificate for _ in range(2))
    garbage = b"-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
    assert split_bundle(b"# comment\n" + one + garbage + two + one[: len(one) // 2]) == (one, two)
    assert split_bundle(b"") == ()


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_pairs_of_others_may_have_other_keys(kind: str) -> None:
    key = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(NOW, UTC))
        .not_valid_after(datetime.fromtimestamp(NOW + DAY, UTC))
        .sign(key, hashes.SHA256() if kind == "rsa" else None)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pair = KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)
    check_pair(pair, "mounted")
    assert is_valid(pair.certificate, NOW)
    assert not is_valid(pair.certificate, NOW + DAY)


@pytest.mark.parametrize(
    ("now", "valid"),
    [
        pytest.param(NOW - HOUR - 1, False, id="a second before its first"),
        pytest.param(NOW - HOUR, True, id="its first second"),
        pytest.param(NOW + 90 * DAY - 1, True, id="its last second"),
        pytest.param(NOW + 90 * DAY, False, id="its end"),
    ],
)
def test_a_certificate_is_valid_from_its_first_second_until_its_end(now: float, valid: bool) -> None:
    pair = issue_serving(make_authority(NOW), HOSTS, NOW)
    assert is_valid(pair.certificate, now) is valid
    assert not is_valid(b"no certificate", now)
    assert made(pair.certificate) == NOW
