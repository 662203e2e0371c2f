"""The steps in which certificates are exchanged, by the clock alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.certificates import (
    KeyPair,
    Lifetimes,
    expiry,
    is_signed_by,
    is_valid,
    issue_serving,
    make_authority,
)
from tests.support.searches import cases
from webhook.certs.plan import NO_MATERIAL, SETTLE_SECONDS, Material, renewed

NOW = 1_800_000_000.0
DAY = 86400.0
HOSTS = ("localhost", "hook.ns.svc")
SHORT = Lifetimes(authority=timedelta(days=360), serving=timedelta(days=90))
AUTHORITY_DUE = 360 * DAY * 2 / 3


def yes(bundle: bytes) -> bool:
    return True


def no(bundle: bytes) -> bool:
    return False


def step(material: Material, now: float, published: Callable[[bytes], bool] = yes) -> Material:
    return renewed(material, HOSTS, now, published, SHORT)


def aged(now: float) -> Material:
    """Material whose CA is of NOW and whose serving pair was kept good until `now`."""
    material = step(NO_MATERIAL, NOW)
    at = NOW
    while at < now:
        at = min(at + 30 * DAY, now)
        material = step(material, at, no)
    return material


def verifies(bundle: tuple[bytes, ...], served: KeyPair, now: float) -> bool:
    """What an API server that trusts this bundle says of a server with this pair."""
    good = [pem for pem in bundle if is_valid(pem, now) and is_signed_by(served.certificate, pem)]
    return bool(good) and is_valid(served.certificate, now)


def test_first_material_is_good_at_once_whoever_trusts_it() -> None:
    made = step(NO_MATERIAL, NOW, no)
    assert verifies(made.authorities, made.serving, NOW)
    assert step(made, NOW, no) == made


def test_authority_is_exchanged_in_three_steps() -> None:
    now = NOW + AUTHORITY_DUE + DAY
    old = aged(now)

    trusted = step(old, now)
    assert trusted.authorities[1:] == old.authorities
    assert trusted.serving == old.serving
    assert step(trusted, now + SETTLE_SECONDS - 1) == trusted

    served = step(trusted, now + SETTLE_SECONDS)
    assert served.authorities == trusted.authorities
    assert is_signed_by(served.serving.certificate, served.authorities[0])

    kept = now
    while len(served.authorities) == 2:
        kept += DAY
        served = step(served, kept)
    # A replica that never read the new pair is verified as long as its own is good.
    assert kept >= expiry(old.serving.certificate)
    assert kept - now <= 92 * DAY


def test_authority_stays_until_its_successor_can_be_published() -> None:
    now = NOW + AUTHORITY_DUE + DAY
    old = aged(now)
    assert step(old, now, no) == old


def test_new_authority_signs_only_after_it_is_published_unless_nothing_else_is_good() -> None:
    now = NOW + AUTHORITY_DUE + DAY
    old = aged(now)
    trusted = step(old, now)
    assert step(trusted, now + DAY, no) == trusted
    late = expiry(old.serving.certificate)
    forced = step(trusted, late, no)
    assert is_signed_by(forced.serving.certificate, forced.authorities[0])


DAMAGED = [
    ("no CA", lambda m: Material((), m.authority_key, m.serving)),
    ("no CA key", lambda m: Material(m.authorities, b"", m.serving)),
    ("key of another CA", lambda m: Material(m.authorities, make_authority(NOW).key, m.serving)),
    ("no serving key", lambda m: Material(m.authorities, m.authority_key, KeyPair(m.serving[0], b""))),
    ("half a certificate", lambda m: Material(m.authorities, m.authority_key, KeyPair(b"--", m.serving[1]))),
    (
        "serving pair of another CA",
        lambda m: Material(m.authorities, m.authority_key, issue_serving(make_authority(NOW), HOSTS, NOW)),
    ),
]


@pytest.mark.parametrize("damage", [d[1] for d in DAMAGED], ids=[d[0] for d in DAMAGED])
def test_a_damaged_certificate_is_replaced_at_once(damage: Callable[[Material], Material]) -> None:
    made = step(damage(step(NO_MATERIAL, NOW)), NOW, no)
    assert made.is_usable
    assert verifies(made.authorities, made.serving, NOW)


@pytest.mark.parametrize("skew", [-DAY, -600.0, 600.0, DAY])
def test_replicas_whose_clocks_differ_agree_within_a_few_steps(skew: float) -> None:
    material = step(NO_MATERIAL, NOW)
    history = [material]
    for tick in range(20):
        material = step(material, NOW + tick * 30.0)
        material = step(material, NOW + skew + tick * 30.0)
        history.append(material)
    assert history[-1] == history[10]
    assert verifies(material.authorities, material.serving, NOW + 600.0)


@settings(max_examples=cases(40), deadline=None)
@given(moves=st.lists(st.tuples(st.floats(0.02, 24 * 40), st.booleans()), min_size=5, max_size=40))
def test_replicas_that_are_behind_still_trust_the_serving_certificate(
    moves: list[tuple[float, bool]],
) -> None:
    """API servers trust what they read last; servers may serve what was current up to three checks ago."""
    now = NOW
    history = [step(NO_MATERIAL, now)]
    trusted = history[0]
    for hours, reads in moves:
        now += hours * 3600
        before = history[-1]
        after = step(before, now, lambda bundle, known=trusted: bundle == known.bundle)
        history.append(after)
        trusted = after if reads else trusted
        for served in history[-4:]:
            # Not beyond the end of the CA itself, which comes where nobody reads a new one for months.
            if verifies(served.authorities, served.serving, now):
                assert verifies(after.authorities, served.serving, now)
        if verifies(trusted.authorities, before.serving, now):
            assert verifies(trusted.authorities, after.serving, now)
