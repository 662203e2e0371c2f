"""Lines of a tree: what stands before each name, in the characters that the output can show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TextIO, TypeVar

T = TypeVar("T")


class Glyphs(NamedTuple):
    """What stands before a child that has younger siblings, before the last child, and above each."""

    child: str
    last: str
    pass_by: str
    nothing: str


BOXES: Final = Glyphs("├─", "└─", "│ ", "  ")
ASCII: Final = Glyphs("|-", "`-", "| ", "  ")


def glyphs_of(stream: TextIO) -> Glyphs:
    """Box characters where the stream can encode them, else ASCII."""
    try:
        "".join(BOXES).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BOXES


def walk(
    root: T, children: Callable[[T], Sequence[T]], glyphs: Glyphs, before: str = "", indent: str = ""
) -> Iterator[tuple[str, T]]:
    """Each node of the tree with what stands before its name, parents before children.

    `before` stands before the root, and `indent` before the lines below it.
    """
    yield before, root
    below = children(root)
    for number, child in enumerate(below, start=1):
        branch, passing = (
            (glyphs.last, glyphs.nothing) if number == len(below) else (glyphs.child, glyphs.pass_by)
        )
        yield from walk(child, children, glyphs, indent + branch, indent + passing)
