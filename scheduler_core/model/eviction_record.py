"""What an Event about an eviction says for programs: who took the place, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.model.names import EVICTION_ANNOTATION

_Text = Annotated[str, msgspec.Meta(max_length=700)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
# As many names as the history keeps of one preemption.
_Names = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=20)]


class EvictionRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`by` is the pod or group that took the place, `by_quota` the quota for which another one gave back.

    Of a quota that gave back: `resources` as quantities, the names of the first `pods`, and how many there
    are (`count`); 0 in the record of one pod.
    """

    by: _Text
    by_quota: _Text = ""
    resources: dict[str, str] = {}
    pods: _Names = ()
    count: _Count = 0

    def annotations(self) -> dict[str, str]:
        """The annotation of the Event."""
        return {EVICTION_ANNOTATION: msgspec.json.encode(self).decode()}


_decoder = decoder(EvictionRecord)


def eviction_record(annotations: Mapping[str, str] | None) -> EvictionRecord | None:
    """The record in the annotations of an Event; None without one, and for one that cannot be read."""
    text = (annotations or {}).get(EVICTION_ANNOTATION)
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
