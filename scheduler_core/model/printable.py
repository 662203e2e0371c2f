"""Escapes untrusted text for terminals and log lines."""

from __future__ import annotations

import re
from typing import Final

# Most of a long text is printable without a look at each character.
_NOT_PLAIN: Final = re.compile("[^ -~]")


def visible(text: str) -> str:
    """The text with invisible characters escaped, so that a name cannot control a terminal or forge a line.

    Escaped are control characters, line ends, what changes the direction of writing, and every space
    but the plain one.
    """
    if text.isprintable():
        return text
    return _NOT_PLAIN.sub(lambda found: _escaped(found[0]), text)


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def visible_lines(text: str) -> str:
    """As `visible`, but line ends and tabs stay as they are."""
    return "\n".join("\t".join(visible(cell) for cell in line.split("\t")) for line in text.split("\n"))
