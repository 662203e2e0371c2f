"""The minor versions of Kubernetes beside which Muster is put: a new one is a pin and a line."""

from __future__ import annotations

from typing import Final

from scheduler_core.model.pods.requests import ResizeRule

# Minor version to what its tools (tests/tools) add to their names.
MINORS: Final = {"1.36": "", "1.37": "-1.37"}
NEWEST: Final = "1.37"


def tool(name: str, minor: str) -> str:
    """The tool of a minor version: `kube-scheduler`, `kube-scheduler-1.37`."""
    return f"{name}{MINORS[minor]}"


def resize_rule(minor: str) -> ResizeRule:
    """What resized pods count for in a minor version."""
    major, _, number = minor.partition(".")
    return ResizeRule.of((int(major), int(number)))
