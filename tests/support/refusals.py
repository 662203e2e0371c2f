"""Parts of the messages of refused pods that many tests compare."""

from __future__ import annotations

from typing import Final

BEYOND_SUM: Final = ", the sum of min of all quotas; raise a min, or wait until pods end"
"""What follows the numbers where the quotas together exceed the sum of their min."""
