"""How old the webhook's view of the cluster may be, and what it says when it is older.

A watch that is silent for too long is opened again by its reflector, so a view grows old only while the API
server cannot be reached by us, though we are reached by it. Then the decision is still made: allowing on what
was known last, refusing only after a fresh read, and saying so in a warning and an audit annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from webhook.verdict import Verdict

# A healthy watch of a quiet resource is heard of at least this often (see Pace.silence), with room to spare.
STALE_SECONDS: Final = 90.0


class Freshness:
    """`ages()` gives the seconds since each watched resource was last heard of, by plural name."""

    def __init__(self, ages: Callable[[], Mapping[str, float]] = dict) -> None:
        self.ages = ages

    def noted(self, verdict: Verdict) -> Verdict:
        """The verdict, with a warning if it may rest on what is no longer true."""
        age = max(self.ages().values(), default=0.0)
        if age <= STALE_SECONDS:
            return verdict
        words = f"the muster webhook has not heard of changes in the cluster for {age:.0f} s"
        return msgspec.structs.replace(
            verdict,
            warnings=(*verdict.warnings, words),
            audit={**verdict.audit, "stale-seconds": f"{age:.0f}"},
        )
