"""Expectations that scenario files carry in their header, as YAML in comments."""

from __future__ import annotations

from typing import Any

import yaml

_INDENT = "#   "


def expectation(text: str, title: str) -> Any:
    """The value below the comment `# TITLE:` of a scenario file: the comments that are indented further.

    Raises ValueError where the file has no such comment, or more than one.
    """
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line == f"# {title}:"]
    if len(heads) != 1:
        raise ValueError(f"{len(heads)} comments '# {title}:', expected one")
    below = lines[heads[0] + 1 :]
    count = next((n for n, line in enumerate(below) if not line.startswith(_INDENT)), len(below))
    return yaml.load("\n".join(line.removeprefix(_INDENT) for line in below[:count]), yaml.CSafeLoader)
