"""`kubectl elasticquota tree`: flags, help, and the trees below quotas as text, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags

if TYPE_CHECKING:
    from kubectl_plugin.inspection.tree_reading import QuotaTree
    from scheduler_core.model.resources import ResourceList

HEADERS: Final = ("NAME", "USED", "PENDING", "NODE", "STATE")


@click.command(name="tree")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    help="Output format.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@global_flags
@click.pass_context
def tree(ctx: click.Context, /, output: str, no_headers: bool) -> None:
    """Show what stands below a quota: its groups, the owners of their pods, and the unfinished pods.

    Each line has what the pods below it use of the quota, and what those without a node ask for. Owners are
    found by the ownerReferences of pods, ReplicaSets and Jobs.

    \b
    Examples:
      kubectl elasticquota tree
      kubectl elasticquota tree -A
      kubectl elasticquota tree -n team-a -o json
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.commands.get import no_resources
    from kubectl_plugin.inspection.tree_reading import read_trees
    from kubectl_plugin.render.structured import encoded

    session = CommandSession.of(ctx)
    diagnostics = Diagnostics()
    found = read_trees(session.client, session.scope, diagnostics)
    if output != "table":
        trees = [{"namespace": item.quota.namespace, **item.root.document()} for item in found]
        sys.stdout.write(encoded({"trees": trees}, output))
    elif found:
        _print_table(found, namespaces=session.all_namespaces, show_headers=not no_headers)
    elif not diagnostics.failed:
        no_resources(session)
    if diagnostics.failed:
        raise AlreadyReported


def _print_table(found: Sequence[QuotaTree], *, namespaces: bool, show_headers: bool) -> None:
    from kubectl_plugin.render.table import ABSENT, Cell, TablePrinter
    from kubectl_plugin.render.tree import glyphs_of, walk

    headers = [*(["NAMESPACE"] if namespaces else []), *HEADERS]
    glyphs = glyphs_of(sys.stdout)
    rows = []
    for item in found:
        for before, node in walk(item.root, lambda node: node.children, glyphs):
            texts = [
                *([item.quota.namespace] if namespaces else []),
                f"{before}{node.kind}/{node.name}",
                _amounts(node.used),
                _amounts(node.pending),
                node.node or ABSENT,
                node.state,
            ]
            rows.append([Cell(text) for text in texts])
    for line in TablePrinter(headers, show_headers=show_headers).lines(rows):
        print(line)


def _amounts(amounts: ResourceList) -> str:
    """`cpu=4500m,memory=1.5Gi`; `-` for nothing."""
    from kubectl_plugin.cluster.quota_rows import resource_order
    from kubectl_plugin.render.quantity_text import human
    from kubectl_plugin.render.table import ABSENT

    return ",".join(f"{name}={human(name, amounts[name])}" for name in resource_order(amounts)) or ABSENT
