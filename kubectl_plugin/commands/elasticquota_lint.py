"""`kubectl elasticquota lint`: flags, help, and the findings as text or JSON."""

from __future__ import annotations

import sys

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags
from scheduler_core.model.printable import visible
from scheduler_core.printing.counts import counted


@click.command(name="lint")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@global_flags
@click.pass_context
def lint(ctx: click.Context, /, output: str) -> None:
    """Check live ElasticQuotas against the rules that the webhook applies when they are written.

    It finds what was written before the webhook was installed, or while it did not answer: min above max, max
    above a ResourceQuota's hard, several quotas in a namespace, a sum of min above what the nodes have, and
    groups whose constraints no topology of the cluster can meet. Notes name settings that may be unintended,
    and pods whose scheduler is not running. The exit code is 1 if a rule is broken.

    \b
    Examples:
      kubectl elasticquota lint -A
      kubectl elasticquota lint -n team-a -o json
    """
    import msgspec

    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.lint import lint_cluster
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import to_json

    session = CommandSession.of(ctx)
    diagnostics = Diagnostics()
    count, found = lint_cluster(session.client, session.scope, diagnostics)
    if output == "json":
        sys.stdout.write(to_json(msgspec.to_builtins(found)))
    else:
        for violation in found.violations:
            print(visible(f"error: {violation}"))
        for note in found.notes:
            print(visible(f"note: {note}"))
        counts = ((count, "quota"), (len(found.violations), "broken rule"), (len(found.notes), "note"))
        print(", ".join(counted(number, noun) for number, noun in counts))
    if found.violations or diagnostics.failed:
        raise AlreadyReported
