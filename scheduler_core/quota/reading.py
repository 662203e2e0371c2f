"""What the rules of admission compare for a charge, for those who tell people about a decision."""

from __future__ import annotations

import msgspec

from scheduler_core.quota.group_limits import Compared, RuleLine
from scheduler_core.quota.policy import Refusal


class AdmissionReading(msgspec.Struct, frozen=True):
    """The lines of all rules in their order, and the refusal, or None where quotas admit the charge.

    A line exceeds its limit exactly where there is a refusal.
    """

    lines: tuple[RuleLine, ...] = ()
    refusal: Refusal | None = None

    def own(self, resource: str) -> Compared | None:
        """What is compared with the max of the quota; None without a max."""
        return self._of("max", resource)

    def total(self, resource: str) -> Compared | None:
        """What is compared with the sum of min; None where that does not limit the charge."""
        return self._of("sum(min)", resource)

    def groups(self, resource: str) -> tuple[RuleLine, ...]:
        """What is compared with the max of QuotaGroups above the quota, the lowest first."""
        return tuple(
            line for line in self.lines if line.rule == "group max" and line.numbers.resource == resource
        )

    def _of(self, rule: str, resource: str) -> Compared | None:
        found = (line.numbers for line in self.lines if line.rule == rule)
        return next((numbers for numbers in found if numbers.resource == resource), None)
