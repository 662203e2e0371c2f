"""Reads who uses the quotas of a namespace: quotas, pods, and the controllers of the pods' controllers."""

from __future__ import annotations

from typing import Final

import msgspec

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.node_flavors import node_flavors
from kubectl_plugin.cluster.pods import pod_parser
from kubectl_plugin.cluster.reading import (
    UNFINISHED,
    ListClient,
    ListScope,
    list_or_none,
    list_raw,
    parsed,
)
from kubectl_plugin.inspection.owners import read_parents
from scheduler_core.answers.usage import UNKNOWN, ChargedPod, QuotaUse, owner_of, quota_uses, user_of
from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota

UNKNOWN_LENDERS: Final = (
    "note: lenders are not known: they need the ElasticQuotas and pods of all namespaces, "
    "which you may not list"
)


class Usage(msgspec.Struct, frozen=True):
    """The uses of the quotas in scope, and the pods that make them."""

    uses: list[QuotaUse]
    pods: list[ChargedPod]


def read_usage(client: ListClient, namespace: str, diagnostics: Diagnostics, *, owners: bool) -> Usage:
    """The use of the quotas of a namespace (all if empty).

    `owners`: read the controllers of ReplicaSets and Jobs. Raises the ApiError tree.
    """
    listed = _whole(client)
    whole = listed is not None
    if listed is None:
        if namespace:
            diagnostics.note(UNKNOWN_LENDERS)
        own = ListScope(namespace)
        listed = (list_raw(client, ELASTIC_QUOTAS, own), list_raw(client, PODS, _unfinished(namespace)))
    view = ClusterView()
    for quota in parsed(listed[0], parse_elastic_quota, diagnostics.unreadable):
        view.put_quota(quota)
    view.node_flavors = node_flavors(client, view.ledger.quotas(), diagnostics.note) or {}
    found: list[tuple[Pod, msgspec.Raw]] = []
    parse = pod_parser(client)
    for raw in listed[1]:
        for pod in parsed([raw], parse, diagnostics.unreadable):
            view.put_pod(pod)
            if pod.counts and namespace in ("", pod.namespace):
                found.append((pod, raw))
    parents = read_parents(client, namespace, (pod for pod, _ in found))[0] if owners else {}
    pods = [ChargedPod(pod, owner_of(pod, parents), _user(raw)) for pod, raw in found]
    uses = [use for use in quota_uses(view.ledger, pods, whole=whole) if namespace in ("", use.namespace)]
    return Usage(uses, pods)


def _unfinished(namespace: str) -> ListScope:
    return ListScope(namespace, fields=UNFINISHED)


def _whole(client: ListClient) -> tuple[list[msgspec.Raw], list[msgspec.Raw]] | None:
    """The quotas and unfinished pods of all namespaces; None if the user may not list them."""
    quotas = list_or_none(client, ELASTIC_QUOTAS, ListScope())
    pods = list_or_none(client, PODS, _unfinished("")) if quotas is not None else None
    return None if quotas is None or pods is None else (quotas, pods)


def _user(raw: msgspec.Raw) -> str:
    try:
        return user_of(raw)
    except ModelError:
        return UNKNOWN
