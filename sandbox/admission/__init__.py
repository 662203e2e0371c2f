"""Admission of the sandbox's API server: built-in plugins and webhooks, in the order of Kubernetes."""

from __future__ import annotations

from sandbox.admission.chain import Chain
from sandbox.admission.webhook_client import ServiceTable
from sandbox.registry import Registry

__all__ = ["Chain", "build_chain"]


def build_chain(registry: Registry, services: ServiceTable | None = None) -> Chain:
    """The chain for a registry's objects.

    `services` says where a webhook's `clientConfig.service` of (namespace, name) listens (host, port).
    """
    return Chain(registry.store, registry.kinds, services)
