"""Escapes untrusted text for terminals and log lines."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with invisible characters escaped, so that a name cannot control a terminal or forge a line.

    Escaped are control characters, line ends, what changes the direction of writing, and every space
    but the plain one.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def visible_lines(text: str) -> str:
    """As `visible`, but line ends and tabs stay as they are."""
    return "\n".join("\t".join(visible(cell) for cell in line.split("\t")) for line in text.split("\n"))
