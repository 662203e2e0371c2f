"""Reads what older versions said in sentences only, where this version reads conditions and fields.

Objects that the version before this one wrote are still understood. The module goes with the next version
(docs/install.md#upgrade): each caller reads the typed value first, and asks here only where there is none.
"""

from __future__ import annotations

from typing import Final

_PREEMPTED_BY: Final = "preempted by "
_UIDS: Final = "/* (uid "
_MEMBER_OF: Final = " of "


def preemptors(message: str) -> tuple[str, ...]:
    """For whom a pod was evicted, from the message of its DisruptionTarget; empty for other texts.

    `preempted by ns/name of PodGroup ns/group (priority 0)`, and `preempted by ns/* (uid u of u, priority 0)`
    where names were hidden.
    """
    head, _, rest = message.partition(_PREEMPTED_BY)
    if head or not rest:
        return ()
    _, hidden, uids = rest.partition(_UIDS)
    found = uids.partition(", ")[0] if hidden else rest.partition(" (")[0]
    return tuple(found.split(_MEMBER_OF))
