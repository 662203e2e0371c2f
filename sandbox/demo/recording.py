"""Pictures of the demo as files: a picture that shows the same as before stays as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from sandbox.demo.picture import animated
from sandbox.demo.screen import Row

# Ages, how often an event was repeated, and generated endings of names: they differ from run to run.
_AGE: Final = re.compile(r"(?<!\S)(\d{1,3}s|\d{1,2}m(\d{1,2}s)?)(?![^\s)])")
_REPEATED: Final = re.compile(r" \(x\d+ over \*\)")
_GENERATED: Final = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![\w-])")


def save(rows: Sequence[Row], path: Path) -> bool:
    """Write a picture of rows unless the file shows them; returns whether it wrote. Raises OSError."""
    picture = animated(rows, _title(rows))
    if path.exists() and story(path.read_text(encoding="utf-8")) == story(picture):
        return False
    path.write_text(picture, encoding="utf-8")
    return True


def story(picture: str) -> str:
    """All words of a picture, without ages, repetitions and generated names; "" if it is no picture."""
    try:
        root = ElementTree.fromstring(picture)
    except ElementTree.ParseError:
        return ""
    lines = ["".join(line.itertext()) for line in root.iter("{http://www.w3.org/2000/svg}text")]
    return lasting("\n".join(lines))


def lasting(text: str) -> str:
    """The words of a text, without what differs from run to run."""
    return _GENERATED.sub("-*", _REPEATED.sub("", _AGE.sub("*", " ".join(text.split()))))


def _title(rows: Sequence[Row]) -> str:
    titles = [row.text.strip("= ") for row in rows if row.style == "title"]
    return "; ".join(re.sub(r"^\d+\. ", "", title) for title in titles)
