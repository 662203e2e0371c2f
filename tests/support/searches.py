"""How many cases the random searches play: all of them, or a part where a run has to be short."""

from __future__ import annotations

import os
from typing import Final

PART: Final = int(os.environ.get("MUSTER_SEARCH_PART", "1"))
"""Every search plays one case of so many; `make test` sets it, `make test-searches` plays all."""


def cases(usual: int, variable: str = "", *, least: int = 1) -> int:
    """The number of cases of one search: the variable of the environment, else its part of the usual number.

    A search has a variable if the long searches of the night give it another number. With fewer cases than
    `least` it would say too little.
    """
    asked = os.environ.get(variable) if variable else None
    return int(asked) if asked else max(least, usual // PART)
