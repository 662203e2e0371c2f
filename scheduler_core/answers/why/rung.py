"""A check that waiting work has to pass, with its outcome and its numbers as text."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

State = Literal["ok", "blocked", "unknown"]
OK: Final = "ok"
BLOCKED: Final = "blocked"
UNKNOWN: Final = "unknown"


class Rung(msgspec.Struct, frozen=True):
    """One check: `blocked` if it alone keeps the work waiting, `unknown` if its objects were not read."""

    name: str
    state: State
    text: str
