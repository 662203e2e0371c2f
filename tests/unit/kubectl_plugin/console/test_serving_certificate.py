"""The console's certificate is renewed while it serves, as cert-manager and the kubelet do it."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from kubectl_plugin.console.web.cluster_console import ConsoleOptions, certificate_of
from kubectl_plugin.console.web.server import ConsoleServer
from scheduler_core.certificates import CertificateError


def write(folder: Path, authority: trustme.CA) -> str:
    """Replace the files, and give the new certificate."""
    pair = authority.issue_cert("127.0.0.1")
    pair.private_key_pem.write_to_path(folder / "tls.key")
    pair.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    return pair.cert_chain_pems[0].bytes().decode()


def console(folder: Path) -> ConsoleServer:
    options = ConsoleOptions(certificate=str(folder / "tls.crt"), key=str(folder / "tls.key"))
    return ConsoleServer(("127.0.0.1", 0), certificate_of(options))


class Serving:
    """A console on a real socket, whose files are in a folder."""

    def __init__(self, folder: Path, authority: trustme.CA) -> None:
        self.first = write(folder, authority)
        self.server = console(folder)
        self.port = self.server.listen()
        self.server.serve(None)

    def shown(self) -> str:
        """The certificate that a new connection gets."""
        return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=20)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def serving(tmp_path: Path, authority: trustme.CA) -> Iterator[Serving]:
    found = Serving(tmp_path, authority)
    yield found
    found.server.stop()


def test_a_renewed_certificate_is_served(serving: Serving, tmp_path: Path, authority: trustme.CA) -> None:
    assert serving.shown() == serving.first
    second = write(tmp_path, authority)
    serving.server.renew()
    assert serving.shown() == second != serving.first


def test_a_bad_certificate_changes_nothing(
    serving: Serving, tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    good = (tmp_path / "tls.key").read_bytes()
    (tmp_path / "tls.key").write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_pem.bytes())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            serving.server.renew()
    assert serving.shown() == serving.first
    assert ["serving certificate" in record.message for record in caplog.records] == [True]
    (tmp_path / "tls.key").write_bytes(good)
    second = write(tmp_path, authority)
    serving.server.renew()
    assert serving.shown() == second


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
def test_a_console_does_not_begin_without_its_certificate(
    tmp_path: Path, authority: trustme.CA, missing: str
) -> None:
    write(tmp_path, authority)
    (tmp_path / missing).unlink()
    with pytest.raises(CertificateError, match=rf"serving certificate: cannot be used: .*{missing}"):
        console(tmp_path)
