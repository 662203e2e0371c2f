"""Warns if decisions rest on an outdated cache.

A reflector reopens a watch that is silent for too long, so the cache becomes outdated only while the webhook
cannot reach an API server that can reach the webhook. Reviews are still decided: allowed by the last known
state, refused only after a fresh read, with a warning and an audit annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from webhook.policy.verdict import Verdict

# A healthy watch of an unchanged resource gets bookmarks far more often than this.
STALE_SECONDS: Final = 90.0


class Freshness:
    """Marks verdicts. `ages()` gives the seconds since the last event of each watched resource, by plural."""

    def __init__(self, ages: Callable[[], Mapping[str, float]] = dict) -> None:
        self.ages = ages

    def noted(self, verdict: Verdict) -> Verdict:
        """The verdict, with a warning and an audit annotation if the cache is outdated."""
        age = max(self.ages().values(), default=0.0)
        if age <= STALE_SECONDS:
            return verdict
        words = f"the muster webhook has not heard of changes in the cluster for {age:.0f} s"
        return msgspec.structs.replace(
            verdict,
            warnings=(*verdict.warnings, words),
            audit={**verdict.audit, "stale-seconds": f"{age:.0f}"},
        )
