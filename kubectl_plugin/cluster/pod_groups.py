"""The kinds of PodGroups, and the fields of a PodGroup that `kubectl podgroup get` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler_core.model.groups.gang import Gang, parse_gang, parse_native_gang, parse_x_gang
from scheduler_core.model.kinds import NATIVE_POD_GROUPS, POD_GROUPS, X_POD_GROUPS, Resource
from scheduler_core.model.meta import ApiObject, decode

# Every kind of PodGroup with its parser, which raises ModelError.
POD_GROUP_KINDS: Final[tuple[tuple[Resource, Callable[[Any], Gang]], ...]] = (
    (POD_GROUPS, parse_gang),
    (X_POD_GROUPS, parse_x_gang),
    (NATIVE_POD_GROUPS, parse_native_gang),
)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int = 0
    total_resources: dict[str, Any] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PrintedPodGroup(ApiObject, frozen=True, rename="camel"):
    """Metadata, spec and status of a PodGroup (incubator.scheduling.k8s.io), as far as they are printed."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


def parse_printed(raw: msgspec.Raw | bytes) -> PrintedPodGroup:
    """Decode a PodGroup. Raises ModelError."""
    return decode(raw, PrintedPodGroup, POD_GROUPS.kind)
