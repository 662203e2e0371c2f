"""HTTP responses in JSON, or YAML for who asks for it."""

from __future__ import annotations

import msgspec
import yaml as yaml_text
from aiohttp import web

from sandbox.bodies import encode
from sandbox.errors import StatusError
from sandbox.objects import Obj


def json_response(body: bytes, code: int = 200, *, yaml: bool = False) -> web.Response:
    """A response with bytes that are JSON already."""
    if yaml:
        text = yaml_text.safe_dump(msgspec.json.decode(body), sort_keys=False)
        return web.Response(body=text.encode(), status=code, content_type="application/yaml")
    return web.Response(body=body, status=code, content_type="application/json")


def object_response(obj: Obj, code: int = 200) -> web.Response:
    """A response with an object."""
    return json_response(encode(obj), code)


def error_response(error: StatusError) -> web.Response:
    """The Status of a refused request."""
    response = object_response(error.to_status(), error.code)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry:
        response.headers["Retry-After"] = str(retry)
    return response


def add_warnings(response: web.StreamResponse, warnings: list[str]) -> None:
    """Warnings as kubectl reads them (RFC 7234 Warning headers, code 299)."""
    for text in dict.fromkeys(warnings):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.add("Warning", f'299 - "{quoted}"')
