"""What is to be done about certificates at a moment: one pure step from what is stored to what should be.

A CA is exchanged in three steps that overlap, so that whoever verifies and whoever serves may each be late:

1. a new CA is made and trusted beside the old one; the old serving certificate stays;
2. once both are in the webhook configurations, and API servers had time to notice, a serving certificate
   is issued by the new one;
3. the old CA is trusted until the last certificate that it can have signed has ended: a replica that never
   learned of the new one is verified as long as its own certificate is good.

All of it follows from the dates in the certificates; nothing else has to be remembered.
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

# API servers read webhook configurations by watch; a new CA is believed to be known to all after this.
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
        """What API servers shall trust."""
        return b"".join(self.authorities)

    @property
    def authority(self) -> KeyPair:
        """The newest CA, which signs."""
        return KeyPair(self.authorities[0] if self.authorities else b"", self.authority_key)

    @property
    def is_usable(self) -> bool:
        """Whether both pairs are there and whole; their dates are not looked at."""
        return is_whole(self.authority) and is_whole(self.serving)

    @property
    def damaged(self) -> bool:
        """Whether there is something that cannot be used: half written, mixed up or edited."""
        return any(pair != NOTHING and not is_whole(pair) for pair in (self.authority, self.serving))


NO_MATERIAL: Final = Material()


def read_material(bundle: bytes, authority_key: bytes, certificate: bytes, key: bytes) -> Material:
    """Material as it was stored; what cannot be read of the bundle is left out."""
    return Material(split_bundle(bundle), authority_key, KeyPair(certificate, key))


def renewed(
    material: Material,
    hosts: Iterable[str],
    now: float,
    published: Callable[[bytes], bool],
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
) -> Material:
    """The material that is good at `now`; the same where nothing is to be done.

    `published(bundle)` tells whether all webhook configurations trust exactly this bundle.
    """
    hosts = tuple(hosts)
    material = _with_authority(material, now, published, lifetimes)
    if _needs_serving(material, hosts, now, published):
        # What others asked for stays: replicas of two versions would undo each other's work for ever.
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
    """An old CA cannot have signed after the next one was made: its key was gone."""
    kept = [material.authorities[0]]
    for newer, pem in zip(material.authorities, material.authorities[1:], strict=False):
        last_end = made(newer) + (lifetimes.serving + BACKDATE).total_seconds()
        signed_ours = is_signed_by(material.serving.certificate, pem)
        if is_valid(pem, now) and (signed_ours or now < last_end):
            kept.append(pem)
    return tuple(kept)
