"""`kubectl elasticquota describe`: flags and help."""

from __future__ import annotations

import click

from kubectl_plugin.cli.errors import check_segment
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.commands.describe import check_names, describe_flags, print_descriptions


@click.command(name="describe")
@describe_flags
@global_flags
@click.pass_context
def describe(ctx: click.Context, /, names: tuple[str, ...], output: str) -> None:
    """Describe ElasticQuotas: use per resource, what uses them, the last reclaim, conditions and Events.

    Without a NAME, all of the namespace are described.

    \b
    Examples:
      kubectl elasticquota describe
      kubectl elasticquota describe quota -n team-a
      kubectl elasticquota describe -A -o json
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.inspection.quota_description import describe_quotas

    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    check_names(session, names, lambda name: check_segment("resource name", name))
    found = describe_quotas(session.client, session.scope, names, diagnostics)
    print_descriptions(session, found, output, diagnostics)
