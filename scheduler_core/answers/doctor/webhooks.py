"""Compares the registered webhooks with those that Muster defines, and checks the certificates they trust."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scheduler_core.answers.doctor.findings import HealthFinding
from scheduler_core.certificates import (
    CertificateError,
    expiry,
    hosts_of,
    is_signed_by,
    is_valid,
    split_bundle,
)
from scheduler_core.model.admission_webhooks import DOMAIN

# The fields of an entry that decide which requests are sent, and what happens without an answer.
_COMPARED: Final = ("rules", "failurePolicy", "matchConditions", "objectSelector", "sideEffects")
# A certificate with less than this left should have been renewed long ago.
RENEWED_DAYS: Final = 14
_DAY: Final = 86_400.0
_REGISTER: Final = "the webhook registers itself (--register), or `helm upgrade` writes the configuration"
_BUNDLE: Final = "the webhook publishes its CA when it is at work, cert-manager if it makes the certificates"

Configuration = Mapping[str, Any]


def check_registration(stored: Configuration | None, wanted: Configuration) -> list[HealthFinding]:
    """Webhooks that are not registered, or not as Muster defines them. None: there is no such object."""
    subject = f"{wanted['kind']} {wanted['metadata']['name']}"
    if stored is None:
        problem = f"does not exist: {len(wanted['webhooks'])} webhooks are not registered"
        return [HealthFinding("error", subject, problem, _REGISTER)]
    entries = {entry.get("name"): entry for entry in stored.get("webhooks") or ()}
    found = []
    for entry in wanted["webhooks"]:
        known = entries.get(entry["name"])
        if known is None:
            found.append(
                HealthFinding("error", subject, f"webhook {entry['name']} is not registered", _REGISTER)
            )
            continue
        for field in _COMPARED:
            if field in entry and not covers(known.get(field), entry[field]):
                found.append(
                    HealthFinding("warning", subject, _differs(entry["name"], field, known, entry), _REGISTER)
                )
    return found


def _differs(name: str, field: str, known: Configuration, wanted: Configuration) -> str:
    if isinstance(wanted[field], str):
        return f"webhook {name}: {field}={known.get(field)} instead of {wanted[field]}"
    return f"webhook {name}: {field} differ from those of this version"


def covers(stored: Any, wanted: Any) -> bool:
    """Whether a stored value has everything that is wanted; servers add default values."""
    if isinstance(wanted, Mapping):
        return isinstance(stored, Mapping) and all(
            covers(stored.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(wanted)
            and all(covers(mine, theirs) for mine, theirs in zip(stored, wanted, strict=True))
        )
    return bool(stored == wanted)


def our_entries(stored: Configuration) -> Iterator[Configuration]:
    """The webhooks of Muster in a configuration."""
    return (entry for entry in stored.get("webhooks") or () if str(entry.get("name", "")).endswith(DOMAIN))


def check_bundles(stored: Configuration, now: float) -> list[HealthFinding]:
    """Webhooks whose CA bundle is missing, cannot be read, or has expired."""
    subject = f"{stored.get('kind', '')} {(stored.get('metadata') or {}).get('name', '')}".strip()
    found = []
    for entry in our_entries(stored):
        problem = _bundle_problem(bundle_of(entry), now)
        if problem:
            found.append(
                HealthFinding("error", subject, f"webhook {entry['name']}: caBundle {problem}", _BUNDLE)
            )
    return found


def bundle_of(entry: Configuration) -> bytes:
    """The CA bundle of a webhook as PEM; empty if it is missing or not base64."""
    text = (entry.get("clientConfig") or {}).get("caBundle") or ""
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _bundle_problem(bundle: bytes, now: float) -> str:
    if not bundle:
        return "is missing or not base64"
    authorities = split_bundle(bundle)
    if not authorities:
        return "has no certificate that can be read"
    if not any(is_valid(pem, now) for pem in authorities):
        return f"has no certificate that is valid now ({len(authorities)} in it)"
    return ""


def check_serving(
    certificate: bytes, bundles: Sequence[bytes], host: str, subject: str, now: float
) -> list[HealthFinding]:
    """A certificate that API servers would refuse: not signed by the CAs, for another host, or expired.

    `bundles` are the CA bundles of all webhooks.
    """
    try:
        days = (expiry(certificate, "tls.crt") - now) / _DAY
    except CertificateError as error:
        return [HealthFinding("error", subject, str(error), "delete its data: the webhook fills it again")]
    found = []
    if days <= 0:
        found.append(HealthFinding("error", subject, f"tls.crt expired {-days:.0f} days ago"))
    elif days < RENEWED_DAYS:
        problem = f"tls.crt expires in {days:.0f} days"
        found.append(
            HealthFinding("warning", subject, problem, "look at the log of the webhook: it renews it")
        )
    if host not in hosts_of(certificate):
        names = ", ".join(hosts_of(certificate)) or "no host"
        found.append(HealthFinding("error", subject, f"tls.crt is for {names}, but API servers call {host}"))
    trusted = [any(is_signed_by(certificate, pem) for pem in split_bundle(bundle)) for bundle in bundles]
    if not all(trusted):
        problem = f"{trusted.count(False)} of {len(trusted)} webhooks do not trust tls.crt by their caBundle"
        found.append(HealthFinding("error", subject, problem, _BUNDLE))
    return found


def days_left(certificate: bytes, now: float) -> int | None:
    """Whole days until a certificate expires; None if it cannot be read."""
    try:
        return int((expiry(certificate) - now) / _DAY)
    except CertificateError:
        return None
