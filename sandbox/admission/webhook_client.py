"""HTTPS client for admission webhooks, with kube-apiserver's error messages."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import msgspec

from sandbox.admission.webhook_rules import Webhook
from scheduler_core.errors import MusterError

ServiceTable = Mapping[tuple[str, str], tuple[str, int]]
"""Address (host, port) of each Service by (namespace, name)."""


class WebhookCallFailed(MusterError):
    """A webhook could not be called; its failurePolicy decides."""


@dataclass(frozen=True)
class WebhookTarget:
    """Address of a webhook, and the host name in its certificate ("" for the host of the URL)."""

    url: str
    shown_url: str
    server_name: str = ""


def target_of(webhook: Webhook, services: ServiceTable) -> WebhookTarget:
    """The address in `clientConfig`. Raises WebhookCallFailed for an unknown Service."""
    query = f"timeout={webhook.timeout}s"
    url = webhook.client.get("url")
    if url:
        full = f"{url}{'&' if urlsplit(url).query else '?'}{query}"
        return WebhookTarget(full, full)
    service = webhook.client.get("service") or {}
    key = (service.get("namespace", ""), service.get("name", ""))
    path = "/" + str(service.get("path") or "").lstrip("/")
    host = f"{key[1]}.{key[0]}.svc"
    shown = f"https://{host}:{service.get('port') or 443}{path}?{query}"
    if key not in services:
        raise WebhookCallFailed(f'Post "{shown}": service "{key[1]}" not found')
    address, port = services[key]
    return WebhookTarget(f"https://{address}:{port}{path}?{query}", shown, host)


class WebhookClient:
    """One connection pool for all webhooks. Use it on one event loop, and close it at the end."""

    def __init__(self, services: ServiceTable | None = None) -> None:
        self._services = services or {}
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def post(self, webhook: Webhook, review: object) -> bytes:
        """The body of the response. Raises WebhookCallFailed."""
        target = target_of(webhook, self._services)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                target.url,
                data=msgspec.json.encode(review),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=self._context(str(webhook.client.get("caBundle") or "")),
                server_hostname=target.server_name or None,
                timeout=aiohttp.ClientTimeout(total=webhook.timeout),
                allow_redirects=False,
            ) as answer:
                body = await answer.read()
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookCallFailed(f'Post "{target.shown_url}": {_cause(error)}') from error
        if not 200 <= answer.status < 300:
            raise WebhookCallFailed(_status_text(answer.status, body))
        return body

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            # Without a bundle the authorities of the system, which take long to read.
            context = ssl.create_default_context(cadata=_pem(bundle) if bundle else None)
            self._contexts[bundle] = context
        return context

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _pem(bundle: str) -> str:
    try:
        return base64.b64decode(bundle, validate=True).decode("ascii")
    except (binascii.Error, UnicodeError) as error:
        raise WebhookCallFailed(f"clientConfig.caBundle is not base64-encoded PEM: {error}") from None


def _cause(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        why = error.os_error
        text = "connection refused" if isinstance(why, ConnectionRefusedError) else str(why)
        return f"dial tcp {error.host}:{error.port}: connect: {text}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _status_text(status: int, body: bytes) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    if status >= 500:
        shown = body[:2048].decode("utf-8", "replace").strip() or "unknown"
        return f'an error on the server ("{shown}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"
