"""`kubectl podgroup`: the entry point."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.entry import run
from kubectl_plugin.lazy import LazyGroup
from kubectl_plugin.options import global_flags

NAME: Final = "podgroup"
COMMANDS: Final = {
    "get": ("kubectl_plugin.podgroup_get:get", "Show pod groups and how many members run.", False),
    "status": (
        "kubectl_plugin.podgroup_status:status",
        "Show where groups stand, counted from their pods.",
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
    "completion": ("kubectl_plugin.completion:completion", "Install or print shell completion.", False),
    "version": ("kubectl_plugin.version:version", "Print the version.", False),
    "__complete": ("kubectl_plugin.completion:complete", "", True),
}

podgroup = global_flags(
    LazyGroup(
        NAME,
        COMMANDS,
        help="Pod groups: sets of pods that start together or not at all.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
)


def main() -> None:
    """Console script `kubectl-podgroup`."""
    sys.exit(run(podgroup, NAME))
