"""Conversion of kubectl's flag syntax to click's.

kubectl's flag parser accepts `-n=team-a`, `-o=json`, `--watch=true` and `--no-headers=false`; click does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

SWITCHES: Final = frozenset(
    {
        "--all-namespaces",
        "--figures",
        "--ignore-not-found",
        "--insecure-skip-tls-verify",
        "--no-headers",
        "--show-labels",
        "--show-managed-fields",
        "--tree",
        "--watch",
        "--watch-only",
    }
)
_SHORT_SWITCHES: Final = {"-A": "--all-namespaces", "-w": "--watch"}
_SHORT_VALUE: Final = re.compile(r"-[A-Za-z]=")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def normalise(arguments: Sequence[str]) -> list[str]:
    """The arguments in click's syntax. Arguments after `--` are unchanged."""
    out: list[str] = []
    for i, argument in enumerate(arguments):
        if argument == "--":
            return [*out, *arguments[i:]]
        name, equals, value = argument.partition("=")
        switch = _SHORT_SWITCHES.get(name, name)
        if equals and switch in SWITCHES and value in _TRUE | _FALSE:
            out += [switch] if value in _TRUE else []
        elif _SHORT_VALUE.match(argument):
            out.append(argument[:2] + argument[3:])
        else:
            out.append(argument)
    return out
