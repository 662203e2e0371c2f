"""Where one group stands, counted from its pods: what all forms of `kubectl podgroup status` are made of."""

from __future__ import annotations

import time
from math import inf
from typing import Any, Final

import msgspec

from kubectl_plugin.group_view import GroupView
from kubectl_plugin.kept_nodes import KeptNodes, kept_for
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.reading import Reader, Scope, list_if_served, parsed
from kubectl_plugin.snapshot import SAID_WITHIN_SECONDS, UNKNOWN_RESERVED
from scheduler_core.controllers.gang_phase import (
    PENDING,
    SCHEDULING,
    UNSCHEDULABLE,
    phase_of,
    refused_since,
)
from scheduler_core.controllers.gang_topology import NOT_ENFORCED, TOPOLOGY_ENFORCED
from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import find
from scheduler_core.model.elastic_quota import parse_elastic_quota
from scheduler_core.model.gang import RESOURCES, Gang
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS, RESERVATION_LEDGERS, Resource
from scheduler_core.model.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.reservation_ledger import parse_reservation_ledger
from scheduler_core.model.resources import to_strings
from scheduler_core.model.topology import LevelConstraint, parse_constraints
from scheduler_core.state.census import take_census
from scheduler_core.state.gangs import Census, too_few
from scheduler_core.state.reservations import Reservation, reservation_of

_OUR_DIALECT: Final = "PodGroup"
_WAITS: Final = frozenset({PENDING, UNSCHEDULABLE})


class _Results(msgspec.Struct, frozen=True):
    reason: str = ""


class Standing(msgspec.Struct, frozen=True):
    """A group's figures. `reserved` is its entry in the ledger, None where it has none.

    `kept` are the nodes that are kept for its waiting pods, `unenforced` says why nobody holds them to the
    constraints on the topology.
    """

    gang: Gang
    phase: str
    census: Census
    members: tuple[Pod, ...]
    reserved: Reservation | None
    topology: str
    reason: str
    kept: KeptNodes | None = None
    unenforced: str = ""

    @property
    def resource(self) -> Resource:
        """What kind of object the group is."""
        dialect = self.gang.ref.dialect
        return CONFIG_MAPS if dialect == "ConfigMap" else RESOURCES[dialect]

    @property
    def held_text(self) -> str:
        """`cpu=12/16`: what is still held of the totals; `-` for a group that reserves nothing (any more)."""
        if not self.gang.total or (self.reserved is not None and self.reserved.ended):
            return "-"
        held = self.reserved.held if self.reserved is not None else {}
        return ",".join(
            f"{name}={format_resource(name, held.get(name, 0))}/{format_resource(name, total)}"
            for name, total in sorted(self.gang.total.items())
        )

    def document(self) -> dict[str, Any]:
        """The figures as data, quantities exact."""
        census, gang, entry = self.census, self.gang, self.reserved
        reserved = None
        if gang.total:
            reserved = {
                "listed": entry is not None,
                "ended": entry is not None and entry.ended,
                "total": to_strings(gang.total),
                "used": to_strings(entry.used if entry is not None else {}),
                "held": to_strings(entry.held if entry is not None else {}),
            }
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "namespace": gang.ref.namespace,
            "name": gang.ref.name,
            "phase": self.phase,
            "minMembers": gang.min_members,
            "bound": census.allocated,
            "running": census.running,
            "pending": census.waiting,
            "succeeded": census.succeeded,
            "failed": census.failed,
            "topology": self.topology,
            "topologyEnforced": not self.unenforced if self.topology != "-" else None,
            "reserved": reserved,
            "kept": self.kept.document() if self.kept is not None else None,
            "reason": self.reason,
            "members": [
                {"name": pod.name, "node": pod.node_name, "state": state_of(pod)} for pod in self.members
            ],
        }


def standing_of(view: GroupView, gang: Gang) -> Standing:
    """Count a group's members as they are."""
    census = take_census(view.state, gang.key)
    members = tuple(sorted(view.members(gang), key=lambda pod: pod.name))
    reserved = reservation_of(view.state, gang) if gang.ref.dialect == _OUR_DIALECT else None
    phase = phase_of(gang, census, refused=refused_since(members))
    reason = _reason(view, gang, phase, census, members)
    kept = kept_for(gang.ref.name, members, gang)
    where = constraints_text(gang)
    lacks = unenforced_of(view, gang)
    return Standing(gang, phase, census, members, reserved, where, reason, kept, lacks)


