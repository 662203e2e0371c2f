"""Plans the renewal of certificates: from the stored material to the one that is valid at a moment. Pure.

A CA is replaced in three overlapping steps, so that API servers and replicas may each be late:

1. A new CA is made and trusted beside the old one; the old serving certificate stays.
2. Once both are in the webhook configurations, and API servers had time to see them, the new CA issues a
   serving certificate.
3. The old CA is trusted until the last certificate that it can have signed has expired: a replica that has
   not seen the new CA is trusted as long as its certificate is valid.

All steps follow from the dates in the certificates; there is no other state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from scheduler_core.certificates import (
    BACKDATE,
    DEFAULT_LIFETIMES,
    KeyPair,
    Lifetimes,
    hosts_of,
    is_signed_by,
    is_valid,
    is_whole,
    issue_serving,
    made,
    make_authority,
    missing_hosts,
    rotation_due,
    split_bundle,
)

# API servers watch webhook configurations; after this time all of them know a new CA.
SETTLE_SECONDS: Final = 60.0
NOTHING: Final = KeyPair(b"", b"")


@dataclass(frozen=True)
class Material:
    """Trusted CAs as PEM, the newest first; the key of the newest; the serving pair."""

    authorities: tuple[bytes, ...] = ()
    authority_key: bytes = b""
    serving: KeyPair = NOTHING

    @property
    def bundle(self) -> bytes:
        """The CA bundle for API servers."""
        return b"".join(self.authorities)

    @property
    def authority(self) -> KeyPair:
        """The newest CA, which signs certificates."""
        return KeyPair(self.authorities[0] if self.authorities else b"", self.authority_key)

    @property
    def is_usable(self) -> bool:
        """Whether both pairs are complete and match; their dates are not checked."""
        return is_whole(self.authority) and is_whole(self.serving)

    @property
    def damaged(self) -> bool:
        """Whether a pair cannot be used: partly written, mismatched or edited."""
        return any(pair != NOTHING and not is_whole(pair) for pair in (self.authority, self.serving))


NO_MATERIAL: Final = Material()


def read_material(bundle: bytes, authority_key: bytes, certificate: bytes, key: bytes) -> Material:
    """Parse stored material; invalid parts of the bundle are left out."""
    return Material(split_bundle(bundle), authority_key, KeyPair(certificate, key))


def renewed(
    material: Material,
    hosts: Iterable[str],
    now: float,
    published: Callable[[bytes], bool],
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
) -> Material:
    """The material that is valid at `now`; unchanged if nothing is due.

    `published(bundle)` tells whether all webhook configurations trust exactly this bundle.
    """
    hosts = tuple(hosts)
    material = _with_authority(material, now, published, lifetimes)
    if _needs_serving(material, hosts, now, published):
        # Keeps the hosts of other replicas: two versions would otherwise undo each other's work.
        current = material.serving.certificate
        kept = hosts_of(current) if _is_ours(material) else ()
        names = tuple(dict.fromkeys((*hosts, *kept))) if missing_hosts(current, hosts) else hosts
        serving = issue_serving(material.authority, names, now, lifetimes)
        material = replace(material, serving=serving)
    return replace(material, authorities=_still_trusted(material, now, lifetimes))


def _with_authority(
    material: Material, now: float, published: Callable[[bytes], bool], lifetimes: Lifetimes
) -> Material:
    newest = material.authority
    usable = is_whole(newest) and is_valid(newest.certificate, now)
    if usable and not (rotation_due(newest.certificate, now) and published(material.bundle)):
        return material
    pair = make_authority(now, lifetimes)
    return replace(material, authorities=(pair.certificate, *material.authorities), authority_key=pair.key)


def _needs_serving(
    material: Material, hosts: tuple[str, ...], now: float, published: Callable[[bytes], bool]
) -> bool:
    serving, newest = material.serving, material.authorities[0]
    usable = is_whole(serving) and is_valid(serving.certificate, now) and _is_ours(material)
    if not usable or missing_hosts(serving.certificate, hosts):
        return True
    if is_signed_by(serving.certificate, newest):
        return rotation_due(serving.certificate, now)
    return now >= made(newest) + SETTLE_SECONDS and published(material.bundle)


def _is_ours(material: Material) -> bool:
    return any(is_signed_by(material.serving.certificate, pem) for pem in material.authorities)


def _still_trusted(material: Material, now: float, lifetimes: Lifetimes) -> tuple[bytes, ...]:
    """The CAs that may have signed a valid certificate; the next CA replaces the key of the last one."""
    kept = [material.authorities[0]]
    for newer, pem in zip(material.authorities, material.authorities[1:], strict=False):
        last_end = made(newer) + (lifetimes.serving + BACKDATE).total_seconds()
        signed_ours = is_signed_by(material.serving.certificate, pem)
        if is_valid(pem, now) and (signed_ours or now < last_end):
            kept.append(pem)
    return tuple(kept)
