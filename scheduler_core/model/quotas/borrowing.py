"""The rules among quotas that borrow, alike for the whole cluster (docs/fair-sharing.md)."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.model.names import FAIR_SHARE, FIRST_COME, NEVER


class Borrowing(msgspec.Struct, frozen=True):
    """`order`: who borrows first. `preemption`: whether quotas that borrow take from each other.

    `half_life`: seconds after which what was borrowed counts half in the order; 0: it never counts.
    """

    order: str = FIRST_COME
    preemption: str = NEVER
    half_life: float = 0.0

    @property
    def fair_order(self) -> bool:
        """Whether the quota with the lowest share borrows first."""
        return self.order == FAIR_SHARE

    @property
    def fair_moves(self) -> bool:
        """Whether a quota may take from another one that borrows more."""
        return self.preemption == FAIR_SHARE


# The rules unless something else is asked for.
FIRST_COME_FIRST_SERVED: Final = Borrowing()
