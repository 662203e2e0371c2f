"""Names of properties as identifiers of CEL, which knows no dots in them and has words of its own.

Follows Kubernetes' apiserver/pkg/cel/escaping.go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_RESERVED: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SIGNS: Final = {escape: sign for sign, escape in _ESCAPES.items()}


def escaped(name: str) -> str:
    """The CEL identifier of a property; "" if it has none."""
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return ""
    return re.sub(r"__|[./-]", lambda match: _ESCAPES[match.group()], name)


@lru_cache(maxsize=4096)
def unescaped(identifier: str) -> str:
    """The property that an identifier stands for."""
    if not identifier.startswith("__") and "__" not in identifier:
        return identifier
    if identifier[2:-2] in _RESERVED and identifier == f"__{identifier[2:-2]}__":
        return identifier[2:-2]
    return re.sub("|".join(_SIGNS), lambda match: _SIGNS[match.group()], identifier)
