"""Entry point and command table of `kubectl elasticquota`."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.cli.entry import run
from kubectl_plugin.cli.lazy_group import plugin

NAME: Final = "elasticquota"
COMMANDS: Final = {
    "get": (
        "kubectl_plugin.commands.elasticquota_get:get",
        "Show quotas: used, min, max, hard, borrowed, lent.",
        False,
    ),
    "lending": ("kubectl_plugin.commands.elasticquota_lending:lending", "Show who borrows from whom.", False),
    "lint": (
        "kubectl_plugin.commands.elasticquota_lint:lint",
        "Check the quotas of a cluster against the rules.",
        False,
    ),
    "adopt": (
        "kubectl_plugin.commands.elasticquota_adopt:adopt",
        "Bring pods back from another scheduler.",
        False,
    ),
    "simulate": (
        "kubectl_plugin.commands.elasticquota_simulate:simulate",
        "Run the scheduler on scenario files, no cluster.",
        False,
    ),
}

elasticquota = plugin(
    NAME, COMMANDS, "Elastic quotas: guaranteed minimum, borrowed maximum, and who lends to whom."
)


def main() -> None:
    """Console script `kubectl-elasticquota`."""
    sys.exit(run(elasticquota, NAME))
