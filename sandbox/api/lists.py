"""List requests: selectors, pages of one snapshot with continue tokens, and encoded responses."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sandbox import errors
from sandbox.api.request_info import ResourcePath
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj
from sandbox.store import selectors
from sandbox.store.conversion import kind_view
from sandbox.store.object_store import ObjectStore, Version
from sandbox.store.selectors import Predicate
from scheduler_core.decoding import decode

_SNAPSHOTS_KEPT = 32


@dataclass(frozen=True, slots=True)
class ListParams:
    """Query parameters of a list or watch request; `resource_version` is None if the client set none."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    resource_version: int | None = None
    match: str = ""


def parse_version(text: str) -> int | None:
    """A resourceVersion parameter; None if it is empty. Raises BadRequest for anything but a number."""
    if not text:
        return None
    if not text.isdigit() or len(text) > 19:
        raise errors.bad_request(f'Invalid value: "{text}": resourceVersion must be a number')
    return int(text)


def parse_list_params(query: Mapping[str, str]) -> ListParams:
    """Query parameters of a list request. Raises BadRequest or Invalid."""
    limit, match = query.get("limit", ""), query.get("resourceVersionMatch", "")
    if limit and not limit.isdigit():
        raise errors.bad_request(f'Invalid value: "{limit}": limit must be a number')
    if match not in ("", "Exact", "NotOlderThan"):
        raise errors.bad_request(f'resourceVersionMatch: Unsupported value: "{match}"')
    version = parse_version(query.get("resourceVersion", ""))
    if match and version is None and query.get("sendInitialEvents") != "true":
        raise errors.bad_request(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is "
            "provided"
        )
    return ListParams(
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        int(limit or 0),
        query.get("continue", ""),
        version,
        match,
    )


@dataclass(frozen=True, slots=True)
class ListPage:
    """Objects of one page, resourceVersion of the snapshot, and continue token ("" on the last page)."""

    versions: list[Version]
    revision: int
    token: str = ""
    remaining: int = 0


class _Snapshot(msgspec.Struct):
    number: int
    offset: int


class Lister:
    """Answers list requests; keeps snapshots for continue tokens."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._snapshots: OrderedDict[int, tuple[str, int, list[Version]]] = OrderedDict()
        self._next_number = 0

    def page(self, target: ResourcePath, params: ListParams) -> ListPage:
        """One page of a list request. Raises BadRequest, or Expired for an old token or resourceVersion."""
        kind = target.kind
        if params.token:
            return self._next_page(kind, params)
        if params.match == "Exact" and params.resource_version != self._store.revision:
            raise errors.gone(params.resource_version or 0, self._store.revision)
        if params.resource_version and params.resource_version > self._store.revision:
            raise errors.StatusError(
                504,
                "Timeout",
                f"Too large resource version: {params.resource_version}, current: {self._store.revision}",
                {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
            )
        found = self.matching(target, params)
        if not params.limit or len(found) <= params.limit:
            return ListPage(found, self._store.revision)
        self._next_number += 1
        self._snapshots[self._next_number] = (kind.storage, self._store.revision, found)
        if len(self._snapshots) > _SNAPSHOTS_KEPT:
            self._snapshots.popitem(last=False)
        return self._cut(self._next_number, 0, params.limit)

    def matching(self, target: ResourcePath, params: ListParams) -> list[Version]:
        """Current objects that match the selectors, in name order."""
        kind = target.kind
        matches = selectors.predicate(kind, params.labels, params.fields)
        name = selectors.only_name(params.fields)
        if name and (target.namespace or not kind.namespaced):
            version = self._store.version(kind, target.namespace, name)
            versions = [version] if version else []
        else:
            versions = self._store.versions(kind, target.namespace or None)
        if matches is None:
            return versions
        return [version for version in versions if matches(kind_view(kind, version.obj))]

    def _next_page(self, kind: ApiKind, params: ListParams) -> ListPage:
        try:
            token = decode(base64.urlsafe_b64decode(params.token), _Snapshot)
        except (msgspec.DecodeError, ValueError) as error:
            raise errors.bad_request("continue key is not valid: invalid token") from error
        found = self._snapshots.get(token.number)
        if found is None or found[0] != kind.storage:
            raise errors.continue_expired()
        return self._cut(token.number, token.offset, params.limit or len(found[2]))

    def _cut(self, number: int, offset: int, limit: int) -> ListPage:
        _, revision, versions = self._snapshots[number]
        end = offset + limit
        if end >= len(versions):
            return ListPage(versions[offset:], revision)
        token = base64.urlsafe_b64encode(msgspec.json.encode(_Snapshot(number, end))).decode()
        return ListPage(versions[offset:end], revision, token, len(versions) - end)

    def forget(self) -> None:
        """Drop all snapshots; every continue token expires."""
        self._snapshots.clear()


def list_meta(page: ListPage) -> Obj:
    """ListMeta of a page."""
    meta: Obj = {"resourceVersion": str(page.revision)}
    if page.token:
        meta["continue"] = page.token
        meta["remainingItemCount"] = page.remaining
    return meta


def encode_version(kind: ApiKind, version: Version) -> bytes:
    """JSON of the object in the version of `kind`, encoded once for all requests."""
    return version.encoded(kind.view, lambda obj: kind_view(kind, obj))


def encode_list(kind: ApiKind, page: ListPage) -> bytes:
    """JSON of the list, joined from the encoded objects."""
    head = msgspec.json.encode(
        {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": list_meta(page)}
    )
    items = b",".join([encode_version(kind, version) for version in page.versions])
    return b'%s,"items":[%s]}' % (head[:-1], items)


def selected(kind: ApiKind, params: ListParams) -> Predicate:
    """Predicate of both selectors; it is always true without selectors."""
    return selectors.predicate(kind, params.labels, params.fields) or (lambda obj: True)
