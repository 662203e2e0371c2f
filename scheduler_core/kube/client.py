"""Reads and writes of API objects as raw JSON; no model classes on any path."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.kube.errors import (
    Conflict,
    Invalid,
    NotFound,
    decode_answer,
    error_from_status,
)
from scheduler_core.kube.http.response import ANY_SIZE
from scheduler_core.kube.http.response_parser import ApiResponse
from scheduler_core.kube.http.session import Session
from scheduler_core.kube.http.stream import StreamWatcher
from scheduler_core.kube.paging import MOST_PAGE_BYTES, PAGE_SIZE, Page, list_pages
from scheduler_core.kube.paths import resource_path, with_query
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.requests import JSON, SingleWrite, request_for, with_precondition
from scheduler_core.model.kinds import PODS, Resource
from scheduler_core.model.writes import (
    Bind,
    Create,
    Delete,
    Evict,
    Patch,
    Replace,
    Write,
    pod_status_patch,
)

_MAX_REPEATS = 5


_page_decoder = decoder(Page)
_object_decoder = decoder(dict[str, Any])


class Client:
    """Calls to one API server, from any number of threads.

    Every method raises ApiError, and KubeconfigError where credentials cannot be renewed. After 429 or 5xx
    with Retry-After the client waits and repeats the request, as long as the waits of one call stay within
    `retry_budget` seconds: a server that sends this header has not begun the work.
    """

    def __init__(
        self,
        session: Session,
        *,
        limiter: RateLimiter | None = None,
        retry_budget: float = 10.0,
        sleep: Callable[[float], object] = time.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.session = session
        self._wall = wall
        self.limiter = limiter
        self.retry_budget = retry_budget
        self._sleep = sleep

    def resolve(self, resource: Resource) -> Resource:
        """The resource in the best version that the server serves now, from discovery; see `kube.served`.

        Raises NotFound where the server does not serve the kind.
        """
        if not resource.versions:
            return resource
        return self.session.served.resolve(lambda path: self.call("GET", path, retry_budget=0.0), resource)

    def served(self, resource: Resource) -> Resource:
        """As `resolve`, which is asked once until the server no longer knows the version."""
        return self.session.served.known(resource) or self.resolve(resource)

    def _read(
        self,
        resource: Resource,
        path: Callable[[Resource], str],
        *,
        retry_budget: float | None = None,
        most: int = ANY_SIZE,
    ) -> bytes:
        """GET of a path of a resource, in the version that the server serves."""
        served = self.served(resource)
        try:
            return self.send("GET", path(served), b"", retry_budget=retry_budget, most=most)
        except NotFound as error:
            if not resource.versions or error.of_object:
                raise
            now = self.resolve(resource)
            if now == served:
                raise
            return self.send("GET", path(now), b"", retry_budget=retry_budget, most=most)

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "") -> bytes:
        """The object as the server sent it. Raises NotFound."""
        return self._read(resource, lambda kind: resource_path(kind, namespace, name, subresource))

    def get_json(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        """The object as plain dicts and lists. Raises NotFound."""
        path = resource_path(resource, namespace, name)
        return decode_answer(self.get(resource, namespace, name), _object_decoder, method="GET", path=path)

    def get_page(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        continue_token: str = "",
        retry_budget: float | None = None,
    ) -> Page:
        """One page of a list at the latest version; a `limit` of 0 requests all objects at once.

        Raises AnswerTooLarge for a page of several objects with too many bytes; `paging.pages` then requests
        smaller pages.
        """
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": limit or None,
            "continue": continue_token,
        }
        most = MOST_PAGE_BYTES if limit != 1 else ANY_SIZE

        def path(kind: Resource) -> str:
            return with_query(resource_path(kind, namespace), query)

        body = self._read(resource, path, retry_budget=retry_budget, most=most)
        return decode_answer(body, _page_decoder, method="GET", path=path(resource))

    def list_raw(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Iterator[msgspec.Raw]:
        """Every object of the list, fetched page by page. Raises Gone where the list expires between two
        pages.
        """
        for page in list_pages(
            self, resource, namespace, label_selector=label_selector, field_selector=field_selector
        ):
            yield from page.items or ()

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
        silence: float = 40.0,
    ) -> StreamWatcher:
        """The stream of changes after `resource_version`, with bookmarks; `silence` is the read timeout in
        seconds.
        """
        query: dict[str, str | int | bool | None] = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        path = with_query(resource_path(self.served(resource), namespace), query)
        self._admit()
        answer = self.session.stream(path, silence)
        if isinstance(answer, StreamWatcher):
            return answer
        raise error_from_status(
            answer.status, answer.body, retry_after=answer.retry_after, method="GET", path=path
        )

    def write(self, write: Write, *, dry_run: bool = False) -> bytes:
        """Carry out one write; returns the body of the response, empty where the pod of an eviction was gone.

        An error with `maybe_accepted` means that the server may have carried out the write: read before
        repeating it.
        """
        match write:
            case Evict():
                return self.evict(write, dry_run=dry_run)
            case Patch():
                return self.patch(write, dry_run=dry_run)
            case _:
                return self._single(write, dry_run)

    def _single(self, write: SingleWrite, dry_run: bool) -> bytes:
        if not isinstance(write, Bind):
            self.served(write.resource)
        request = request_for(self.session.served.translated(write), dry_run=dry_run)
        return self.send(request.method, request.path, request.body, request.content_type)

    def create(self, write: Create, *, dry_run: bool = False) -> bytes:
        """POST of an object. Raises AlreadyExists."""
        return self._single(write, dry_run)

    def replace(self, write: Replace, *, dry_run: bool = False) -> bytes:
        """PUT of an object or subresource. Raises Conflict if the body's resourceVersion is not current."""
        return self._single(write, dry_run)

    def patch(self, write: Patch, *, dry_run: bool = False) -> bytes:
        """PATCH with its preconditions in the body. Raises Conflict if a precondition fails (JSON patch:
        Invalid).
        """
        try:
            return self._single(write, dry_run)
        except Invalid as error:
            raise with_precondition(write, error) from None

    def delete(self, write: Delete, *, dry_run: bool = False) -> bytes:
        """DELETE with preconditions. Raises NotFound, and Conflict if a precondition fails."""
        return self._single(write, dry_run)

    def evict(self, write: Evict, *, dry_run: bool = False) -> bytes:
        """Mark the pod as disrupted, then delete it; a pod gone or replaced is a success (empty body)."""
        marks = {"conditions": write.conditions(self._wall())}
        patch = pod_status_patch(write.namespace, write.name, write.uid, marks)
        try:
            self.patch(patch, dry_run=dry_run)
            gone = Delete(PODS, write.namespace, write.name, write.uid, grace_seconds=write.grace_seconds)
            return self.delete(gone, dry_run=dry_run)
        except NotFound:
            return b""
        except Conflict:
            if self._has_uid(write.namespace, write.name, write.uid):
                raise
            return b""

    def _has_uid(self, namespace: str, name: str, uid: str) -> bool:
        try:
            pod = self.get_json(PODS, namespace, name)
        except NotFound:
            return False
        return pod.get("metadata", {}).get("uid") == uid

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | list[Any] | None = None,
        content_type: str = JSON,
        *,
        retry_budget: float | None = None,
    ) -> bytes:
        """One request to any path of the server, `body` encoded as JSON; returns the body of a 2xx answer."""
        payload = b"" if body is None else msgspec.json.encode(body)
        return self.send(method, path, payload, content_type, retry_budget=retry_budget)

    def send(
        self,
        method: str,
        path: str,
        payload: bytes,
        content_type: str = JSON,
        *,
        retry_budget: float | None = None,
        most: int = ANY_SIZE,
    ) -> bytes:
        """One request with an encoded body; returns the body of a 2xx response, of at most `most` bytes.

        Raises AnswerTooLarge.
        """
        budget = self.retry_budget if retry_budget is None else retry_budget
        self._admit()
        answer = self.session.request(method, path, payload, content_type, most)
        repeats = 0
        while (delay := _asked_to_wait(answer)) is not None and delay <= budget and repeats < _MAX_REPEATS:
            budget -= delay
            repeats += 1
            self._sleep(delay)
            self._admit()
            answer = self.session.request(method, path, payload, content_type, most)
        if 200 <= answer.status < 300:
            return answer.body
        raise error_from_status(
            answer.status, answer.body, retry_after=answer.retry_after, method=method, path=path
        )

    def pause(self, seconds: float) -> None:
        """Wait for the time that the server requested before a request is repeated."""
        self._sleep(seconds)

    def _admit(self) -> None:
        if self.limiter is not None:
            self.limiter.wait()


def _asked_to_wait(answer: ApiResponse) -> float | None:
    if answer.status == 429 or answer.status >= 500:
        return answer.retry_after
    return None
