"""A real control plane for tests: etcd and kube-apiserver on loopback, in a folder that goes away.

There is no controller-manager and no kubelet: service accounts are not made, pods stay as they are written,
and a namespace that is deleted never ends. Whoever needs more passes `companions`: context managers made
from the running server (a small kubelet, controllers), entered after it is ready and left before it stops.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.server import write_kubeconfig
from tests.tools.build import have

HOST = "127.0.0.1"
START_SECONDS = 90.0
STOP_SECONDS = 20.0

Companion = Callable[["ControlPlane"], AbstractContextManager[object]]


class ControlPlaneFailed(Exception):
    """A part of the control plane did not start; the message ends with the last lines of its log."""


class ControlPlane:
    """etcd and kube-apiserver as a context manager; attributes as in `tests.support.server.Server`."""

    def __init__(self, companions: Sequence[Companion] = (), extra_flags: Sequence[str] = ()) -> None:
        self._companions = companions
        self._extra_flags = extra_flags
        self._exits = ExitStack()
        self.token = secrets.token_urlsafe(24)
        self.url = ""
        self.folder = Path()
        self.kubeconfig = Path()
        self.ca_file = Path()

    def __enter__(self) -> Self:
        etcd, apiserver = have("etcd").path, have("kube-apiserver").path
        with self._exits:
            self.folder = Path(tempfile.mkdtemp(prefix="muster-control-plane-", dir=_memory()))
            self._exits.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.ca_file, self.kubeconfig = self.folder / "ca.crt", self.folder / "kubeconfig"
            _write_secrets(self.folder, self.token)
            store = self._start_etcd(etcd)
            self._start_apiserver(apiserver, store)
            write_kubeconfig(self.kubeconfig, self.url, self.ca_file, self.token)
            for companion in self._companions:
                self._exits.enter_context(companion(self))
            self._exits = self._exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def log(self, name: str, lines: int = 15) -> str:
        """The last lines that `etcd` or `kube-apiserver` wrote."""
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])

    def _start_etcd(self, binary: Path) -> str:
        client, peer = (f"http://{HOST}:{port}" for port in _free_ports(2))
        process = self._start(
            "etcd",
            binary,
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._await("etcd", process, f"{client}/health", None)
        return client

    def _start_apiserver(self, binary: Path, store: str) -> None:
        (port,) = _free_ports(1)
        self.url = f"https://{HOST}:{port}"
        process = self._start(
            "kube-apiserver",
            binary,
            f"--etcd-servers={store}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'accounts.key'}",
            f"--service-account-signing-key-file={self.folder / 'accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            *self._extra_flags,
        )
        self._await("kube-apiserver", process, f"{self.url}/readyz", self.ca_file)

    def _start(self, name: str, binary: Path, *flags: str) -> subprocess.Popen[bytes]:
        log = self._exits.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [str(binary), *flags], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        self._exits.callback(_stop, process)
        return process

    def _await(self, name: str, process: subprocess.Popen[bytes], url: str, ca_file: Path | None) -> None:
        context = ssl.create_default_context(cafile=str(ca_file)) if ca_file else None
        call = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(call, timeout=5, context=context) as answer:
                    answer.read()
                    return
            except urllib.error.HTTPError as refused:
                refused.close()
            except OSError:
                pass
            time.sleep(0.1)
        how = "is not ready" if process.poll() is None else f"ended with code {process.returncode}"
        raise ControlPlaneFailed(f"{name} {how}; its log ends:\n{self.log(name)}")


def _memory() -> str | None:
    """A file system in memory where there is one: etcd is as fast as its disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _write_secrets(folder: Path, token: str) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert(HOST, "localhost")
    authority.cert_pem.write_to_path(folder / "ca.crt")
    for blob in leaf.cert_chain_pems[:1]:
        blob.write_to_path(folder / "server.crt")
    leaf.private_key_pem.write_to_path(folder / "server.key")
    accounts = ec.generate_private_key(ec.SECP256R1())
    (folder / "accounts.key").write_bytes(
        accounts.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; held together, so that they differ."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            probe = held.enter_context(closing(socket.socket()))
            probe.bind((HOST, 0))
            ports.append(probe.getsockname()[1])
        return ports


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
