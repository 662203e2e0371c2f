"""One answer that is another one than ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind` says what is compared; `question` is the input as it was sent."""

    kind: str
    question: Any
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.theirs} beside {self.ours}, for {self.question}"
