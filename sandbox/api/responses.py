"""HTTP responses in JSON, or in YAML on request."""

from __future__ import annotations

import msgspec
import yaml as yaml_text
from aiohttp import web

from sandbox.errors import StatusError
from sandbox.objects import Obj, encode_json


def json_response(body: bytes, code: int = 200, *, yaml: bool = False) -> web.Response:
    """A response with encoded JSON."""
    if yaml:
        text = yaml_text.safe_dump(msgspec.json.decode(body), sort_keys=False)
        return web.Response(body=text.encode(), status=code, content_type="application/yaml")
    return web.Response(body=body, status=code, content_type="application/json")


def object_response(obj: Obj, code: int = 200) -> web.Response:
    """A response with an object."""
    return json_response(encode_json(obj), code)


def error_response(error: StatusError) -> web.Response:
    """A response with the Status of a refused request."""
    response = object_response(error.to_status(), error.code)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry:
        response.headers["Retry-After"] = str(retry)
    return response


def add_warnings(response: web.StreamResponse, warnings: list[str]) -> None:
    """Add warnings for kubectl (Warning headers of RFC 7234 with code 299)."""
    for text in dict.fromkeys(warnings):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.add("Warning", f'299 - "{quoted}"')
