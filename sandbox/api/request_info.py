"""Request info: the resource of a URL path, and the representation that an Accept header requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sandbox import errors
from sandbox.access.identity import Attributes
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.store.registry import Registry


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A resource path. `name` and `subresource` are "" for a collection.

    `namespace` is "" for all namespaces and for cluster-scoped kinds.
    """

    kind: ApiKind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_target(kinds: KindTable, parts: list[str]) -> ResourcePath:
    """The resource of the parts of `/api/v1/...` or `/apis/{group}/{version}/...`. Raises NotFound."""
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    else:
        if len(parts) < 4:
            raise errors.no_such_path()
        group, version, rest = parts[1], parts[2], parts[3:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces":
        inner = kinds.find(group, version, rest[2])
        # `namespaces/x/status` is a subresource of the namespace, `namespaces/x/pods` a collection in it.
        if inner is not None and inner.namespaced:
            namespace, rest = rest[1], rest[2:]
        elif group or len(rest) > 3:
            raise errors.no_such_path()
    kind = kinds.find(group, version, rest[0])
    if kind is None or len(rest) > 3:
        raise errors.no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if kind.namespaced and name and not namespace:
        raise errors.no_such_path()
    if subresource and subresource not in kind.subresources:
        raise errors.no_such_path()
    return ResourcePath(kind, namespace, name, subresource)


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_APPLY = "application/apply-patch+yaml"


def attributes(
    method: str, target: ResourcePath, query: Mapping[str, str], media: str, registry: Registry
) -> Iterator[Attributes]:
    """What a request on a resource does: one thing, or two where an apply creates the object."""
    if method in ("GET", "HEAD"):
        watches = query.get("watch") in ("true", "1", "True")
        verb = "watch" if watches else "get" if target.name else "list"
    else:
        verb = _VERBS.get(method, method.lower())
        if verb == "delete" and not target.name:
            verb = "deletecollection"
    kind, named = target.kind, target.name
    # A namespace is an object in itself, for roles.
    namespace = named if kind.storage == "namespaces" else target.namespace
    wanted = Attributes(verb, kind.group, kind.plural, target.subresource, namespace, named)
    yield wanted
    if (
        media == _APPLY
        and not target.subresource
        and registry.store.version(kind, target.namespace, named) is None
    ):
        yield replace(wanted, verb="create")


@dataclass(frozen=True, slots=True)
class Representation:
    """Requested representation: `as_kind` is "" for the object itself, or Table, or another kind."""

    as_kind: str = ""
    version: str = "v1"
    yaml: bool = False


PLAIN = Representation()
_OFFERED = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList")


def parse_accept(header: str) -> Representation:
    """The first supported representation in an Accept header. Raises NotAcceptable if there is none."""
    if not header or header in ("application/json", "*/*"):
        return PLAIN
    for item in header.split(","):
        media, *params = (part.strip() for part in item.split(";"))
        options = dict(param.partition("=")[::2] for param in params)
        as_kind = options.get("as", "")
        if media in ("application/json", "*/*", "application/*"):
            if as_kind in _OFFERED:
                return Representation(
                    as_kind.removesuffix("List") if "Meta" in as_kind else as_kind, options.get("v", "v1")
                )
            if not as_kind:
                return PLAIN
        if media == "application/yaml" and not as_kind:
            return Representation(yaml=True)
    raise errors.not_acceptable("application/json;as=Table;v=v1;g=meta.k8s.io")
