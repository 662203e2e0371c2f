"""Certificates of Muster's servers: creation and validation of a CA and a serving certificate.

Pure: `now` is in seconds since the epoch, nothing but keys is random, and nothing is stored. Keys are ECDSA
on P-256. The CA is valid for 10 years, the serving certificate for 90 days but never longer than its CA. Each
is due for renewal after two thirds of its life. Both are valid from one hour before `now`, because clocks
differ.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler_core.errors import MusterError

BACKDATE: Final = timedelta(hours=1)
WEBHOOK_CA: Final = "muster-webhook-ca"
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\s*", re.S)


@dataclass(frozen=True)
class Lifetimes:
    """Lifetimes of certificates from their creation."""

    authority: timedelta = timedelta(days=3650)
    serving: timedelta = timedelta(days=90)


DEFAULT_LIFETIMES: Final = Lifetimes()


class CertificateError(MusterError):
    """A certificate or key that cannot be used: its source, and the problem."""

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        self.problem = problem
        super().__init__(source, problem)

    def __str__(self) -> str:
        return f"{self.source}: {self.problem}"


class KeyPair(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def make_authority(
    now: float, lifetimes: Lifetimes = DEFAULT_LIFETIMES, common_name: str = WEBHOOK_CA
) -> KeyPair:
    """A new self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(name, name, key.public_key(), now, _moment(now) + lifetimes.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(builder.sign(key, hashes.SHA256()), key)


def issue_serving(
    authority: KeyPair, hosts: Iterable[str], now: float, lifetimes: Lifetimes = DEFAULT_LIFETIMES
) -> KeyPair:
    """A serving certificate for DNS names and IP addresses. Raises CertificateError for a broken CA."""
    issuer = read_certificate(authority.certificate, "CA certificate")
    issuer_key = _read_key(authority.key, "CA key")
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("CA key", "is not an elliptic-curve key")
    hosts = list(hosts)
    end = min(_moment(now) + lifetimes.serving, issuer.not_valid_after_utc)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    return _pem(builder.sign(issuer_key, hashes.SHA256()), key)


def read_certificate(pem: bytes, source: str) -> x509.Certificate:
    """The first certificate of a PEM text. Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except (ValueError, x509.InvalidVersion) as error:
        raise CertificateError(source, f"is not a PEM certificate: {error}") from None


def check_pair(pair: KeyPair, source: str) -> None:
    """Raises CertificateError unless the key belongs to the certificate."""
    certificate, key = read_certificate(pair.certificate, source), _read_key(pair.key, source)
    if certificate.public_key() != key.public_key():
        raise CertificateError(source, "certificate and key do not belong together")


def expiry(pem: bytes, source: str = "certificate") -> float:
    """When a certificate ends, in seconds since the epoch. Raises CertificateError."""
    return read_certificate(pem, source).not_valid_after_utc.timestamp()


def rotation_due(pem: bytes, now: float) -> bool:
    """Whether two thirds of a certificate's life are over, or it cannot be read, or is not valid yet."""
    certificate = _readable(pem)
    if certificate is None:
        return True
    start = certificate.not_valid_before_utc.timestamp()
    end = certificate.not_valid_after_utc.timestamp()
    return not start <= now < start + (end - start) * 2 / 3


def split_bundle(pem: bytes) -> tuple[bytes, ...]:
    """The readable certificates of a PEM text, one PEM text each, in order."""
    return tuple(part.strip() + b"\n" for part in _PEM.findall(pem) if _readable(part) is not None)


def made(pem: bytes) -> float:
    """When a certificate of ours was created, in seconds since the epoch. Raises CertificateError."""
    return (read_certificate(pem, "certificate").not_valid_before_utc + BACKDATE).timestamp()


def is_valid(pem: bytes, now: float) -> bool:
    """Whether a certificate can be read and is valid at `now`."""
    certificate = _readable(pem)
    if certificate is None:
        return False
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start.timestamp() <= now < end.timestamp()


def is_whole(pair: KeyPair) -> bool:
    """Whether both parts can be read and match."""
    try:
        check_pair(pair, "pair")
    except CertificateError:
        return False
    return True


def is_signed_by(pem: bytes, authority: bytes) -> bool:
    """Whether this CA signed a certificate; both are PEM."""
    try:
        certificate = read_certificate(pem, "serving certificate")
        certificate.verify_directly_issued_by(read_certificate(authority, "CA certificate"))
    except (CertificateError, InvalidSignature, ValueError, TypeError):
        return False
    return True


def hosts_of(pem: bytes) -> tuple[str, ...]:
    """The DNS names and IP addresses of a certificate; none where it cannot be read."""
    try:
        extensions = read_certificate(pem, "serving certificate").extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (CertificateError, ValueError, x509.ExtensionNotFound):
        return ()
    return (
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    )


def missing_hosts(pem: bytes, hosts: Iterable[str]) -> tuple[str, ...]:
    """The hosts that a certificate does not cover."""
    named = set(hosts_of(pem))
    return tuple(host for host in hosts if str(_general_name(host).value) not in named)


def _readable(pem: bytes) -> x509.Certificate | None:
    try:
        return read_certificate(pem, "certificate")
    except CertificateError:
        return None


def _moment(now: float) -> datetime:
    return datetime.fromtimestamp(int(now), UTC)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: float,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now) - BACKDATE)
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _read_key(pem: bytes, source: str) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(source, f"is not a PEM private key: {error}") from None


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)
