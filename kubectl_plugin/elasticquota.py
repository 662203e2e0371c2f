"""Entry point and command table of `kubectl elasticquota`."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.cli.entry import run
from kubectl_plugin.cli.lazy_group import plugin

NAME: Final = "elasticquota"
COMMANDS: Final = {
    "get": "Show quotas: used, min, max, hard, borrowed, lent.",
    "lending": "Show who borrows from whom.",
    "lint": "Check the quotas of a cluster against the rules.",
    "adopt": "Bring pods back from another scheduler.",
    "simulate": "Run the scheduler on scenario files, no cluster.",
}

elasticquota = plugin(
    NAME, COMMANDS, "Elastic quotas: guaranteed minimum, borrowed maximum, and who lends to whom."
)


def main() -> None:
    """Console script `kubectl-elasticquota`."""
    sys.exit(run(elasticquota, NAME))
