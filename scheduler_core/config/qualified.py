"""Checks qualified names (label keys, resource names) by the rules of Kubernetes."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NATIVE: Final = "kubernetes.io/"


def qualified_name_problem(text: str) -> str | None:
    """The reason why `text` is not a valid `[prefix/]name`, or None."""
    prefix, slash, name = text.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return "prefix part must be a lower case DNS subdomain of at most 253 characters"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    if not _NAME.fullmatch(name):
        return (
            "name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
    return None


def is_extended_resource(name: str) -> bool:
    """Whether `name` is a resource outside Kubernetes' own, such as `example.com/gpu`."""
    if "/" not in name or _NATIVE in name or name.startswith("requests."):
        return False
    return qualified_name_problem(f"requests.{name}") is None
