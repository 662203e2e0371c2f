"""`kubectl elasticquota`: the entry point."""

from __future__ import annotations

import sys
from typing import Final

from kubectl_plugin.entry import run
from kubectl_plugin.lazy import LazyGroup
from kubectl_plugin.options import global_flags

NAME: Final = "elasticquota"
COMMANDS: Final = {
    "get": ("kubectl_plugin.quota_get:get", "Show quotas: used, min, max, hard, borrowed, lent.", False),
    "lending": ("kubectl_plugin.lending:lending", "Show who borrows from whom.", False),
    "lint": ("kubectl_plugin.lint:lint", "Check the quotas of a cluster against the rules.", False),
    "simulate": (
        "kubectl_plugin.simulate:simulate",
        "Run the scheduler on scenario files, no cluster.",
        False,
    ),
    "completion": ("kubectl_plugin.completion:completion", "Install or print shell completion.", False),
    "version": ("kubectl_plugin.version:version", "Print the version.", False),
    "__complete": ("kubectl_plugin.completion:complete", "", True),
}

elasticquota = global_flags(
    LazyGroup(
        NAME,
        COMMANDS,
        help="Elastic quotas: guaranteed minimum, borrowed maximum, and who lends to whom.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
)


def main() -> None:
    """Console script `kubectl-elasticquota`."""
    sys.exit(run(elasticquota, NAME))
