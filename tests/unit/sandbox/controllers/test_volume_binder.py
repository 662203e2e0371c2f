"""The choice of a volume for a claim."""

from __future__ import annotations

from sandbox.controllers.volume_binder import best_volume
from tests.support.storage_builders import VolumeBuilder, make_claim, make_volume

CLAIM = make_claim("a/c").storage_class("local").dict()


def volume(name: str, capacity: str) -> VolumeBuilder:
    return make_volume(name).storage_class("local").capacity(capacity)


def chosen(*volumes: VolumeBuilder) -> str | None:
    found = best_volume(CLAIM, [item.dict() for item in volumes])
    return found["metadata"]["name"] if found else None


def test_the_smallest_that_is_large_enough() -> None:
    assert chosen(volume("a", "9Gi"), volume("b", "6Gi"), volume("c", "4Gi")) == "b"


def test_one_that_is_reserved_for_the_claim_goes_before_smaller_ones() -> None:
    """A scheduler has chosen it for a node; another volume might not be reachable from there."""
    assert chosen(volume("small", "6Gi"), volume("mine", "9Gi").claimed("a/c", "uid-a/c")) == "mine"


def test_a_volume_that_is_reserved_for_another_claim_is_not_taken() -> None:
    assert chosen(volume("theirs", "6Gi").claimed("a/other")) is None
