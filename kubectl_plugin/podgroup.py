"""Entry point and command table of `kubectl podgroup`."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.cli.entry import run
from kubectl_plugin.cli.lazy_group import plugin

NAME: Final = "podgroup"
COMMANDS: Final = {
    "get": ("kubectl_plugin.commands.podgroup_get:get", "Show pod groups and how many members run.", False),
    "status": (
        "kubectl_plugin.commands.podgroup_status:status",
        "Show the state of groups, counted from their pods.",
        False,
    ),
    "adopt": (
        "kubectl_plugin.commands.podgroup_adopt:adopt",
        "Bring a group's pods back from another scheduler.",
        False,
    ),
    "rank": (
        "kubectl_plugin.commands.podgroup_rank:rank",
        "Show the ranks of a group's members and their distances.",
        False,
    ),
    "topology": (
        "kubectl_plugin.commands.podgroup_topology:topology",
        "Show the topology tree with free resources and the members of a group.",
        False,
    ),
}

podgroup = plugin(NAME, COMMANDS, "Pod groups: sets of pods that start together or not at all.")


def main() -> None:
    """Console script `kubectl-podgroup`."""
    sys.exit(run(podgroup, NAME))