def unenforced_of(view: GroupView, gang: Gang) -> str:
    """Why nobody enforces a group's constraints, as the scheduler said it in its status or results.

    Empty where somebody does, where nothing is asked, and while no scheduler can have looked.
    """
    if constraints_text(gang) == "-":
        return ""
    told = find(gang.status.conditions, TOPOLOGY_ENFORCED)
    config_map = view.state.config_maps.of(gang.key)
    said = told.message if told is not None and told.status == "False" else ""
    said = said or (config_map.data.get("reason", "") if config_map is not None else _said(gang.results))
    if said.startswith(NOT_ENFORCED):
        return said
    known = told is not None or config_map is not None or bool(gang.results)
    first = min((pod.created for pod in view.members(gang)), default=inf)
    late = time.time() > first + SAID_WITHIN_SECONDS
    return f"{NOT_ENFORCED}no scheduler has said that it does" if late and not known else ""


def read_reservations(client: Reader, namespace: str, view: GroupView, complaints: Complaints) -> bool:
    """Take in the ledgers of a namespace (or of all, empty); False, with a note, if they may not be read."""
    ledgers = list_if_served(client, RESERVATION_LEDGERS, Scope(namespace))
    if ledgers is None:
        complaints.note(UNKNOWN_RESERVED)
    for ledger in parsed(ledgers or (), parse_reservation_ledger, complaints.about_content):
        view.state.gangs.put_ledger(ledger)
    return ledgers is not None


def read_quotas(client: Reader, namespace: str, view: GroupView, complaints: Complaints) -> None:
    """Take in the ElasticQuotas of a namespace, if they may be read."""
    for quota in parsed(
        list_if_served(client, ELASTIC_QUOTAS, Scope(namespace)) or (),
        parse_elastic_quota,
        complaints.about_content,
    ):
        view.state.put_quota(quota)


def state_of(pod: Pod) -> str:
    """One word: the phase, or what is more urgent to know."""
    if pod.terminating and not pod.finished:
        return "Terminating"
    if pod.gates and not pod.assigned:
        return "Gated"
    if pod.finished and pod.reason:
        return pod.reason
    return "Scheduled" if pod.assigned and pod.phase in ("", "Pending") else pod.phase or "Pending"


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


def _said(results: str) -> str:
    """The reason in the results that a PodGroup carries; empty where there is none."""
    try:
        return decode((results or "{}").encode(), _Results).reason
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def _reason(view: GroupView, gang: Gang, phase: str, census: Census, members: tuple[Pod, ...]) -> str:
    """What the group says itself, or what its pods lack now, else what the pod was told that came last."""
    if gang.problem:
        return gang.problem
    if phase == SCHEDULING:
        return f"{census.allocated - census.binding} of the {gang.min_members} that start together are bound"
    if phase in _WAITS and (lacks := too_few(gang, census)):
        return lacks
    config_map = view.state.config_maps.of(gang.key)
    return (config_map.data.get("reason", "") if config_map is not None else "") or _told(members)


def _told(members: tuple[Pod, ...]) -> str:
    """What members were told that wait, empty for none.

    The one that was created last was told when all others were there. Where it was told nothing yet, what
    the others were told before is of a gang without it.
    """
    waiting = [pod for pod in members if not (pod.assigned or pod.finished or pod.terminating or pod.gates)]
    told = {
        pod.uid: said.message
        for pod in waiting
        if (said := pod.scheduled_condition) and said.status == "False"
    }
    theirs = {pod.scheduler_name for pod in waiting if pod.uid in told}
    last = max(
        (pod for pod in waiting if pod.scheduler_name in theirs),
        key=lambda pod: (pod.created, pod.uid not in told),
        default=None,
    )
    return told.get(last.uid, f"{last.name} has come, and was told nothing yet") if last is not None else ""
