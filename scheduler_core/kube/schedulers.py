"""Whether anybody on the cluster schedules pods that name a certain scheduler: what can be seen of it.

A Lease of the name, or one that a holder of the name renews; our own scheduler notes on its Lease all names
that it serves. A Deployment or Endpoints of the name, an event that it reported, a pod that it bound. Each
may be missing where a scheduler is at work, so only the lack of all of them tells anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import DEPLOYMENTS, ENDPOINTS, EVENTS, LEASES, PODS, Resource
from scheduler_core.model.meta import epoch
from scheduler_core.model.names import DEFAULT_SCHEDULER, KUBE_SCHEDULER, SERVES_ANNOTATION

# Objects of a kind in all namespaces by a field selector, at most so many (0: all). Raises ApiError.
Ask = Callable[[Resource, str, int], Sequence[msgspec.Raw]]

# A lease that was not renewed for so long is nobody's; clocks may differ, and whoever restarts takes a while.
FORGOTTEN_SECONDS: Final = 300.0
_NOT_OF_NODES: Final = "metadata.namespace!=kube-node-lease"
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# Pods may name anything. What stands in a selector needs no more than this; some of it is misspelt.
_ASKABLE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?")


def may_be_asked_for(scheduler: str) -> bool:
    """Whether the name of a scheduler, as a pod gives it, can stand in a field selector."""
    return _ASKABLE.fullmatch(scheduler) is not None


def is_subdomain(name: str) -> bool:
    """Whether a text can be the name of an object."""
    return _SUBDOMAIN.fullmatch(name) is not None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


_decoder = decoder(_Lease)


def is_served(name: str, ask: Ask, now: float) -> bool:
    """Whether a scheduler of this name can be seen; True also for a name that cannot be asked for.

    `now` is the wall clock's time. At most five lists, the cheapest first. Raises ApiError.
    """
    if not may_be_asked_for(name) or leased(name, ask(LEASES, _NOT_OF_NODES, 0), now):
        return True
    traces = (
        (DEPLOYMENTS, f"metadata.name={name}"),
        (ENDPOINTS, f"metadata.name={name}"),
        (EVENTS, f"reportingController={name}"),
        (PODS, f"spec.schedulerName={name},spec.nodeName!="),
    )
    return any(ask(kind, selector, 1) for kind, selector in traces)


def leased(name: str, leases: Iterable[msgspec.Raw], now: float) -> bool:
    """Whether one of the leases is alive and that of a scheduler of this name."""
    wanted = KUBE_SCHEDULER if name == DEFAULT_SCHEDULER else name
    for raw in leases:
        try:
            lease = _decoder.decode(raw)
            renewed = epoch(lease.spec.renew_time)
        except (msgspec.MsgspecError, UnicodeError, ModelError):
            continue
        holder = lease.spec.holder_identity or ""
        if not holder or renewed is None or now - renewed > FORGOTTEN_SECONDS:
            continue
        served = (lease.metadata.annotations or {}).get(SERVES_ANNOTATION, "").split(",")
        # The holder is the pod's name and something random.
        if name in served or lease.metadata.name == wanted or holder.startswith((f"{wanted}-", f"{wanted}_")):
            return True
    return False
