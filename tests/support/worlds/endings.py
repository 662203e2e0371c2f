"""When pods that were deleted end, and which of them others wait for (docs/quota.md#how-long-a-victim-has).

Shares no code with the engine. What a deletion writes down stands here, too.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final

Raw = dict[str, Any]

# What Kubernetes gives a pod that does not say how long it takes, and what a victim gets at most.
DEFAULT_GRACE: Final = 30
LIMIT: Final = 300
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
# Nanoseconds as int64: with a longer grace period the time of the end has wrapped around, and tells nothing.
MOST_COUNTED: Final = (2**63 - 1) // 10**9

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def going(pod: Raw) -> bool:
    """Whether the pod was deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def seconds(text: str) -> float:
    """A time of the API in seconds since the epoch."""
    return (datetime.fromisoformat(text) - _EPOCH).total_seconds()


def stamp(moment: float) -> str:
    """The same as the API writes it, in whole seconds."""
    return (_EPOCH + timedelta(seconds=int(moment))).strftime("%Y-%m-%dT%H:%M:%SZ")


def grace_of(pod: Raw) -> int | None:
    """The grace period of a deletion in seconds; None where nobody wrote one down."""
    found = pod["metadata"].get("deletionGracePeriodSeconds")
    return None if found is None else int(found)


def ends(pod: Raw, node: Raw | None) -> float:
    """When a deleted pod will have ended; infinite if nobody can tell, or nobody is there to end it."""
    grace = grace_of(pod)
    if not is_heard(node) or (grace is not None and grace > MOST_COUNTED):
        return math.inf
    return seconds(pod["metadata"]["deletionTimestamp"])


def leaves(pod: Raw, node: Raw | None, now: float) -> bool:
    """Whether others wait for a pod: it ends within the limit. No server writes no grace period."""
    return going(pod) and (grace_of(pod) is None or ends(pod, node) - LIMIT <= now)


def may_be_hurried(pod: Raw, node: Raw | None, now: float) -> bool:
    """Whether a deleted pod ends too late to be waited for, and sooner if it is deleted again."""
    grace = grace_of(pod)
    late = going(pod) and not leaves(pod, node, now)
    return late and is_heard(node) and grace is not None and grace > LIMIT


def is_heard(node: Raw | None) -> bool:
    """Whether a node is there, and its kubelet reports."""
    taints = (node["spec"].get("taints") or ()) if node is not None else ()
    return node is not None and all(item["key"] != UNREACHABLE for item in taints)


def deletion(began: float, grace: int) -> Raw:
    """What a deletion writes into the metadata of a pod; a time that cannot be counted has wrapped around."""
    end = began + grace if grace <= MOST_COUNTED else began - 1
    return {"deletionTimestamp": stamp(end), "deletionGracePeriodSeconds": grace}


def shortened(pod: Raw, grace: int, now: float) -> Raw | None:
    """What a second deletion writes: it can only shorten the time, which counts from the first one.

    When that was is not known of a time that has wrapped around: it counts from now.
    """
    before = grace_of(pod)
    if before is None or before <= grace:
        return None
    first = seconds(pod["metadata"]["deletionTimestamp"]) - before
    return deletion(first if before <= MOST_COUNTED else now, grace)
