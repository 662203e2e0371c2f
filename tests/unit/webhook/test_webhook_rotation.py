"""Certificates in use and CA registered follow what is on disk, and failures are made good."""

from __future__ import annotations

from pathlib import Path

import pytest

from webhook.cert_store import FileStore
from webhook.certs import CertificateError, expiry
from webhook.metrics import Metrics
from webhook.rotation import Rotation

NOW = 1_800_000_000.0
DAY = 86400.0


class World:
    """A store, a server that can refuse a pair, and an API server that can be away."""

    def __init__(self, folder: Path) -> None:
        self.store = FileStore(folder, ("localhost",))
        first, _ = self.store.ensure(NOW)
        self.first = first
        self.loadable = True
        self.reachable = True
        self.reloads = 0
        self.registered: list[bytes] = []
        self.metrics = Metrics()
        self.rotation = Rotation(self.store, first.serving, self.reload, self.register, self.metrics)

    def reload(self) -> bool:
        self.reloads += self.loadable
        return self.loadable

    def register(self, authority: bytes) -> None:
        if not self.reachable:
            raise ConnectionError
        self.registered.append(authority)

    def authority(self) -> bytes:
        return (self.store.certificate.parent / "ca.crt").read_bytes()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_first_check_registers_and_the_next_has_nothing_to_do(world: World) -> None:
    for _ in range(3):
        world.rotation.check(NOW)
    assert world.registered == [world.first.authority.certificate]
    assert world.reloads == 0


def test_renewed_pair_is_served_and_measured(world: World) -> None:
    world.rotation.check(NOW)
    world.rotation.check(NOW + 61 * DAY)
    assert world.reloads == 1
    assert len(world.registered) == 1
    end = expiry(world.store.certificate.read_bytes())
    name = "muster_webhook_cert_expiry_timestamp_seconds"
    assert world.metrics.registry.get_sample_value(name) == end


def test_two_rotations_follow_each_other(world: World) -> None:
    for days in (0, 61, 122):
        world.rotation.check(NOW + days * DAY)
    assert world.reloads == 2


def test_pair_that_was_not_taken_is_tried_again(world: World) -> None:
    world.rotation.check(NOW)
    world.loadable = False
    with pytest.raises(CertificateError, match=r"tls.crt: the new pair could not be loaded"):
        world.rotation.check(NOW + 61 * DAY)
    world.loadable = True
    world.rotation.check(NOW + 61 * DAY)
    assert world.reloads == 1


def test_authority_that_could_not_be_registered_is_tried_again(world: World) -> None:
    world.rotation.check(NOW)
    world.reachable = False
    with pytest.raises(ConnectionError):
        world.rotation.check(NOW + 3000 * DAY)
    world.reachable = True
    world.rotation.check(NOW + 3000 * DAY)
    assert world.registered == [world.first.authority.certificate, world.authority()]
    assert world.reloads == 1


def test_pair_that_another_process_wrote_is_served(world: World) -> None:
    world.rotation.check(NOW)
    FileStore(world.store.certificate.parent, ("localhost",)).ensure(NOW + 61 * DAY)
    world.rotation.check(NOW + 61 * DAY)
    assert world.reloads == 1
