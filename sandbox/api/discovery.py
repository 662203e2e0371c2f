"""Discovery documents of the served groups, versions and resources, plain and aggregated."""

from __future__ import annotations

import base64
import hashlib

from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.kinds.builtin_types import GIT_VERSION, RELEASE
from sandbox.objects import Obj

VERSION = {
    "major": "1",
    "minor": RELEASE.split(".")[1],
    "gitVersion": GIT_VERSION,
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
"""The response of `/version`: the Kubernetes release that the sandbox follows."""

_SUBRESOURCE_KINDS: dict[str, tuple[str, str, str]] = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}
_SUBRESOURCE_VERBS: dict[str, tuple[str, ...]] = {
    "binding": ("create",),
    "eviction": ("create",),
    "log": ("get",),
    "finalize": ("update",),
}


def api_versions(address: str) -> Obj:
    """The response of `/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group(kinds: KindTable, name: str) -> Obj | None:
    """The response of `/apis/{group}`; None for an unknown group."""
    versions = kinds.groups().get(name)
    if not versions or not name:
        return None
    items = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": items,
        "preferredVersion": items[0],
    }


def group_list(kinds: KindTable) -> Obj:
    """The response of `/apis`."""
    groups = [group(kinds, name) for name in kinds.groups() if name]
    bare = [
        {key: value for key, value in (item or {}).items() if key not in ("kind", "apiVersion")}
        for item in groups
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": bare}


def resource_list(kinds: KindTable, group_name: str, version: str) -> Obj | None:
    """The response of `/api/v1` and `/apis/{group}/{version}`; None for a version that is not served."""
    found = [kind for kind in kinds if kind.group == group_name and kind.version == version]
    if not found:
        return None
    resources = [item for kind in found for item in _resources(kind)]
    group_version = f"{group_name}/{version}" if group_name else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }


def _resources(kind: ApiKind) -> list[Obj]:
    main: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if "get" in kind.verbs:
        main["storageVersionHash"] = storage_version_hash(kind)
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    items = [main]
    for name in kind.subresources:
        body_group, body_version, body_kind = _subresource_kind(kind, name)
        item: Obj = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": body_kind,
            "verbs": list(_verbs(name)),
        }
        if (body_group, body_version) != (kind.group, kind.version):
            item |= {"group": body_group, "version": body_version}
        items.append(item)
    return items


# Kinds that kube-apiserver stores in another version than the served one.
_STORED_AS = {
    "horizontalpodautoscalers.autoscaling": "autoscaling/v2",
    "events": "/v1",
    "customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/v1beta1",
}


def storage_version_hash(kind: ApiKind) -> str:
    """The storageVersionHash in discovery documents: equal hashes mean the same stored version."""
    stored = kind.custom.storage_version if kind.custom else _STORED_AS.get(kind.storage, "")
    text = f"{stored or f'{kind.group}/{kind.version}'}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _subresource_kind(kind: ApiKind, name: str) -> tuple[str, str, str]:
    return _SUBRESOURCE_KINDS.get(name, (kind.group, kind.version, kind.kind))


def _verbs(subresource: str) -> tuple[str, ...]:
    return _SUBRESOURCE_VERBS.get(subresource, ("get", "patch", "update"))


def aggregated(kinds: KindTable, core: bool, version: str) -> Obj:
    """The APIGroupDiscoveryList for `/api` (core) or `/apis`, in apidiscovery.k8s.io `version`."""
    items = [
        {
            "metadata": {"name": name or None, "creationTimestamp": None},
            "versions": [
                {
                    "version": served,
                    "freshness": "Current",
                    "resources": [
                        _aggregated(kind) for kind in kinds if (kind.group, kind.version) == (name, served)
                    ],
                }
                for served in versions
            ],
        }
        for name, versions in kinds.groups().items()
        if core is (not name)
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _aggregated(kind: ApiKind) -> Obj:
    item: Obj = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        item["shortNames"] = list(kind.short_names)
    if kind.categories:
        item["categories"] = list(kind.categories)
    if kind.subresources:
        item["subresources"] = [
            {
                "subresource": name,
                "responseKind": dict(
                    zip(("group", "version", "kind"), _subresource_kind(kind, name), strict=True)
                ),
                "verbs": list(_verbs(name)),
            }
            for name in kind.subresources
        ]
    return item
