"""Completion candidates from the kubeconfig and the cluster. A failure yields none, without a message."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubectl_plugin.cli.global_flags import ConnectionFlags, connection_arguments
from kubectl_plugin.cluster.session import CommandSession
from scheduler_core.errors import MusterError
from scheduler_core.kube.auth.kubeconfig import find_files, load
from scheduler_core.kube.watch.reading import read_metadata
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NAMESPACES, POD_GROUPS, Resource

_TIMEOUT: Final = "2s"
_KINDS: Final = {"elasticquota": ELASTIC_QUOTAS, "podgroup": POD_GROUPS}


def flag_values(flag: str, flags: Mapping[str, Any], limit: int) -> list[str]:
    """Values of --namespace, --context, --cluster and --user; at most `limit` namespaces."""
    if flag == "namespace":
        return _names(NAMESPACES, flags, limit)
    try:
        config = load(find_files(flags.get("kubeconfig") or "", os.environ))
    except MusterError:
        return []
    return sorted({"context": config.contexts, "cluster": config.clusters, "user": config.users}[flag])


def object_names(plugin: str, flags: Mapping[str, Any], limit: int) -> Sequence[str]:
    """Names of at most `limit` of the plugin's objects in the selected namespace; none with -A."""
    return [] if flags.get("all_namespaces") else _names(_KINDS[plugin], flags, limit)


def _names(resource: Resource, flags: Mapping[str, Any], limit: int) -> list[str]:
    session = CommandSession(ConnectionFlags(**connection_arguments(flags), request_timeout=_TIMEOUT))
    try:
        namespace = session.namespace if resource.namespaced else ""
        page = session.client.get_page(resource, namespace, limit=limit, retry_budget=0.0)
        return [read_metadata(raw).name for raw in page.items or ()]
    except (MusterError, msgspec.MsgspecError):
        return []
    finally:
        session.close()
