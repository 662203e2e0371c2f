"""Control plane: etcd and kube-apiserver as child processes on loopback with a temporary directory."""

from __future__ import annotations

import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from sandbox.certificates import write_certificates
from sandbox.kubeconfig import write_kubeconfig
from sandbox.objects import now
from sandbox.ports import free_port
from scheduler_core.errors import ConfigError, MusterError

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 90.0
STOP_SECONDS: Final = 20.0
_ATTEMPTS: Final = 3
T = TypeVar("T")
NAMES: Final = ("etcd", "kube-apiserver")


class ControlPlaneFailed(MusterError):
    """etcd or kube-apiserver did not start; the message ends with the last lines of its log."""


class AddressInUse(ControlPlaneFailed):
    """The program ended because another one listens on its port."""


@dataclass(frozen=True)
class Binaries:
    """Paths of the programs."""

    etcd: Path
    apiserver: Path


def binaries_in(folder: Path) -> Binaries:
    """etcd and kube-apiserver in a directory. Raises ConfigError with the missing ones."""
    return Binaries(*programs_in(folder, NAMES))


def programs_in(folder: Path, names: Sequence[str]) -> list[Path]:
    """The absolute paths of programs in a directory. Raises ConfigError with the missing ones."""
    if not folder.is_dir():
        raise ConfigError("", "is not a directory", file=str(folder), kind="NotFound")
    missing = [name for name in names if not os.access(folder / name, os.X_OK) or (folder / name).is_dir()]
    if missing:
        problem = f"lacks the program{'s' if len(missing) > 1 else ''} {' and '.join(missing)}"
        raise ConfigError("", problem, file=str(folder), kind="NotFound")
    return [folder.absolute() / name for name in names]


class ControlPlane:
    """Context manager of both programs; inside it, `url`, `token`, `ca_file` and `kubeconfig` are valid.

    There is no controller-manager and no kubelet. No component creates service accounts, so the
    admission plugin ServiceAccount is disabled; the key of the serving certificate also signs their tokens.
    """

    def __init__(self, binaries: Binaries, extra_flags: Sequence[str] = (), port: int = 0) -> None:
        self._binaries = binaries
        self._extra_flags = extra_flags
        self._port = port
        self._exits = ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.token = secrets.token_urlsafe(24)
        self.url = ""
        self.folder = Path()
        self.kubeconfig = Path()
        self.ca_file = Path()

    def __enter__(self) -> Self:
        with self._exits:
            self.folder = Path(tempfile.mkdtemp(prefix="muster-control-plane-", dir=_memory()))
            self._exits.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.ca_file, self.kubeconfig = self.folder / "ca.crt", self.folder / "kubeconfig"
            _write_secrets(self.folder, self.token)
            store = _on_free_ports(lambda: self._start_etcd(self._binaries.etcd))
            self._start_apiserver(self._binaries.apiserver, store)
            write_kubeconfig(self.kubeconfig, self.url, self.ca_file.read_bytes(), self.token)
            self._ready()
            self._exits = self._exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def _ready(self) -> None:
        """Hook of subclasses; runs when both programs are ready."""

    def ended(self) -> tuple[str, int] | None:
        """Name and exit code of a program that has ended unexpectedly; None if both run."""
        for name, process in self._processes.items():
            code = process.poll()
            if code is not None:
                return name, code
        return None

    def log(self, name: str, lines: int = 15) -> str:
        """The last lines that `etcd` or `kube-apiserver` wrote."""
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])

    def _start_etcd(self, binary: Path) -> str:
        client, peer = (f"http://{HOST}:{free_port()}" for _ in range(2))
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
            # The writes of 20,000 pending pods exceed etcd's default quota of 2 GiB.
            f"--quota-backend-bytes={8 << 30}",
            "--log-level=warn",
        )
        self._await("etcd", process, f"{client}/health", None)
        return client

    def _start_apiserver(self, binary: Path, store: str) -> None:
        if self._port:
            self._start_apiserver_on(self._port, binary, store)
        else:
            _on_free_ports(lambda: self._start_apiserver_on(free_port(), binary, store))

    def _start_apiserver_on(self, port: int, binary: Path, store: str) -> None:
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
            f"--service-account-key-file={self.folder / 'server.crt'}",
            f"--service-account-signing-key-file={self.folder / 'server.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            *self._extra_flags,
        )
        self._await("kube-apiserver", process, f"{self.url}/readyz", self.ca_file)

    def _start(self, name: str, binary: Path, *flags: str) -> subprocess.Popen[bytes]:
        log = self._exits.enter_context((self.folder / f"{name}.log").open("wb"))
        # The process leads a POSIX session, so that Ctrl-C stops it only through `end_process`.
        process = subprocess.Popen(
            [str(binary), *flags],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._exits.callback(end_process, process)
        self._processes[name] = process
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
        if process.poll() is not None and "address already in use" in self.log(name):
            raise AddressInUse(f"{name} found its port taken; its log ends:\n{self.log(name)}")
        how = "is not ready" if process.poll() is None else f"ended with code {process.returncode}"
        raise ControlPlaneFailed(f"{name} {how}; its log ends:\n{self.log(name)}")


def _memory() -> str | None:
    """The directory of an in-memory file system, if any, because disk latency limits etcd."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _write_secrets(folder: Path, token: str) -> None:
    write_certificates(folder, now())
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')


def _on_free_ports(start: Callable[[], T]) -> T:
    """Start a program; again on other ports if somebody took one that was free a moment ago."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(AddressInUse):
            return start()
    return start()


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Terminate a program; kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
