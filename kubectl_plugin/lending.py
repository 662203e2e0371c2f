"""`kubectl elasticquota lending`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

import click

from kubectl_plugin.options import global_flags


@click.command(name="lending", short_help="Show who borrows from whom.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="Form of the result.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the header line.")
@global_flags
@click.pass_context
def lending(ctx: click.Context, /, output: str, no_headers: bool) -> None:
    """Show who borrows from whom: per resource every loan, and what its lender could take back now.

    A quota borrows what it uses above its min; quotas that leave min unused lend it, pro rata to what they
    leave. With a namespace, the loans that it takes or gives.

    \b
    Examples:
      kubectl elasticquota lending -A
      kubectl elasticquota lending -n team-a -o json
    """
    from kubectl_plugin.lending_report import run_lending

    run_lending(ctx, output, show_headers=not no_headers)
