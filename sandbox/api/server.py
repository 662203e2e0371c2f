"""API server of the sandbox: state, certificates, and an HTTPS listener on loopback."""

from __future__ import annotations

import asyncio
import secrets
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from sandbox.access.authorizer import AllowAll, Rbac
from sandbox.access.default_roles import default_roles
from sandbox.access.escalation import EscalationCheck
from sandbox.admission.chain import Chain
from sandbox.admission.webhook_client import ServiceTable
from sandbox.api.http import HttpApi
from sandbox.api.request_bodies import BODY_LIMIT
from sandbox.certificates import ServerCertificate, existing_certificates, write_certificates
from sandbox.initial_objects import create_objects, create_service_account, put_object
from sandbox.kinds import crd, kubernetes_service
from sandbox.kinds.builtin import GROUP_VERSIONS, NAMESPACES, builtin_table
from sandbox.kubeconfig import write_kubeconfig
from sandbox.objects import now
from sandbox.store.object_store import ObjectStore
from sandbox.store.registry import Registry

HOST = "127.0.0.1"
# What a kube-apiserver reads of a request line and its headers.
_MOST_HEADER_BYTES = 1 << 20
FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Settings of the server. `directory` is for certificates and kubeconfig (None: a temporary one);
    valid certificates that are there already are used. `settled` is awaited before a write is answered.

    Port 0 means any free port. `services` maps Services in webhook configurations to their addresses.
    `rbac`: whether roles and bindings limit what callers may do. `group_versions`: the versions of the native
    groups that the server serves. `stop_seconds`: how long
    `stop` waits for requests that have begun; watches end at once.
    """

    directory: Path | None = None
    port: int = 0
    token: str = ""
    bookmark_seconds: float = 60.0
    log_length: int = 50_000
    services: ServiceTable | None = None
    group_versions: Collection[str] = GROUP_VERSIONS
    settled: Callable[[], Awaitable[None]] | None = None
    rbac: bool = False
    stop_seconds: float = 2.0


class ApiServer:
    """An API server on loopback; `url`, `token`, `ca_file` and `kubeconfig` are valid after `start`.

    In-process callers may use `registry` before `start` and only on the server's event loop.
    """

    def __init__(self, options: ServerOptions | None = None) -> None:
        self._options = options or ServerOptions()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._runner: web.ServerRunner | None = None
        self.store = ObjectStore(self._options.log_length)
        self.kinds = builtin_table(self._options.group_versions)
        self.registry = Registry(self.store, self.kinds)
        rbac = Rbac(self.store) if self._options.rbac else None
        self._authorizer = rbac or AllowAll()
        self._chain = Chain(self.registry, self._options.services, EscalationCheck(rbac) if rbac else None)
        self.registry.admission = self._chain
        crd.keep_served(self.store, self.kinds)
        self.token = self._options.token or secrets.token_urlsafe(24)
        self.url = ""
        self.folder = Path()
        self.ca_file = Path()
        self.kubeconfig = Path()
        self._http: HttpApi | None = None
        self._files: ServerCertificate | None = None

    def prepare(self) -> ServerCertificate:
        """Create the certificates once; `start` calls this method too."""
        if self._files is None:
            if self._options.directory is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="muster-sandbox-")
                self.folder = Path(self._temporary.name)
            else:
                self.folder = self._options.directory
            self._files = existing_certificates(self.folder, now()) or write_certificates(self.folder, now())
            self.ca_file = self._files.ca
        return self._files

    async def start(self) -> None:
        """Start listening. Raises OSError if the port is in use."""
        await self._first_objects()
        try:
            await self._listen()
        except BaseException:
            await self.stop()
            raise

    async def _listen(self) -> None:
        files = self.prepare()
        options = self._options
        self._http = HttpApi(
            self.registry, self.token, HOST, options.bookmark_seconds, options.settled, self._authorizer
        )
        server = web.Server(
            self._http,
            request_factory=_request,
            max_line_size=_MOST_HEADER_BYTES,
            max_field_size=_MOST_HEADER_BYTES,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=self._options.stop_seconds)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self._options.port, ssl_context=_ssl_context(files))
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"https://{HOST}:{port}"
        for kind, obj in kubernetes_service.objects(HOST, port):
            await put_object(self.registry, kind, "default", obj)
        self.kubeconfig = self.folder / "kubeconfig"
        write_kubeconfig(self.kubeconfig, self.url, files.ca.read_bytes(), self.token)

    async def _first_objects(self) -> None:
        for name in FIRST_NAMESPACES:
            if self.store.get(NAMESPACES, "", name) is None:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await self.registry.create(NAMESPACES, body)
                await create_service_account(self.registry, name)
        if self._options.rbac:
            await create_objects(self.registry, list(default_roles()))

    def compact(self) -> None:
        """Drop past events and list snapshots; old watches and continue tokens get 410."""
        self.store.compact()
        if self._http:
            self._http.resources.forget_snapshots()

    async def stop(self) -> None:
        """Close the listener and every connection, and remove a temporary directory."""
        if self._http:
            # A watch would keep the server for as long as it may wait.
            self._http.resources.end_watches()
        if self._runner:
            await self._runner.cleanup()
            self._runner = None
        await self._chain.close()
        if self._temporary:
            self._temporary.cleanup()
            self._temporary = self._files = None


def _ssl_context(files: ServerCertificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: Any,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)


async def serve(options: ServerOptions, stop: asyncio.Event) -> None:
    """Run a server until `stop` is set."""
    server = ApiServer(options)
    await server.start()
    try:
        await stop.wait()
    finally:
        await server.stop()
