"""`kubectl podgroup status`: every group with its members counted, and what it waits for."""

from __future__ import annotations

import time
from typing import Final

import click

from kubectl_plugin.age import age
from kubectl_plugin.entry import AlreadyReported, check_segment
from kubectl_plugin.group_view import GroupView, read_groups
from kubectl_plugin.objects_get import Complaints, no_resources
from kubectl_plugin.session import CommandSession
from kubectl_plugin.table import Cell, Style, TablePrinter
from scheduler_core.controllers.gang_status import phase_of
from scheduler_core.errors import ModelError
from scheduler_core.model.gang import Gang
from scheduler_core.model.topology import LevelConstraint, parse_constraints
from scheduler_core.state.census import take_census

COLUMNS: Final = (
    "NAME",
    "PHASE",
    "MIN",
    "BOUND",
    "RUNNING",
    "PENDING",
    "SUCCEEDED",
    "FAILED",
    "TOPOLOGY",
    "REASON",
    "AGE",
)
_STYLES: Final[dict[str, Style]] = {"Unschedulable": "yellow", "Pending": "yellow", "Failed": "red"}
_REASON_WIDTH: Final = 100


def run_status(ctx: click.Context, name: str | None, *, show_headers: bool) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, CommandFailed."""
    check_segment("group", name or "")
    session, complaints = CommandSession.of(ctx), Complaints()
    view = read_groups(session.client, session.scope, complaints, whole=False)
    groups = [view.group(session.namespace, name)] if name else view.groups()
    if not groups:
        no_resources(session)
    headers = [*(["NAMESPACE"] if session.all_namespaces else []), *COLUMNS]
    printer = TablePrinter(headers, show_headers=show_headers)
    for line in printer.lines([row(view, gang, namespace=session.all_namespaces) for gang in groups]):
        print(line)
    if complaints.failed:
        raise AlreadyReported


def row(view: GroupView, gang: Gang, *, namespace: bool) -> list[Cell]:
    """The cells of one group."""
    census = take_census(view.state, gang.key)
    phase = phase_of(gang, census)
    numbers = (
        gang.min_members,
        census.allocated,
        census.running,
        census.waiting,
        census.succeeded,
        census.failed,
    )
    return [
        *([Cell(gang.ref.namespace)] if namespace else []),
        Cell(gang.ref.name),
        Cell(phase, _STYLES.get(phase, "")),
        *(Cell(str(number)) for number in numbers),
        Cell(constraints_text(gang)),
        Cell(_reason(view, gang) or "-"),
        Cell(age(gang.created, time.time())),
    ]


def constraints_text(gang: Gang) -> str:
    """What a group asks of the topology, in short: `rack:spread/2,node:pack`."""
    if gang.topology_key:
        return f"one {gang.topology_key}"
    try:
        given = gang.group.constraints if gang.group is not None else parse_constraints(gang.constraints)
    except ModelError:
        return "invalid"
    return ",".join(map(_constraint, given)) or ("pack" if gang.group is not None else "-")


def _constraint(wish: LevelConstraint) -> str:
    text = f"{wish.level}:{'hard-' if wish.hard else ''}{wish.type}"
    if wish.partitions is not None:
        text += f"/{wish.partitions}"
    if wish.min is not None or wish.max is not None:
        text += f"[{wish.min or ''}..{wish.max or ''}]"
    return f"{text}x{wish.factor}" if wish.factor is not None else text


def _reason(view: GroupView, gang: Gang) -> str:
    """What the group says itself, else what the first member that waits was told."""
    config_map = view.state.config_maps.of(gang.key)
    text = gang.problem or (config_map.data.get("reason", "") if config_map is not None else "")
    for pod in sorted(view.members(gang), key=lambda pod: pod.name):
        told = pod.scheduled_condition
        if not text and told is not None and told.status == "False" and not pod.assigned:
            text = told.message
    return text if len(text) <= _REASON_WIDTH else text[: _REASON_WIDTH - 3] + "..."
