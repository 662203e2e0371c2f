"""`kubectl podgroup`: the entry point."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.entry import run
from kubectl_plugin.lazy import plugin

NAME: Final = "podgroup"
COMMANDS: Final = {
    "get": ("kubectl_plugin.podgroup_get:get", "Show pod groups and how many members run.", False),
    "status": (
        "kubectl_plugin.podgroup_status:status",
        "Show where groups stand, counted from their pods.",
        False,
    ),
    "adopt": (
        "kubectl_plugin.podgroup_adopt:adopt",
        "Bring a group's pods back from another scheduler.",
        False,
    ),
    "rank": (
        "kubectl_plugin.podgroup_rank:rank",
        "Show the ranks of a group's members, and how far apart they are.",
        False,
    ),
    "topology": (
        "kubectl_plugin.podgroup_topology:topology",
        "Show the topology tree, what is free, and where a group sits.",
        False,
    ),
}

podgroup = plugin(NAME, COMMANDS, "Pod groups: sets of pods that start together or not at all.")


def main() -> None:
    """Console script `kubectl-podgroup`."""
    sys.exit(run(podgroup, NAME))
