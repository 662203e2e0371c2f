"""`kubectl elasticquota lint`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

import click

from kubectl_plugin.options import global_flags


@click.command(name="lint", short_help="Check the quotas of a cluster against the rules.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of the result."
)
@global_flags
@click.pass_context
def lint(ctx: click.Context, /, output: str) -> None:
    """Check live ElasticQuotas against the rules that the webhook applies when they are written.

    It finds what was written before the webhook was there, or while it was away: min above max, max above a
    ResourceQuota's hard, several quotas in a namespace, more guaranteed than the nodes have; and groups whose
    constraints can hold on no topology of the cluster. The exit code is 1 if a rule is broken; notes are no
    failure. Noted are also pods that wait for a scheduler that nobody is seen to run.

    \b
    Examples:
      kubectl elasticquota lint -A
      kubectl elasticquota lint -n team-a -o json
    """
    from kubectl_plugin.lint_report import run_lint

    run_lint(ctx, output)
