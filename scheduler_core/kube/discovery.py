"""Which of our resources the server has."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import msgspec

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound, decode_answer
from scheduler_core.kube.paths import api_root
from scheduler_core.model.kinds import Resource


class _Served(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    resources: list[_Served] | None = None


_decoder = msgspec.json.Decoder(_ResourceList)


class Discovery:
    """Answers per group and version, each asked for once and again after `keep` seconds; thread-safe."""

    def __init__(
        self, client: Client, *, keep: float = 60.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._keep = keep
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._served: dict[str, tuple[float, frozenset[str]]] = {}

    def has(self, resource: Resource) -> bool:
        """Whether the server serves the resource in this very version. Raises ApiError."""
        root = api_root(resource)
        with self._lock:
            asked, plurals = self._served.get(root, (float("-inf"), frozenset()))
            now = self._monotonic()
            if now - asked > self._keep:
                plurals = self._ask(root)
                self._served[root] = (now, plurals)
        return resource.plural in plurals

    def present(self, resources: Iterable[Resource]) -> list[Resource]:
        """Those of `resources` that the server serves, in the same order. Raises ApiError."""
        return [resource for resource in resources if self.has(resource)]

    def refresh(self) -> None:
        """Forget the answers: ask again next time."""
        with self._lock:
            self._served.clear()

    def _ask(self, root: str) -> frozenset[str]:
        try:
            body = self._client.call("GET", root)
        except NotFound:
            return frozenset()
        answer = decode_answer(body, _decoder, method="GET", path=root)
        return frozenset(served.name for served in answer.resources or ())
