"""TLS and proxies between the client and a scripted server."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler_core.kube.auth.credentials import CertificateFiles, StaticCredentials, WithCertificateFiles
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, KubeconfigError, Unreachable
from scheduler_core.kube.http.endpoint import ClientCertificate, Endpoint
from scheduler_core.kube.http.session import Limits, Session
from scheduler_core.model.kinds import PODS
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault

ANYBODY = StaticCredentials()


def client_for(server: FaultServer, pair: ClientCertificate | None = None, **endpoint: object) -> Client:
    target = Endpoint(server.url, **endpoint)  # type: ignore[arg-type]
    return Client(Session(target, StaticCredentials(pair=pair), limits=Limits(connect=1.0, read=1.0)))


@dataclass(frozen=True)
class Authority:
    """A certificate authority and the pairs it signed, PEM."""

    ca: str
    server: Path
    client: ClientCertificate


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tls"))


def make_authority(folder: Path, called: str = "test authority") -> Authority:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])
    ca = _certificate(name, name, ca_key, ca_key, authority=True)
    pairs = []
    for common_name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        pairs.append((_pem(_certificate(subject, name, key, ca_key)), _key_pem(key)))
    path = folder / "server.pem"
    path.write_bytes(pairs[0][1] + pairs[0][0])
    return Authority(_pem(ca).decode(), path, ClientCertificate(*pairs[1]))


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("kubernetes")]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.fixture
def tls_server(authority: Authority) -> Iterator[FaultServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server)
    context.load_verify_locations(cadata=authority.ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    with FaultServer(context) as running:
        running.put("pods", "a", "p")
        yield running


def test_a_server_is_trusted_by_its_authority_and_gets_our_certificate(
    tls_server: FaultServer, authority: Authority
) -> None:
    client = client_for(tls_server, authority.client, ca=authority.ca)
    for _ in range(3):
        assert b'"p"' in client.get(PODS, "a", "p")
    client.session.close()


def test_an_unknown_authority_is_named_as_the_cause(tls_server: FaultServer) -> None:
    client = client_for(tls_server)
    with pytest.raises(Unreachable, match="its certificate is not trusted: ") as caught:
        client.get(PODS, "a", "p")
    assert not caught.value.sent


def test_tls_server_name_and_insecure_are_honoured(tls_server: FaultServer, authority: Authority) -> None:
    by_name = client_for(tls_server, ca=authority.ca, tls_server_name="kubernetes")
    insecure = client_for(tls_server, insecure=True)
    wrong = client_for(tls_server, ca=authority.ca, tls_server_name="other")
    assert by_name.get(PODS, "a", "p") == insecure.get(PODS, "a", "p")
    with pytest.raises(Unreachable, match="Hostname mismatch"):
        wrong.get(PODS, "a", "p")
    for client in (by_name, insecure, wrong):
        client.session.close()


def test_plain_http_spoken_to_a_tls_server_is_told(tls_server: FaultServer) -> None:
    session = Session(Endpoint(f"http://127.0.0.1:{tls_server.port}"), ANYBODY, limits=Limits(read=1.0))
    with pytest.raises(Unreachable, match=r"connection (broke|reset)"):
        Client(session).get(PODS, "a", "p")


def test_a_key_that_does_not_fit_its_certificate_is_an_error_of_the_configuration(
    tls_server: FaultServer, authority: Authority
) -> None:
    other = _key_pem(ec.generate_private_key(ec.SECP256R1()))
    pair = ClientCertificate(authority.client.certificate, other)
    with pytest.raises(KubeconfigError, match="client certificate and key are not usable"):
        client_for(tls_server, pair, ca=authority.ca).get(PODS, "a", "p")


def test_a_client_certificate_that_was_replaced_in_its_files_is_used_from_then_on(
    authority: Authority, tmp_path: Path
) -> None:
    later = make_authority(tmp_path, "later authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server)
    context.load_verify_locations(cadata=authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    certificate.write_bytes(authority.client.certificate)
    key.write_bytes(authority.client.key)
    with FaultServer(context) as server:
        server.put("pods", "a", "p")
        files = CertificateFiles(certificate, key, "test")
        credentials = WithCertificateFiles(ANYBODY, files)
        target = Endpoint(server.url, ca=authority.ca)
        sessions = [Session(target, credentials, limits=Limits(connect=1.0, read=1.0)) for _ in range(2)]
        clients = [Client(session) for session in sessions]
        for client in clients:
            assert b'"p"' in client.get(PODS, "a", "p")
        # The server takes the new authority's certificates alone, and says 401 on connections of before.
        context.load_verify_locations(cadata=later.ca)
        server.fail(Fault("GET", status=401, times=1))
        certificate.write_bytes(later.client.certificate)
        with pytest.raises(ApiError, match="401"):
            # Half of the pair is there: the old one is kept.
            clients[0].get(PODS, "a", "p")
        assert credentials.certificate() == authority.client
        key.write_bytes(later.client.key)
        before = server.connections
        for client in clients:
            server.fail(Fault("GET", status=401, times=1))
            assert b'"p"' in client.get(PODS, "a", "p")
        assert credentials.certificate() == later.client
        assert server.connections == before + 2
        for session in sessions:
            session.close()


class ConnectProxy:
    """A proxy for exactly one tunnel: answers CONNECT with `status`, then carries bytes both ways."""

    def __init__(self, status: str) -> None:
        self._status = status
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://user:word@127.0.0.1:{self._listener.getsockname()[1]}"
        self.head = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        near, _ = self._listener.accept()
        with self._listener, near:
            while b"\r\n\r\n" not in self.head:
                self.head += near.recv(4096)
            near.sendall(f"HTTP/1.1 {self._status}\r\n\r\n".encode())
            if not self._status.startswith("200"):
                return
            host, _, port = self.head.split()[1].decode().partition(":")
            with socket.create_connection((host, int(port))) as far:
                back = threading.Thread(target=_carry, args=(far, near), daemon=True)
                back.start()
                _carry(near, far)
                back.join(2)

    def join(self) -> None:
        self._thread.join(3)
        assert not self._thread.is_alive()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_a_proxy_tunnels_tls(tls_server: FaultServer, authority: Authority) -> None:
    proxy = ConnectProxy("200 Connection established")
    client = client_for(tls_server, ca=authority.ca, proxy=proxy.url)
    assert b'"p"' in client.get(PODS, "a", "p")
    client.session.close()
    proxy.join()
    assert proxy.head.startswith(f"CONNECT 127.0.0.1:{tls_server.port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic dXNlcjp3b3Jk\r\n" in proxy.head


def test_a_proxy_that_refuses_is_told(tls_server: FaultServer, authority: Authority) -> None:
    proxy = ConnectProxy("407 Proxy Authentication Required")
    client = client_for(tls_server, ca=authority.ca, proxy=proxy.url)
    with pytest.raises(Unreachable, match="answered 407") as caught:
        client.get(PODS, "a", "p")
    proxy.join()
    assert not caught.value.sent
    assert "word" not in str(caught.value)


def test_one_handshake_serves_many_requests(tls_server: FaultServer, authority: Authority) -> None:
    client = client_for(tls_server, ca=authority.ca)
    for _ in range(20):
        client.get(PODS, "a", "p")
    client.session.close()
    assert tls_server.connections == 1
