"""Entry point and command table of `kubectl podgroup`."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.cli.entry import run
from kubectl_plugin.cli.lazy_group import plugin

NAME: Final = "podgroup"
COMMANDS: Final = {
    "get": "Show pod groups and how many members run.",
    "describe": "Describe groups: state, members, conditions, Events.",
    "status": "Show the state of groups, counted from their pods.",
    "adopt": "Bring a group's pods back from another scheduler.",
    "rank": "Show the ranks of a group's members and their distances.",
    "topology": "Show the topology tree with free resources and the members of a group.",
}

ANSWERS: Final = {"eta": "Estimate when a group starts."}

podgroup = plugin(NAME, COMMANDS, "Pod groups: sets of pods that start together or not at all.", ANSWERS)


def main() -> None:
    """Console script `kubectl-podgroup`."""
    sys.exit(run(podgroup, NAME))
