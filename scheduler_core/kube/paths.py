"""URL paths of API resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from scheduler_core.model.kinds import Resource

# What nearly every name is made of, and stands for itself in a path.
_PLAIN = re.compile(r"[a-z0-9.-]+")


def api_root(resource: Resource) -> str:
    """`/api/v1` for the core group, `/apis/<group>/<version>` otherwise."""
    if resource.group:
        return f"/apis/{resource.group}/{resource.version}"
    return f"/api/{resource.version}"


def resource_path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a collection (no `name`), an object or its subresource.

    An empty namespace of a namespaced resource means all namespaces, which only a collection has; the
    namespace of a cluster-scoped resource is ignored. Raises ValueError for an object without a namespace.
    """
    parts = [api_root(resource)]
    if resource.namespaced and namespace:
        parts.append(f"namespaces/{_quoted(namespace)}")
    elif resource.namespaced and name:
        raise ValueError(f"{resource.kind} {name}: a namespaced object needs a namespace")
    parts.append(resource.plural)
    if name:
        parts.append(_quoted(name))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


def with_query(path: str, query: Mapping[str, str | int | bool | None]) -> str:
    """`path` with the parameters that are set; booleans as Kubernetes spells them."""
    pairs = [(key, _spell(value)) for key, value in query.items() if value not in (None, "", False)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _spell(value: str | int | bool | None) -> str:
    return "true" if value is True else str(value)
