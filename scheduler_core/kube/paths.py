"""URL paths of API resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, urlencode

from scheduler_core.model.kinds import Resource

# Names of these characters need no quoting in a path.
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
    if resource.namespaced and name and not namespace:
        raise ValueError(f"{resource.kind} {name}: a namespaced object needs a namespace")
    path = _collection(resource, namespace)
    if name:
        path = f"{path}/{_quoted(name)}"
    return f"{path}/{subresource}" if subresource else path


@lru_cache(4096)
def _collection(resource: Resource, namespace: str) -> str:
    if resource.namespaced and namespace:
        return f"{api_root(resource)}/namespaces/{_quoted(namespace)}/{resource.plural}"
    return f"{api_root(resource)}/{resource.plural}"


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


def with_query(path: str, query: Mapping[str, str | int | bool | None]) -> str:
    """`path` with the parameters that are set; booleans as Kubernetes writes them."""
    pairs = [(key, _spell(value)) for key, value in query.items() if value not in (None, "", False)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _spell(value: str | int | bool | None) -> str:
    return "true" if value is True else str(value)
