"""Names from kubeconfig and cluster for completion; a failure gives none, for shells show no errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubectl_plugin.candidates import LIMIT, connection_flags
from kubectl_plugin.options import Connection
from kubectl_plugin.session import CommandSession
from scheduler_core.errors import MusterError
from scheduler_core.kube.kubeconfig import find_files, load
from scheduler_core.kube.reading import read_metadata
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NAMESPACES, POD_GROUPS, Resource

_TIMEOUT: Final = "2s"
_KINDS: Final = {"elasticquota": ELASTIC_QUOTAS, "podgroup": POD_GROUPS}


def flag_values(flag: str, flags: Mapping[str, Any]) -> list[str]:
    """Values of --namespace, --context, --cluster and --user."""
    if flag == "namespace":
        return _names(NAMESPACES, flags)
    try:
        config = load(find_files(flags.get("kubeconfig") or "", os.environ))
    except MusterError:
        return []
    return sorted({"context": config.contexts, "cluster": config.clusters, "user": config.users}[flag])


def object_names(plugin: str, flags: Mapping[str, Any]) -> Sequence[str]:
    """Names of the plugin's objects in the namespace that the flags mean; none with -A."""
    return [] if flags.get("all_namespaces") else _names(_KINDS[plugin], flags)


def _names(resource: Resource, flags: Mapping[str, Any]) -> list[str]:
    session = CommandSession(Connection(**connection_flags(flags), request_timeout=_TIMEOUT))
    try:
        place = session.namespace if resource.namespaced else ""
        page = session.client.get_page(resource, place, limit=LIMIT, retry_budget=0.0)
        return [read_metadata(raw).name for raw in page.items or ()]
    except (MusterError, msgspec.MsgspecError):
        return []
    finally:
        session.close()
