"""What a plugin has to say about one member of a unit that the engine places as a whole: nothing any more."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.status import SUCCESS, Status
from scheduler_core.model.writes import Write


class PlacedTogether:
    """Reserve, Permit and PostBind of plugins whose groups are tried as one.

    Configurations name these points; all members hold node and quota in the state before any one is bound.
    """

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """A member that waits for its siblings holds its node in the state itself."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """The state forgets the member."""

    def permit(self, cycle: Cycle, slot: int) -> tuple[Status, float]:
        """The quorum holds nodes already, so nobody waits here."""
        return SUCCESS, 0.0

    def post_bind(self, cycle: Cycle, slot: int) -> Sequence[Write]:
        """The group's status follows from its pods: a controller writes it."""
        return ()
