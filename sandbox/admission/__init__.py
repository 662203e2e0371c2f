"""Admission chain of the sandbox's API server: built-in plugins and webhooks in kube-apiserver's order."""

from __future__ import annotations

from sandbox.admission.chain import Chain
from sandbox.admission.webhook_client import ServiceTable
from sandbox.store.registry import Registry

__all__ = ["Chain", "build_chain"]


def build_chain(registry: Registry, services: ServiceTable | None = None) -> Chain:
    """The admission chain of a registry.

    `services` maps (namespace, name) of a webhook's `clientConfig.service` to its address (host, port).
    """
    return Chain(registry.store, registry.kinds, services)
