"""The few questions that reviews may put to the API server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from scheduler_core.kube.errors import ApiError, KubeconfigError
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.pod_use import PodUse
from webhook.cache import Fresh

T = TypeVar("T")


class Live(Protocol):
    """Reads from the API server; every method raises ApiError."""

    def quotas(self, namespace: str) -> Fresh:
        """The ElasticQuotas of a namespace."""

    def everything(self, namespace: str) -> Fresh:
        """The ElasticQuotas of all namespaces, and the ResourceQuotas of one."""

    def namespace(self, name: str) -> Namespace | None:
        """A namespace, or None."""

    def topologies(self) -> Sequence[ConfigMap]:
        """The topology ConfigMaps of all namespaces that can be read."""

    def serves(self, name: str) -> bool:
        """Whether a scheduler of this name can be seen on the cluster."""

    def is_unlabelled(self, namespace: str, name: str) -> bool:
        """Whether there is a ConfigMap of this name that is no group."""

    def members(self, namespace: str, group: str) -> Sequence[PodUse]:
        """The pods that name a PodGroup of ours."""


class Reads:
    """Questions that may remain without an answer: the cache must do then."""

    def __init__(self, live: Live | None) -> None:
        self._live = live

    def ask(self, question: Callable[[Live], T]) -> T | None:
        """An answer of the API server, or None where it gives none."""
        if self._live is None:
            return None
        try:
            return question(self._live)
        except (ApiError, KubeconfigError):
            return None
