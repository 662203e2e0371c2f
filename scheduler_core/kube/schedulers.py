"""Detection of schedulers by name: whether a scheduler that serves pods of a schedulerName is visible.

The signs are: a Lease of that name, or held by a holder of that name; a Muster Lease, which lists all names
that its scheduler serves; a Deployment or Endpoints of that name; an event that it reported; a pod that it
bound. Each sign may be missing although the scheduler works, so only the lack of all signs is conclusive.
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
from scheduler_core.model.names import DEFAULT_SCHEDULER, KUBE_SCHEDULER, SERVES_ANNOTATION
from scheduler_core.model.timestamps import epoch

# Lists objects of a kind in all namespaces by a field selector, at most so many (0: all). Raises ApiError.
Ask = Callable[[Resource, str, int], Sequence[msgspec.Raw]]

# A Lease without a renewal for this time has no holder. Clocks may differ, and a restart takes time.
FORGOTTEN_SECONDS: Final = 300.0
_NOT_OF_NODES: Final = "metadata.namespace!=kube-node-lease"
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# Values that a field selector needs no quoting for. Pods may name anything; some names are misspelt.
_ASKABLE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?")


def is_selectable(scheduler: str) -> bool:
    """Whether a schedulerName can be used in a field selector."""
    return _ASKABLE.fullmatch(scheduler) is not None


def is_subdomain(name: str) -> bool:
    """Whether a text is a valid object name (RFC 1123 subdomain)."""
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
    """Whether a scheduler of this name is visible; True also for a name that cannot be used in a selector.

    `now` is the time of the wall clock. At most five lists, the cheapest first. Raises ApiError.
    """
    if not is_selectable(name) or holds_lease(name, ask(LEASES, _NOT_OF_NODES, 0), now):
        return True
    traces = (
        (DEPLOYMENTS, f"metadata.name={name}"),
        (ENDPOINTS, f"metadata.name={name}"),
        (EVENTS, f"reportingController={name}"),
        (PODS, f"spec.schedulerName={name},spec.nodeName!="),
    )
    return any(ask(kind, selector, 1) for kind, selector in traces)


def holds_lease(name: str, leases: Iterable[msgspec.Raw], now: float) -> bool:
    """Whether one of the leases is current and belongs to a scheduler of this name."""
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
        # The holder identity is the pod's name with a random suffix.
        if name in served or lease.metadata.name == wanted or holder.startswith((f"{wanted}-", f"{wanted}_")):
            return True
    return False
