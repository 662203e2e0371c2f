"""What a sandbox may start with: the objects of a file.

It stands apart from what reads the file, which needs the simulation: a sandbox without a file imports none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.objects import Obj


@dataclass(frozen=True)
class Seed:
    """The objects of a file, each with its place in the file.

    `config` is the scheduler's configuration of a scenario; `steps` is the number of its steps, which are not
    played.
    """

    file: str
    objects: tuple[tuple[str, Obj], ...]
    config: Mapping[str, Any] | None = None
    steps: int = 0

    @property
    def nodes(self) -> int:
        """The number of nodes among the objects."""
        return sum(obj["kind"] == "Node" for _, obj in self.objects)
