"""`kubectl elasticquota get --tree`: the tree of QuotaGroups and ElasticQuotas as table, JSON or YAML."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from kubectl_plugin.cli.errors import AlreadyReported

if TYPE_CHECKING:
    from kubectl_plugin.cluster.group_tree import TreeEntry
    from kubectl_plugin.cluster.session import CommandSession

HEADERS: Final = ("NAME", "RESOURCE", "MIN", "USED", "MAX", "BORROWED", "LENT")


def print_group_tree(session: CommandSession, output: str, *, show_headers: bool) -> None:
    """Print the tree of the whole cluster: what is lent crosses namespaces. Raises the ApiError tree."""
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_tree import entries
    from kubectl_plugin.commands.elasticquota_lending import gather
    from kubectl_plugin.render.structured import encoded
    from kubectl_plugin.render.table import Cell, TablePrinter

    diagnostics = Diagnostics()
    found = entries(gather(session.client, diagnostics))
    if output != "table":
        sys.stdout.write(encoded({"tree": nested(found)}, output))
    else:
        rows = [[Cell(text) for text in row] for entry in found for row in entry.cells()]
        for line in TablePrinter(HEADERS, show_headers=show_headers).lines(rows):
            print(line)
    if diagnostics.failed:
        raise AlreadyReported


def nested(found: list[TreeEntry]) -> list[dict[str, Any]]:
    """The entries as documents; those of a group are its `children`."""
    top: list[dict[str, Any]] = []
    lists = [top]
    for entry in found:
        document = entry.document()
        del lists[entry.level + 1 :]
        lists[-1].append(document)
        if entry.kind == "QuotaGroup":
            children: list[dict[str, Any]] = []
            document["children"] = children
            lists.append(children)
    return top
