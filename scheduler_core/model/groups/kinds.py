"""Every kind of PodGroup with its parser, for all who read the groups of every dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler_core.model.groups.gang import Gang, parse_gang, parse_x_gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.kinds import NATIVE_POD_GROUPS, POD_GROUPS, X_POD_GROUPS, Resource

# The parsers read raw JSON or a dict, and raise ModelError.
POD_GROUP_KINDS: Final[tuple[tuple[Resource, Callable[[Any], Gang]], ...]] = (
    (POD_GROUPS, parse_gang),
    (X_POD_GROUPS, parse_x_gang),
    (NATIVE_POD_GROUPS, parse_native_gang),
)
# Those whose conditions Muster writes.
TOLD_POD_GROUP_KINDS: Final = tuple(kind for kind in POD_GROUP_KINDS if kind[0] != X_POD_GROUPS)
