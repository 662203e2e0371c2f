"""`kubectl podgroup rank`: flags, help, and ranks as table, JSON, YAML, hostfile or torchrun variables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported, check_group
from kubectl_plugin.cli.global_flags import global_flags, topology_namespace
from kubectl_plugin.render.table import UNKNOWN, Cell, TablePrinter
from scheduler_core.model.printable import visible

if TYPE_CHECKING:
    from kubectl_plugin.cluster.group_ranks import RankedMember
    from scheduler_core.model.groups.gang import Gang

COLUMNS: Final = ("RANK", "POD", "NODE", "HOPS")
# The default port of torchrun.
MASTER_PORT: Final = 29500


@click.command(name="rank")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "hostfile", "torchrun"]),
    default="table",
    help="Output format; hostfile: for MPI; torchrun: a line of variables per rank.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@topology_namespace
@global_flags
@click.pass_context
def rank(ctx: click.Context, /, name: str, output: str, no_headers: bool, topology_namespace: str) -> None:
    """Show the placed members of a group (a group ConfigMap or a PodGroup) in order of rank.

    HOPS is the number of edges of the topology tree between a member and rank 0; ? if you may not read the
    topology.

    \b
    Examples:
      kubectl podgroup rank group-a
      kubectl podgroup rank group-a -n team-a -o hostfile
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_ranks import ranked_members
    from kubectl_plugin.cluster.group_view import read_groups
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import encoded

    check_group(name)
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    view = read_groups(
        session.client, session.namespace, diagnostics, whole=False, topology_namespace=topology_namespace
    )
    gang = view.group(session.namespace, name, diagnostics)
    members = ranked_members(view, gang)
    if output == "table" and not members:
        diagnostics.note(f"No member of {gang.ref} is placed.")
    elif output == "table":
        _print_table(members, tuple(members[0].units), show_headers=not no_headers)
    elif output in FORMS:
        sys.stdout.write(FORMS[output](members))
    else:
        sys.stdout.write(encoded(document(gang, members), output))
    if diagnostics.failed:
        raise AlreadyReported


def _print_table(members: Sequence[RankedMember], levels: Sequence[str], *, show_headers: bool) -> None:
    headers = (*COLUMNS[:3], *(level.upper() for level in levels), COLUMNS[3])
    printer = TablePrinter(headers, show_headers=show_headers)
    rows = [
        [Cell(text) for text in (str(item.rank), item.pod, item.node, *item.units.values(), _hops(item))]
        for item in members
    ]
    for text in printer.lines(rows):
        print(text)


def _hops(item: RankedMember) -> str:
    return UNKNOWN if item.hops is None else str(item.hops)


def document(gang: Gang, members: Sequence[RankedMember]) -> dict[str, Any]:
    """The ranks for JSON and YAML."""
    import msgspec

    return {
        "group": {"namespace": gang.ref.namespace, "name": gang.ref.name, "size": gang.min_members},
        "members": [msgspec.to_builtins(member) for member in members],
    }


def hostfile(members: Sequence[RankedMember]) -> str:
    """An MPI hostfile: nodes in order of their lowest rank, with a slot per member."""
    slots: dict[str, int] = {}
    for member in members:
        slots[member.node] = slots.get(member.node, 0) + 1
    return "".join(f"{visible(node)} slots={number}\n" for node, number in slots.items())


def torchrun(members: Sequence[RankedMember]) -> str:
    """One line of environment variables per rank, quoted for a shell; rank 0 is the master."""
    return "".join(
        f"RANK={member.rank} WORLD_SIZE={len(members)} MASTER_ADDR={quote(visible(members[0].address))}"
        f" MASTER_PORT={MASTER_PORT} POD={quote(visible(member.pod))}\n"
        for member in members
    )


FORMS: Final[dict[str, Callable[[Sequence[RankedMember]], str]]] = {
    "hostfile": hostfile,
    "torchrun": torchrun,
}
