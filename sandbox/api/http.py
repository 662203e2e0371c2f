"""HTTP entry point of the API server: authentication, routing, and errors as Status objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from aiohttp import web

from sandbox import errors
from sandbox.access.authentication import Tokens, impersonated
from sandbox.access.authorizer import AllowAll, Authorizer
from sandbox.access.identity import Attributes, Identity
from sandbox.api import discovery, openapi
from sandbox.api.request_bodies import BODY_LIMIT
from sandbox.api.request_info import ResourcePath, attributes, parse_accept, parse_target
from sandbox.api.resources import ResourceApi
from sandbox.api.responses import add_warnings, error_response, json_response, object_response
from sandbox.objects import Obj
from sandbox.store.registry import Registry, RequestContext
from scheduler_core.errors import MusterError

_log = logging.getLogger(__name__)
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})


class HttpApi:
    """Handles all requests of the server. `settled` waits until the writes so far are kept."""

    def __init__(
        self,
        registry: Registry,
        token: str,
        address: str,
        bookmark_seconds: float = 60.0,
        settled: Callable[[], Awaitable[None]] | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._registry = registry
        self._tokens = Tokens(token)
        self._authorizer = authorizer or AllowAll()
        self._address = address
        self._settled = settled
        self.resources = ResourceApi(registry, bookmark_seconds, self._tokens, self._authorizer)
        self._openapi = openapi.OpenApi(registry.kinds)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request; invalid requests get an error response and never raise."""
        context = RequestContext()
        try:
            response = await self._route(request, context)
            if self._settled and request.method != "GET":
                await self._settled()
        except errors.StatusError as error:
            response = error_response(error)
        except web.HTTPRequestEntityTooLarge:
            response = error_response(errors.too_large(BODY_LIMIT))
        except RecursionError:
            response = error_response(errors.bad_request("the object is nested too deep"))
        except (asyncio.CancelledError, ConnectionError, web.HTTPException):
            raise
        except MusterError as error:
            response = error_response(errors.internal(str(error)))
        except Exception as error:
            _log.exception("%s %s failed", request.method, request.path)
            response = error_response(errors.internal(repr(error)))
        if context.warnings and not response.prepared:
            add_warnings(response, context.warnings)
        return response

    async def _route(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        path = request.path
        if path.rpartition("/")[0] in _HEALTH or path in _HEALTH:
            return web.Response(text="ok")
        caller = impersonated(self._tokens.caller(request.headers), request.headers, self._authorizer)
        context.caller = caller
        parts = [unquote(part) for part in request.rel_url.raw_path.split("/") if part]
        if not parts or parts[0] not in ("api", "apis"):
            self._authorize(caller, Attributes(request.method.lower(), path=path))
            return self._document(request, path)
        depth = 2 if parts[0] == "api" else 3
        if len(parts) <= depth:
            if request.method != "GET":
                raise errors.method_not_allowed()
            self._authorize(caller, Attributes("get", path=path))
            return self._discovery(request, parts)
        target = parse_target(self._registry.kinds, parts)
        for wanted in attributes(request.method, target, request.query, request.content_type, self._registry):
            self._authorize(caller, wanted, target)
        return await self.resources.handle(request, target, context)

    def _authorize(self, caller: Identity, wanted: Attributes, target: ResourcePath | None = None) -> None:
        """Raises Forbidden for what the caller may not do."""
        if self._authorizer.allows(caller, wanted)[0]:
            return
        why = wanted.refusal(caller.user)
        if target is None:
            raise errors.StatusError(403, "Forbidden", f"forbidden: {why}")
        raise errors.forbidden(target.kind, target.name, why)

    def _document(self, request: web.BaseRequest, path: str) -> web.Response:
        if path == "/version":
            return object_response(discovery.VERSION)
        if path == "/openapi/v2":
            headers = request.headers
            return self._openapi.v2(headers.get("Accept", ""), headers.get("If-None-Match", ""))
        if path.startswith("/openapi/v3"):
            return json_response(self._openapi.v3(path.removeprefix("/openapi/v3").strip("/")))
        if path == "/":
            return object_response(
                {"paths": ["/api", "/apis", "/healthz", "/openapi/v2", "/openapi/v3", "/version"]}
            )
        raise errors.no_such_path()

    def _discovery(self, request: web.BaseRequest, parts: list[str]) -> web.Response:
        kinds = self._registry.kinds
        core = parts[0] == "api"
        found: Obj | None
        if len(parts) == 1:
            shape = parse_accept(request.headers.get("Accept", ""))
            if shape.as_kind == "APIGroupDiscoveryList":
                response = object_response(discovery.aggregated(kinds, core, shape.version))
                response.headers["Content-Type"] = (
                    f"application/json;g=apidiscovery.k8s.io;v={shape.version};as=APIGroupDiscoveryList"
                )
                response.headers["Vary"] = "Accept"
                return response
            found = discovery.api_versions(self._address) if core else discovery.group_list(kinds)
        elif core:
            found = discovery.resource_list(kinds, "", parts[1])
        elif len(parts) == 2:
            found = discovery.group(kinds, parts[1])
        else:
            found = discovery.resource_list(kinds, parts[1], parts[2])
        if found is None:
            raise errors.no_such_path()
        return object_response(found)
