"""Completion candidates from the kubeconfig and the cluster. A failure yields none, without a message."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubectl_plugin.cli.global_flags import ConnectionFlags, connection_arguments
from kubectl_plugin.cluster.object_source import GROUP_KINDS, FoundObject, group_name
from kubectl_plugin.cluster.session import CommandSession
from scheduler_core.errors import MusterError
from scheduler_core.kube.auth.kubeconfig import find_files, load
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS, NAMESPACES, NODES, Resource
from scheduler_core.model.names import SAKKARA_GROUP_LABEL

_TIMEOUT: Final = "2s"
# Flags whose values are names of objects.
OBJECT_FLAGS: Final = {"namespace": NAMESPACES, "like": NODES, "drain": NODES}
_KINDS: Final = {"elasticquota": (ELASTIC_QUOTAS,), "podgroup": GROUP_KINDS}


def flag_values(flag: str, flags: Mapping[str, Any], limit: int) -> list[str]:
    """Values of --context, --cluster and --user; at most `limit` of the flags that name objects."""
    if flag in OBJECT_FLAGS:
        return _names(OBJECT_FLAGS[flag], flags, limit)
    try:
        config = load(find_files(flags.get("kubeconfig") or "", os.environ))
    except MusterError:
        return []
    return sorted({"context": config.contexts, "cluster": config.clusters, "user": config.users}[flag])


def object_names(plugin: str, flags: Mapping[str, Any], limit: int) -> Sequence[str]:
    """Names of at most `limit` of the plugin's objects in the selected namespace; none with -A."""
    if flags.get("all_namespaces"):
        return []
    found = (name for resource in _KINDS[plugin] for name in _names(resource, flags, limit))
    return sorted(dict.fromkeys(found))[:limit]


def _names(resource: Resource, flags: Mapping[str, Any], limit: int) -> list[str]:
    session = CommandSession(ConnectionFlags(**connection_arguments(flags), request_timeout=_TIMEOUT))
    try:
        namespace = session.namespace if resource.namespaced else ""
        labels = SAKKARA_GROUP_LABEL if resource == CONFIG_MAPS else ""
        page = session.client.get_page(
            resource, namespace, label_selector=labels, limit=limit, retry_budget=0.0
        )
        return [group_name(FoundObject(resource, raw)) for raw in page.items or ()]
    except (MusterError, msgspec.MsgspecError):
        return []
    finally:
        session.close()
