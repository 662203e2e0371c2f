"""`kubectl elasticquota`: the entry point."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.entry import run
from kubectl_plugin.lazy import plugin

NAME: Final = "elasticquota"
COMMANDS: Final = {
    "get": ("kubectl_plugin.quota_get:get", "Show quotas: used, min, max, hard, borrowed, lent.", False),
    "lending": ("kubectl_plugin.lending:lending", "Show who borrows from whom.", False),
    "lint": ("kubectl_plugin.lint:lint", "Check the quotas of a cluster against the rules.", False),
    "adopt": ("kubectl_plugin.quota_adopt:adopt", "Bring pods back from another scheduler.", False),
    "simulate": (
        "kubectl_plugin.simulate:simulate",
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
