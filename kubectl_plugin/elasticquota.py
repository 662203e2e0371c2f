"""Entry point and command table of `kubectl elasticquota`."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.cli.entry import run
from kubectl_plugin.cli.lazy_group import plugin

NAME: Final = "elasticquota"
COMMANDS: Final = {
    "get": "Show quotas: used, min, max, hard, borrowed, lent.",
    "describe": "Describe quotas: use, conditions, pods, Events.",
    "tree": "Show groups, owners and pods below a quota.",
    "lending": "Show who borrows from whom.",
    "lint": "Check the quotas of a cluster against the rules.",
    "adopt": "Bring pods back from another scheduler.",
    "simulate": "Run the scheduler on scenario files, no cluster.",
}

ANSWERS: Final = {
    "why": "Explain why work waits, and what would start it.",
    "queue": "Show what waits, in the scheduler's order.",
    "what-if": "Show what changes would make different.",
    "snapshot": "Print the cluster as a scenario file.",
    "usage": "Show who uses a quota, and who borrows since when.",
    "history": "Show what was taken back, by whom and for whom.",
    "ui": "Show all of this in a browser.",
    "doctor": "Check the installation, and repair what is derived.",
}

elasticquota = plugin(
    NAME, COMMANDS, "Elastic quotas: guaranteed minimum, borrowed maximum, and who lends to whom.", ANSWERS
)


def main() -> None:
    """Console script `kubectl-elasticquota`."""
    sys.exit(run(elasticquota, NAME))
