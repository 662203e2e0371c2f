"""Reads what older versions said in sentences only, where this version reads conditions and fields.

Objects that the version before this one wrote are still understood. The module goes with the next version
(docs/install.md#upgrade): each caller reads the typed value first, and asks here only where there is none.
"""

from __future__ import annotations

import re
from typing import Final

from scheduler_core.model.eviction_record import EvictionRecord

_PREEMPTED_BY: Final = "preempted by "
_UIDS: Final = "/* (uid "
_MEMBER_OF: Final = " of "
_TAKEN_BY: Final = re.compile(
    r"preempted by (?P<pod>[^\s/]{1,253}/[^\s/]{1,253})(?: of (?P<group>[^()]{1,600}))? "
    r"\(priority -?\d{1,11}\)"
)
_FOR_QUOTA: Final = re.compile(
    r"(?:which reclaims the min of|a fair move for) ElasticQuota (?P<quota>[^\s;]{1,600})"
)
_OF_QUOTA: Final = re.compile(r"(?P<count>\d{1,9}) pods? \((?P<pods>[^)]{1,2000})\) with (?P<amounts>\S*)")
_MORE: Final = re.compile(r" and \d{1,9} more$")


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


def eviction(note: str) -> EvictionRecord | None:
    """What the note of an Event tells of an eviction; None for other notes.

    `2 pods (a, b) with cpu=2 were preempted by ns/name (priority 0), which reclaims the min of ElasticQuota
    ns/quota` on a quota; the same from `preempted by` on on a pod.
    """
    taken = _TAKEN_BY.search(note)
    if taken is None:
        return None
    by_quota, lost = _FOR_QUOTA.search(note), _OF_QUOTA.match(note)
    by, quota = taken["group"] or f"Pod {taken['pod']}", by_quota["quota"] if by_quota else ""
    if lost is None:
        return EvictionRecord(by, quota)
    resources = dict(part.partition("=")[::2] for part in lost["amounts"].split(","))
    names = tuple(_MORE.sub("", lost["pods"]).split(", "))
    return EvictionRecord(by, quota, resources, names, int(lost["count"]))
