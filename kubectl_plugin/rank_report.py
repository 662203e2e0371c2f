"""`kubectl podgroup rank`: members by rank as a table, JSON, an MPI hostfile or variables for torchrun."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any, Final

import click
import msgspec

from kubectl_plugin.entry import AlreadyReported, check_segment
from kubectl_plugin.group_view import GroupView, read_groups
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.session import CommandSession
from kubectl_plugin.structured import to_json, to_yaml
from kubectl_plugin.table import Cell, TablePrinter, visible
from scheduler_core.decoding import decode
from scheduler_core.model.gang import Gang
from scheduler_core.topology.rank import distance

COLUMNS: Final = ("RANK", "POD", "NODE", "HOPS")
# Where torchrun's own default lies.
MASTER_PORT: Final = 29500


class Line(msgspec.Struct, frozen=True):
    """One placed member. units: unit names by level, the node left out; hops: edges to rank 0."""

    rank: int
    pod: str
    node: str
    units: dict[str, str]
    hops: int
    address: str


class _Spec(msgspec.Struct):
    hostname: str = ""
    subdomain: str = ""


class _Status(msgspec.Struct):
    podIP: str = ""


class _Address(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def lines_of(view: GroupView, gang: Gang) -> list[Line]:
    """The placed members of a group in order of rank."""
    tree, ranked = view.tree(gang), view.ranked(gang)
    home = ranked[0][1].leaf if ranked else 0
    return [
        Line(
            rank,
            seat.pod.name,
            tree.leaves[seat.leaf],
            dict(zip(tree.levels[:-1], tree.path(seat.leaf), strict=False)),
            distance(tree, home, seat.leaf) if place else 0,
            _address(view.raw[seat.pod.uid], seat.pod.name),
        )
        for place, (rank, seat) in enumerate(ranked)
    ]


def _address(raw: bytes, name: str) -> str:
    """How other pods reach one: by a headless Service's name, else by its IP, else by its own name."""
    found = decode(raw, _Address)
    if found.spec.hostname and found.spec.subdomain:
        return f"{found.spec.hostname}.{found.spec.subdomain}"
    return found.status.podIP or name


def run_rank(
    ctx: click.Context, name: str, output: str, topology_namespace: str, *, show_headers: bool
) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, CommandFailed."""
    check_segment("group", name)
    session, complaints = CommandSession.of(ctx), Complaints()
    view = read_groups(
        session.client, session.namespace, complaints, whole=False, topology_namespace=topology_namespace
    )
    gang = view.group(session.namespace, name)
    lines = lines_of(view, gang)
    if output == "table" and not lines:
        complaints.note(f"No member of {gang.ref} is placed.")
    elif output == "table":
        _print_table(lines, view.tree(gang).levels[:-1], show_headers=show_headers)
    else:
        sys.stdout.write(FORMS[output](gang, lines))
    if complaints.failed:
        raise AlreadyReported


def _print_table(lines: Sequence[Line], levels: Sequence[str], *, show_headers: bool) -> None:
    headers = (*COLUMNS[:3], *(level.upper() for level in levels), COLUMNS[3])
    printer = TablePrinter(headers, show_headers=show_headers)
    rows = [
        [Cell(text) for text in (str(line.rank), line.pod, line.node, *line.units.values(), str(line.hops))]
        for line in lines
    ]
    for text in printer.lines(rows):
        print(text)


def document(gang: Gang, lines: Sequence[Line]) -> dict[str, Any]:
    """The ranks as data."""
    return {
        "group": {"namespace": gang.ref.namespace, "name": gang.ref.name, "size": gang.min_members},
        "members": [msgspec.to_builtins(line) for line in lines],
    }


def hostfile(gang: Gang, lines: Sequence[Line]) -> str:
    """MPI's hostfile: nodes in order of their first rank, a slot for each member."""
    slots: dict[str, int] = {}
    for line in lines:
        slots[line.node] = slots.get(line.node, 0) + 1
    return "".join(f"{visible(node)} slots={number}\n" for node, number in slots.items())


def torchrun(gang: Gang, lines: Sequence[Line]) -> str:
    """One line of variables per rank, quoted for a shell; rank 0 is the master."""
    return "".join(
        f"RANK={line.rank} WORLD_SIZE={len(lines)} MASTER_ADDR={quote(visible(lines[0].address))}"
        f" MASTER_PORT={MASTER_PORT} POD={quote(visible(line.pod))}\n"
        for line in lines
    )


FORMS: Final[dict[str, Callable[[Gang, Sequence[Line]], str]]] = {
    "json": lambda gang, lines: to_json(document(gang, lines)),
    "yaml": lambda gang, lines: to_yaml(document(gang, lines)),
    "hostfile": hostfile,
    "torchrun": torchrun,
}
