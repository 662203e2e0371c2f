"""Client of a real API server with JSON bodies; error responses become StatusError."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import aiohttp
import msgspec

from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj, encode_json

_SECONDS: Final = 30.0
# How long `closed` waits, and how often it looks.
_CLOSE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01
_decode = msgspec.json.Decoder().decode


def path_of(kind: ApiKind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of a kind's collection or of one object."""
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts += [kind.plural, name, subresource]
    return "/" + "/".join(filter(None, parts))


class TokenClient:
    """Client of one server with a bearer token, on one event loop.

    At the end call `close`, stop all callers, and wait for `closed`.
    """

    def __init__(self, url: str, token: str, ca_file: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca_file))
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._session = aiohttp.ClientSession(
            url,
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            connector=aiohttp.TCPConnector(ssl=context, limit=0, socket_factory=self._new_socket),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_SECONDS),
        )

    async def close(self) -> None:
        """Close all connections; pending calls fail, except those that are still connecting."""
        await self._session.close()

    async def closed(self) -> None:
        """Wait until the connections of cancelled calls are closed, too. Raises TimeoutError after 5 s."""
        deadline = asyncio.get_running_loop().time() + _CLOSE_SECONDS
        while any(made.fileno() >= 0 for made in self._sockets):
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError
            await asyncio.sleep(_POLL_SECONDS)

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    async def call(self, method: str, path: str, body: Obj | None = None) -> Obj:
        """The object in the response. Raises StatusError for an error response or a failed connection."""
        data = None if body is None else encode_json(body)
        self._check_open()
        try:
            async with self._session.request(
                method,
                path,
                data=data,
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=_SECONDS),
            ) as answer:
                raw = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StatusError(503, "ServiceUnavailable", f"{method} {path}: {error!r}") from None
        found = _read(raw)
        if answer.status >= 400:
            raise _refusal(answer.status, found)
        return found

    async def watch(self, path: str, version: str) -> AsyncIterator[tuple[str, Obj]]:
        """(type, object) of each change after `version`, until the server ends the stream.

        Raises StatusError if the version is too old or the connection fails.
        """
        self._check_open()
        query = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        try:
            async with self._session.get(path, params=query) as answer:
                if answer.status >= 400:
                    raise _refusal(answer.status, _read(await answer.read()))
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in filter(None, lines):
                        event = _read(line)
                        if event.get("type") == "ERROR":
                            raise _refusal(500, event["object"])
                        yield str(event.get("type")), event["object"]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StatusError(503, "ServiceUnavailable", f"watch {path}: {error!r}") from None

    def _check_open(self) -> None:
        if self._session.closed:
            raise StatusError(503, "ServiceUnavailable", "the client is closed")


def _read(raw: bytes) -> Any:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"message": raw.decode(errors="replace")}


def _refusal(status: int, found: Obj) -> StatusError:
    code = found.get("code") or status
    return StatusError(code, found.get("reason") or "", found.get("message") or "", found.get("details"))
