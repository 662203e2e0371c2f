"""`kubectl podgroup status`: flags, help, the table of groups, and the description of one group."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported, check_group
from kubectl_plugin.cli.get_flags import TABLES, ColorChoice
from kubectl_plugin.cli.global_flags import global_flags
from kubectl_plugin.render.table import ABSENT, UNKNOWN, Cell, Style, TablePrinter, use_color
from scheduler_core.model.printable import visible
from scheduler_core.printing.age import age

if TYPE_CHECKING:
    from kubectl_plugin.cluster.group_status import GroupStatus
    from kubectl_plugin.cluster.group_view import GroupView
    from kubectl_plugin.cluster.session import CommandSession
    from scheduler_core.model.groups.gang import Gang

COLUMNS: Final = ("NAME", "DIALECT", "PHASE", "MIN", "BOUND", "RUNNING", "PENDING", "SUCCEEDED", "FAILED")
WIDE_COLUMNS: Final = ("RESERVED", "KEPT")
LAST_COLUMNS: Final = ("TOPOLOGY", "REASON", "AGE")
STYLES: Final[dict[str, Style]] = {
    "Unschedulable": "yellow",
    "Pending": "yellow",
    "Scheduling": "yellow",
    "Failed": "red",
}
MEMBER_COLUMNS: Final = ("MEMBER", "NODE", "STATE", "AGE")
_REASON_WIDTH: Final = 100
# The longest message that the API server stores in a condition.
_LONGEST_REASON: Final = 32_768


@dataclass(frozen=True)
class StatusOptions:
    """The values of the flags."""

    output: str
    no_headers: bool
    watch: bool
    sort_by: str
    color: ColorChoice


@click.command(name="status")
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "name"]),
    default="table",
    help="Output format; wide adds reservations and kept nodes.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@click.option("-w", "--watch", is_flag=True, help="After the list, print each group that changes.")
@click.option("--sort-by", default="", metavar="PATH", help="Sort by a field of -o json: .phase, .pending.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="auto: on a terminal, unless NO_COLOR is set.",
)
@global_flags
@click.pass_context
def status(ctx: click.Context, /, name: str | None, **flags: Any) -> None:
    """Show groups of every kind (PodGroups and group ConfigMaps), counted from their current pods.

    With a NAME, show that group with all its members, its reservation and the reason why it waits. Where
    groups of several dialects have the NAME, all are shown; native/NAME is one of them.

    \b
    Examples:
      kubectl podgroup status -A -o wide
      kubectl podgroup status training -n team-a
      kubectl podgroup status -w
    """
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_status import read_quotas, read_reservations, status_of
    from kubectl_plugin.cluster.group_view import read_groups
    from kubectl_plugin.cluster.session import CommandSession

    check_group(name or "")
    options = StatusOptions(**flags)
    output, wide = options.output, options.output == "wide"
    if options.watch and output not in TABLES:
        raise click.UsageError(f"-o {output} cannot be used with --watch.")
    if options.watch and options.sort_by:
        raise click.UsageError("--sort-by cannot be used with --watch.")
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    if name and session.all_namespaces:
        raise click.UsageError("a resource cannot be retrieved by name across all namespaces.")
    printer = _printer(session, options)
    table = StatusTable(printer, namespaces=session.all_namespaces, wide=wide)
    if options.watch:
        from kubectl_plugin.cluster.group_watch import watch_groups

        watch_groups(session, name or "", table.show, diagnostics)
        return
    view = read_groups(session.client, session.scope, diagnostics, whole=False)
    table.known = known = read_reservations(session.client, session.scope, view, diagnostics)
    groups = view.named(session.namespace, name) if name else view.groups()
    if name and output == "table":
        read_quotas(session.client, session.namespace, view, diagnostics)
        details = (detail(view, status_of(view, gang), known=known) for gang in groups)
        print("\n\n".join(map("\n".join, details)))
    else:
        statuses = _sorted([status_of(view, gang) for gang in groups], options.sort_by)
        _print_all(session, statuses, output, table, single=name is not None and len(groups) == 1)
    if diagnostics.failed:
        raise AlreadyReported


def _sorted(statuses: list[GroupStatus], path: str) -> list[GroupStatus]:
    """The groups by the field at a path of their documents. Raises BadJSONPath."""
    if not path:
        return statuses
    from kubectl_plugin.render.jsonpath_template import sort_order

    return [statuses[i] for i in sort_order([item.document() for item in statuses], path)]


def _print_all(
    session: CommandSession,
    statuses: list[GroupStatus],
    output: str,
    table: StatusTable,
    *,
    single: bool,
) -> None:
    from kubectl_plugin.commands.get import no_resources
    from kubectl_plugin.render.structured import encoded, name_line

    documents = [status.document() for status in statuses]
    match output:
        case "json" | "yaml":
            sys.stdout.write(encoded(documents[0] if single else {"groups": documents}, output))
        case "name":
            for item in statuses:
                print(visible(name_line(item.object_name, item.resource)))
        case _:
            if not statuses:
                no_resources(session)
            table.show(statuses)


def _printer(session: CommandSession, options: StatusOptions) -> TablePrinter:
    first = ["NAMESPACE"] if session.all_namespaces else []
    headers = [*first, *COLUMNS, *(WIDE_COLUMNS if options.output == "wide" else ()), *LAST_COLUMNS]
    color = use_color(options.color, sys.stdout)
    return TablePrinter(headers, show_headers=not options.no_headers, color=color)


class StatusTable:
    """Prints a row per group. `known`: the reservations could be read."""

    def __init__(self, printer: TablePrinter, *, namespaces: bool, wide: bool) -> None:
        self.known = True
        self._namespaces = namespaces
        self._wide = wide
        self._printer = printer
        # Programs that read the table get the whole reason.
        self._widest = _REASON_WIDTH if sys.stdout.isatty() else _LONGEST_REASON

    def show(self, statuses: Iterable[GroupStatus]) -> None:
        """Print a row per group."""
        for line in self._printer.lines([self._row(item) for item in statuses]):
            print(line, flush=True)

    def _row(self, item: GroupStatus) -> list[Cell]:
        from scheduler_core.model.groups.gang import DIALECT_NAMES

        gang, census, reason = item.gang, item.census, item.reason or ABSENT
        minimum = Cell(ABSENT if gang.basic else str(gang.min_members))
        numbers = (
            census.allocated,
            census.running,
            census.waiting,
            census.succeeded,
            census.failed,
        )
        nominated = item.nominated.short if item.nominated is not None else ABSENT
        reserved = item.held_text if self.known or not gang.total else UNKNOWN
        return [
            *([Cell(gang.ref.namespace)] if self._namespaces else []),
            Cell(gang.ref.name),
            Cell(DIALECT_NAMES[gang.ref.dialect]),
            Cell(item.phase, STYLES.get(item.phase, "")),
            minimum,
            *(Cell(str(number)) for number in numbers),
            *([Cell(reserved), Cell(nominated)] if self._wide else []),
            Cell(f"{item.topology} (not enforced)" if item.unenforced else item.topology),
            Cell(reason if len(reason) <= self._widest else reason[: self._widest - 3] + "..."),
            Cell(age(gang.created, time.time())),
        ]


def detail(view: GroupView, status: GroupStatus, *, known: bool) -> list[str]:
    """The description of one group with its members. `known`: the reservations could be read."""
    from kubectl_plugin.cluster.group_status import state_of

    told = list(facts(view, status, known=known))
    width = max(len(title) for title, _ in told) + 1
    lines = [f"{title + ':':<{width}}  {visible(text)}" for title, text in told]
    if not status.members:
        return lines
    now = time.time()
    rows = [
        [Cell(pod.name), Cell(pod.node_name or ABSENT), Cell(state_of(pod)), Cell(age(pod.created, now))]
        for pod in status.members
    ]
    return [*lines, "", *TablePrinter(MEMBER_COLUMNS).lines(rows)]


def facts(view: GroupView, status: GroupStatus, *, known: bool) -> Iterator[tuple[str, str]]:
    """The lines on the state of a group, title and text. `known`: the reservations could be read."""
    from scheduler_core.controllers.gang_conditions import ELSEWHERE
    from scheduler_core.model.conditions import find
    from scheduler_core.model.groups.gang import DIALECT_NAMES
    from scheduler_core.model.names import DISRUPTION_TARGET, QUOTA_HELD_CONDITION

    gang, census = status.gang, status.census
    yield "Group", str(gang.ref)
    yield "Dialect", DIALECT_NAMES[gang.ref.dialect]
    yield "Phase", status.phase
    needs = "start as far as they fit" if gang.basic else f"needs {gang.min_members}"
    counts = f"{census.allocated} have a node, {census.waiting} wait, {census.succeeded} succeeded"
    yield "Members", f"{needs}: {counts}, {census.failed} failed" if status.counted else f"{needs}: not known"
    elsewhere = find(gang.status.conditions, ELSEWHERE)
    if elsewhere is not None:
        yield "Elsewhere", elsewhere.message
    disrupted = find(gang.status.conditions, DISRUPTION_TARGET)
    if disrupted is not None and disrupted.message not in status.reason:
        yield "Disrupted", disrupted.message
    if gang.total:
        yield "Reserved", _reserved(status, known=known)
    if status.nominated is not None:
        yield "Nodes kept", status.nominated.long
    held = find(gang.status.conditions, QUOTA_HELD_CONDITION)
    if held is not None and held.status == "True":
        yield "Quota held", held.message
    if status.topology != ABSENT:
        yield "Topology", ", ".join(filter(None, (status.topology, status.unenforced)))
        if where := _where(view, gang):
            yield "Placed on", where
    quota = _quota(view, status)
    if quota:
        yield "Quota", quota
    if status.reason:
        yield "Waits for", status.reason


def _where(view: GroupView, gang: Gang) -> str:
    """`rack rack-0: 2, rack-1: 2`: number of members in each unit of the highest level."""
    tree = view.tree(gang)
    counts = Counter(tree.path(member.leaf)[0] for _, member in view.ranked(gang))
    parts = (f"{unit}: {counts[unit]}" for unit in tree.units[0] if counts[unit])
    text = ", ".join(parts)
    return f"{tree.levels[0]} {text}" if text else ""


def _reserved(status: GroupStatus, *, known: bool) -> str:
    if not known:
        return "not known: you may not list reservationledgers"
    from scheduler_core.quota.reservations.usage import amounts_text

    if status.reserved is None:
        return f"nothing of {amounts_text(status.gang.total)}: the reservation ledger does not list it"
    return str(status.reserved)


def _quota(view: GroupView, status: GroupStatus) -> str:
    """`ElasticQuota a/quota: cpu 2 of 8 left`: the free part of max, for the requested resources."""
    from scheduler_core.model.quantity import format_resource

    ledger, namespace = view.state.ledger, status.gang.ref.namespace
    quota = ledger.quota_of(namespace)
    asked = {name for pod in status.members for name, value in pod.requests.items() if value}
    if quota is None or not asked & quota.max.keys():
        return ""
    used = ledger.used(namespace)
    parts = [
        f"{name} {format_resource(name, max(0, quota.max[name] - used.get(name, 0)))} "
        f"of {format_resource(name, quota.max[name])} left"
        for name in sorted(asked & quota.max.keys())
    ]
    return f"ElasticQuota {quota.key}: {', '.join(parts)}"
