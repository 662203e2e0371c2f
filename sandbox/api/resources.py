"""Handlers of the HTTP verbs on resources: decode the request, call the registry, encode the response."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from aiohttp import web

from sandbox import errors
from sandbox.access.authentication import LEAST_SECONDS, USUAL_SECONDS, Tokens
from sandbox.access.authorizer import Authorizer
from sandbox.access.reviews import Reviews
from sandbox.api import lists, request_bodies, subresources, table
from sandbox.api.lists import Lister, ListPage
from sandbox.api.request_bodies import (
    check_type,
    decode_json,
    decode_object,
    decode_yaml,
    media_type,
)
from sandbox.api.request_info import Representation, ResourcePath, parse_accept
from sandbox.api.responses import json_response, object_response
from sandbox.api.watch import Encoder, WatchStream, parse_watch_params
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import PODS, REVIEWS
from sandbox.objects import Obj, encode_json, now, rfc3339
from sandbox.store import patching
from sandbox.store.conversion import kind_view
from sandbox.store.object_store import Version
from sandbox.store.registry import Registry, RequestContext

# Kinds whose DELETE returns the object; other kinds return a Status.
_RETURNED_WHEN_DELETED = frozenset(
    {
        "pods",
        "namespaces",
        "services",
        "serviceaccounts",
        "resourcequotas",
        "persistentvolumes",
        "persistentvolumeclaims",
    }
)
# Subresources whose body is the whole object.
_WHOLE = frozenset({"approval", "ephemeralcontainers", "resize", "status"})
_SCALE_TYPE = ApiKind("autoscaling", "v1", "scales", "Scale")
_BINDING_TYPE = ApiKind("", "v1", "bindings", "Binding")
_EVICTION_TYPE = ApiKind("policy", "v1", "evictions", "Eviction")


class ResourceApi:
    """Handles the resource paths below `/api/v1` and `/apis/{group}/{version}`."""

    def __init__(
        self, registry: Registry, bookmark_seconds: float, tokens: Tokens, authorizer: Authorizer
    ) -> None:
        self._registry = registry
        self._tokens = tokens
        self._reviews = Reviews(tokens, authorizer)
        self._lister = Lister(registry.store)
        self._bookmark_seconds = bookmark_seconds
        self._watches: set[WatchStream] = set()
        self._stopping = False

    def end_watches(self) -> None:
        """End all watches, also those that begin later: the server stops."""
        self._stopping = True
        for stream in self._watches:
            stream.stop()

    def forget_snapshots(self) -> None:
        """Drop all list snapshots, as compaction does; every continue token expires."""
        self._lister.forget()

    async def handle(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        """Handle one request. Raises StatusError."""
        method, query = request.method, request.query
        context.field_manager = query.get("fieldManager", "")
        context.field_validation = query.get("fieldValidation", "") or "Warn"
        context.force = query.get("force", "") in ("true", "1")
        request_bodies.check_options(query, context)
        if target.subresource and target.subresource not in _WHOLE:
            return await self._subresource(request, target, context)
        if method == "GET":
            return await self._read(request, target)
        if method == "POST" and not target.name:
            return await self._create(request, target, context)
        if method == "PUT" and target.name:
            return await self._update(request, target, context)
        if method == "PATCH" and target.name:
            return await self._patch(request, target, context)
        if method == "DELETE" and not target.subresource:
            return await (self._delete if target.name else self._delete_all)(request, target, context)
        raise errors.method_not_allowed()

    async def _read(self, request: web.BaseRequest, target: ResourcePath) -> web.StreamResponse:
        shape = parse_accept(request.headers.get("Accept", ""))
        query = request.query
        if query.get("watch") in ("true", "1", "True"):
            return await self._watch(request, target, shape)
        if "get" not in target.kind.verbs:
            raise errors.method_not_allowed()
        if target.name:
            version = self._registry.store.current(target.kind, target.namespace, target.name)
            return self._shown(target.kind, version, shape, query)
        page = self._lister.page(target, lists.parse_list_params(query))
        return self._shown_page(target.kind, page, shape, query)

    def _shown_page(
        self, kind: ApiKind, page: ListPage, shape: Representation, query: Mapping[str, str]
    ) -> web.Response:
        if shape.as_kind == "Table":
            form = table.table_form(shape.version, query.get("includeObject", ""))
            return json_response(table.encode_table(kind, page, form))
        if shape.as_kind == "PartialObjectMetadata":
            return json_response(table.encode_partial_list(kind, page))
        return json_response(lists.encode_list(kind, page), yaml=shape.yaml)

    def _shown(
        self,
        kind: ApiKind,
        version: Version,
        shape: Representation,
        query: Mapping[str, str],
        code: int = 200,
    ) -> web.Response:
        encoder = _encoder(kind, shape, query)
        return json_response(encoder(version), code, yaml=shape.yaml)

    async def _watch(
        self, request: web.BaseRequest, target: ResourcePath, shape: Representation
    ) -> web.StreamResponse:
        query = dict(request.query)
        if target.name:
            query["fieldSelector"] = f"metadata.name={target.name}"
            target = ResourcePath(target.kind, target.namespace)
        params = parse_watch_params(query)
        encoder = _encoder(target.kind, shape, query)
        stream = WatchStream(
            self._registry.store, self._lister, target, params, encoder, self._bookmark_seconds
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if self._stopping:
            stream.stop()
        self._watches.add(stream)
        try:
            await stream.run(response, request.transport)
        finally:
            self._watches.discard(stream)
        return response

    async def _create(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        kind = target.kind
        if kind.namespaced and not target.namespace:
            raise errors.method_not_allowed()
        body = await request_bodies.whole_object(request, kind, context)
        check_type(kind, body)
        if kind in REVIEWS:
            if parse_accept(request.headers.get("Accept", "")).as_kind:
                raise errors.not_acceptable()
            answer = self._reviews.answered(kind, target.namespace, body, context.caller)
            return object_response(answer, 201)
        created = await self._registry.create(
            kind, body, namespace=target.namespace, context=context, owned=True
        )
        return self._answer(request, kind, created, 201)

    def _answer(self, request: web.BaseRequest, kind: ApiKind, obj: Obj, code: int = 200) -> web.Response:
        """Response with the object after a write, in the representation that the client accepts."""
        shape = parse_accept(request.headers.get("Accept", ""))
        meta = obj["metadata"]
        version = self._registry.store.version(kind, meta.get("namespace", ""), meta["name"])
        if version is None or version.obj is not obj:
            version = Version(kind_view(kind, obj), int(meta.get("resourceVersion") or 0))
        return self._shown(kind, version, shape, request.query, code)

    async def _update(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        kind = target.kind
        body = await request_bodies.whole_object(request, kind, context)
        check_type(kind, body, target.name)
        body.setdefault("metadata", {})
        if kind.namespaced:
            own = body["metadata"].setdefault("namespace", target.namespace)
            if own != target.namespace:
                raise errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
        updated = await self._registry.update(kind, body, subresource=target.subresource, context=context)
        return self._answer(request, kind, updated)

    async def _patch(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        kind = target.kind
        media = media_type(request.headers.get("Content-Type", ""))
        raw = await request.read()
        body = decode_yaml(raw) if media == patching.APPLY else decode_json(raw)
        if media == patching.APPLY:
            request_bodies.check_apply(kind, target, body, context)
        request_bodies.note_duplicates(raw, media, context)
        existed = self._registry.store.version(kind, target.namespace, target.name) is not None
        result = await self._registry.patch(
            kind,
            target.namespace,
            target.name,
            body,
            content_type=media,
            subresource=target.subresource,
            context=context,
        )
        return self._answer(request, kind, result, 200 if existed else 201)

    async def _delete(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        options = await request_bodies.delete_options(request, context)
        kind = target.kind
        gone = await self._registry.delete(
            kind, target.namespace, target.name, options=options, context=context
        )
        remains = self._registry.store.version(kind, target.namespace, target.name) is not None
        if kind.storage in _RETURNED_WHEN_DELETED or (remains and not context.dry_run):
            return self._answer(request, kind, gone)
        details: Obj = {
            "name": target.name,
            "group": kind.group,
            "kind": kind.plural,
            "uid": gone["metadata"]["uid"],
        }
        return object_response(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {key: value for key, value in details.items() if value},
            }
        )

    async def _delete_all(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        options = await request_bodies.delete_options(request, context)
        if "deletecollection" not in target.kind.verbs:
            raise errors.method_not_allowed()
        matches = lists.selected(target.kind, lists.parse_list_params(request.query))
        gone = await self._registry.delete_collection(
            target.kind, target.namespace or None, matches, options=options, context=context
        )
        versions = [Version(obj, int(obj["metadata"].get("resourceVersion") or 0)) for obj in gone]
        return json_response(
            lists.encode_list(target.kind, ListPage(versions, self._registry.store.revision))
        )

    async def _subresource(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        name, kind, registry = target.subresource, target.kind, self._registry
        if name in ("binding", "eviction") and request.method == "POST":
            expected = _BINDING_TYPE if name == "binding" else _EVICTION_TYPE
            body = decode_object(await request.read(), request.headers.get("Content-Type", ""))
            if not (name == "eviction" and body.get("apiVersion") == "policy/v1beta1"):
                check_type(expected, body, target.name)
            act = subresources.bind if name == "binding" else subresources.evict
            return object_response(await act(registry, target.namespace, target.name, body, context), 201)
        if name == "scale":
            return await self._scale(request, target, context)
        if name == "finalize" and request.method == "PUT":
            body = decode_object(await request.read(), request.headers.get("Content-Type", ""))
            done = await registry.modify(
                kind,
                "",
                target.name,
                lambda old: subresources.finalized(old, body),
                subresource="finalize",
                context=context,
            )
            return self._answer(request, kind, done)
        if name == "token" and request.method == "POST":
            account = registry.get(kind, target.namespace, target.name)
            body = decode_object(await request.read(), request.headers.get("Content-Type", ""))
            return object_response(self._issued(account, body), 201)
        if name == "log" and kind is PODS and request.method == "GET":
            return web.Response(text=subresources.log_of(registry, target.namespace, target.name))
        raise errors.method_not_allowed()

    def _issued(self, account: Obj, request: Obj) -> Obj:
        """The TokenRequest with a new token of a ServiceAccount."""
        meta, spec = account["metadata"], request.get("spec") or {}
        seconds = spec.get("expirationSeconds") or USUAL_SECONDS
        if not isinstance(seconds, int) or seconds < LEAST_SECONDS:
            text = "may not specify a duration less than 10 minutes"
            cause = errors.invalid_value("spec.expirationSeconds", seconds, text)
            raise errors.StatusError(
                422, "Invalid", f'TokenRequest "{meta["name"]}" is invalid: {cause}', None, [cause]
            )
        token, until = self._tokens.issue(meta["namespace"], meta["name"], meta["uid"], seconds)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "creationTimestamp": rfc3339(now()),
            },
            "spec": {"audiences": [], "expirationSeconds": seconds, **spec},
            "status": {
                "token": token,
                "expirationTimestamp": rfc3339(dt.datetime.fromtimestamp(until, dt.UTC)),
            },
        }

    async def _scale(
        self, request: web.BaseRequest, target: ResourcePath, context: RequestContext
    ) -> web.StreamResponse:
        kind, registry = target.kind, self._registry
        if request.method == "GET":
            return object_response(
                subresources.scale_of(kind, registry.get(kind, target.namespace, target.name))
            )
        raw = await request.read()
        media = media_type(request.headers.get("Content-Type", ""))
        if request.method == "PUT":
            body = decode_object(raw, media)
            check_type(_SCALE_TYPE, body, target.name)
        elif request.method == "PATCH":
            body = decode_json(raw)
            patching.check(_SCALE_TYPE, body, media)
        else:
            raise errors.method_not_allowed()

        def change(old: Obj) -> Obj:
            is_patch = request.method == "PATCH"
            scale = (
                patching.patched(_SCALE_TYPE, subresources.scale_of(kind, old), body, media)
                if is_patch
                else body
            )
            return subresources.scaled(kind, old, scale)

        done = await registry.modify(kind, target.namespace, target.name, change, context=context)
        return object_response(subresources.scale_of(kind, done))


def _encoder(kind: ApiKind, shape: Representation, query: Mapping[str, str]) -> Encoder:
    if shape.as_kind == "Table":
        return table.table_encoder(kind, table.table_form(shape.version, query.get("includeObject", "")))
    if shape.as_kind == "PartialObjectMetadata":
        return lambda version: encode_json(table.partial(version.obj))
    return lambda version: lists.encode_version(kind, version)
