"""The kinds of objects that a scenario may contain: some are read, some only stored."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, NamedTuple

from scheduler_core.errors import ConfigError
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.kinds import NATIVE_POD_GROUPS, Resource
from scheduler_core.model.kinds import WORKLOADS as NATIVE_WORKLOADS
from scheduler_core.model.watched import COMPOSITES, WATCHED, Parse


class Kind(NamedTuple):
    """One kind of object; `parse` is None if the scheduler does not read it."""

    api_version: str
    name: str
    namespaced: bool = True
    parse: Parse | None = None


# Kinds that create pods in a cluster; a simulation runs no controller for them.
WORKLOADS: Final = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
_CLUSTER_WIDE: Final = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "PriorityClass", "RuntimeClass", "VolumeAttachment"}
)
# Other kinds that are common in manifests with pods, nodes and quotas.
_STORED: Final = {
    "v1": (
        *("Endpoints", "Event", "LimitRange", "ReplicationController", "ResourceQuota", "Secret"),
        *("Service", "ServiceAccount"),
    ),
    "apps/v1": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("CronJob", "Job"),
    "coordination.k8s.io/v1": ("Lease",),
    "events.k8s.io/v1": ("Event",),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "node.k8s.io/v1": ("RuntimeClass",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "storage.k8s.io/v1": ("VolumeAttachment",),
}


def _served(resource: Resource, parse: Parse | None) -> list[Kind]:
    """One entry per version: kinds with several versions are served in all of them at once."""
    if resource == NATIVE_POD_GROUPS:
        parsers: list[Parse | None] = [
            partial(parse_native_gang, version=version) for version in resource.versions
        ]
    else:
        parsers = [parse] * max(1, len(resource.versions))
    versions = [f"{resource.group}/{version}" for version in resource.versions] or [resource.api_version]
    return [
        Kind(version, resource.kind, resource.namespaced, parser)
        for version, parser in zip(versions, parsers, strict=True)
    ]


_KINDS: Final = (
    *(kind for resource, parse in (*WATCHED, COMPOSITES) for kind in _served(resource, parse)),
    *_served(NATIVE_WORKLOADS, None),
    *(Kind(version, name, name not in _CLUSTER_WIDE) for version, names in _STORED.items() for name in names),
)
_BY_NAME: Final[dict[str, list[Kind]]] = {}
for _kind in _KINDS:
    _BY_NAME.setdefault(_kind.name, []).append(_kind)


def full_name(name: str, api_version: str) -> str:
    """The name of a kind that tells it from kinds of other API groups: `PodGroup.scheduling.k8s.io`.

    The first group that has the kind, and kinds that the scheduler does not read, need no more than the name.
    """
    groups = [_group(kind.api_version) for kind in _BY_NAME.get(name, ()) if kind.parse]
    group = _group(api_version)
    return f"{name}.{group}" if api_version and group in groups and group != groups[0] else name


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def api_versions() -> dict[str, list[str]]:
    """The kinds that a scenario may contain, each with the versions that serve it."""
    return {name: [kind.api_version for kind in served] for name, served in _BY_NAME.items()}


def has_reader(name: str) -> bool:
    """Whether the scheduler reads objects of this kind."""
    return any(kind.parse is not None for kind in _BY_NAME.get(name, ()))


def is_namespaced(name: str) -> bool:
    """Whether a kind is namespaced; unknown kinds count as namespaced."""
    return name not in _BY_NAME or _BY_NAME[name][0].namespaced


def api_version_of(obj: Mapping[str, Any]) -> str:
    """The apiVersion of an object of a known kind; without one, that of the first kind with the name."""
    return str(obj.get("apiVersion") or _BY_NAME[str(obj.get("kind"))][0].api_version)


def parser_of(obj: Mapping[str, Any]) -> Parse | None:
    """The parser of an object's kind; without an apiVersion that of the first kind with the name."""
    version = obj.get("apiVersion")
    served = (
        kind for kind in _BY_NAME.get(str(obj.get("kind")), ()) if version in (None, "", kind.api_version)
    )
    return next((kind.parse for kind in served), None)


def check_kind(obj: Mapping[str, Any], path: str) -> None:
    """Check an object's kind. Raises ConfigError if it does not exist or its apiVersion does not serve it."""
    name, version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path}.kind", "is required")
    if name not in _BY_NAME:
        near = {known.lower(): known for known in _BY_NAME}
        close = get_close_matches(name.lower(), near, n=1)
        hint = f"did you mean {near[close[0]]}?" if close else f"known are {', '.join(sorted(_BY_NAME))}"
        raise ConfigError(f"{path}.kind", f'"{name}" is not a kind that a simulation knows ({hint})')
    served = [kind.api_version for kind in _BY_NAME[name]]
    if version not in (None, "", *served):
        problem = f'"{version}" does not serve {name} (served by {", ".join(served)})'
        raise ConfigError(f"{path}.apiVersion", problem)
