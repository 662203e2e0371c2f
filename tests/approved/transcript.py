"""The form of a transcript: a head, commands, and the whole output of each.

The first lines, `key: value`, are the head. A line that begins with `$ ` is a command; its output follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The lines that a command prints.
Play = Callable[[str], Iterable[str]]


@dataclass
class Transcript:
    """The head of a file, and its commands."""

    head: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """What is to be played; outputs are left out."""
        found = cls()
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("$ "):
                found.commands.append(line[2:])
            elif not found.commands and ": " in line:
                key, _, value = line.partition(": ")
                found.head[key] = value
        return found

    def listed(self, key: str) -> list[str]:
        """The values of an entry of the head, which commas separate."""
        return [value.strip() for value in self.head.get(key, "").split(",") if value.strip()]

    def played(self, play: Play) -> str:
        """The file with the outputs of now."""
        lines = [f"{key}: {value}" for key, value in self.head.items()]
        for command in self.commands:
            lines += ["", f"$ {command}", *play(command)]
        return "\n".join(lines) + "\n"


def words_of(head: Mapping[str, str], *known: str) -> None:
    """Refuse an entry of a head that nobody reads."""
    assert set(head) <= set(known), f"{sorted(head)}: known are {', '.join(known)}"
