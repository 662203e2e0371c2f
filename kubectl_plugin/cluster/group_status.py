"""The state of a group, counted from its pods: phase, members, reservation, topology and reason."""

from __future__ import annotations

import time
from math import inf
from typing import Any, Final

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.group_view import GroupView
from kubectl_plugin.cluster.nominated_nodes import NominatedNodes, nominated_for
from kubectl_plugin.cluster.quota_snapshot import ENFORCEMENT_GRACE_SECONDS, UNKNOWN_RESERVED
from kubectl_plugin.cluster.reading import ListClient, ListScope, list_if_served, parsed
from scheduler_core.controllers.gang_conditions import REPAIR, TOPOLOGY_NOT_ENFORCED
from scheduler_core.controllers.gang_phase import (
    PENDING,
    SCHEDULING,
    UNSCHEDULABLE,
    phase_of,
    refused_since,
)
from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import find
from scheduler_core.model.groups.gang import DIALECT_NAMES, RESOURCES, Gang
from scheduler_core.model.groups.topology import LevelConstraint, parse_constraints
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS, RESERVATION_LEDGERS, Resource
from scheduler_core.model.names import DISRUPTION_TARGET
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.reservation_ledger import parse_reservation_ledger
from scheduler_core.model.resources import to_strings
from scheduler_core.state.gangs.enforcement import NOT_ENFORCED
from scheduler_core.state.gangs.gangs import Census, take_census, too_few
from scheduler_core.state.reservations import Reservation, reservation_of

# The phase of a group whose pods could not be read.
UNKNOWN_PHASE: Final = "Unknown"
_OUR_DIALECT: Final = "PodGroup"
_WAITS: Final = frozenset({PENDING, UNSCHEDULABLE})


class _Results(msgspec.Struct, frozen=True):
    reason: str = ""


class GroupStatus(msgspec.Struct, frozen=True):
    """The figures of a group. `reserved`: its entry in the reservation ledger, None without one.

    `nominated`: the nodes that are kept for its waiting pods. `unenforced`: why no scheduler enforces its
    topology constraints; empty if one does. `config_map`: the name of its ConfigMap, if it is one.
    `counted`: its pods could be read; else what depends on them is not known.
    """

    gang: Gang
    phase: str
    census: Census
    members: tuple[Pod, ...]
    reserved: Reservation | None
    topology: str
    reason: str
    nominated: NominatedNodes | None = None
    unenforced: str = ""
    config_map: str = ""
    counted: bool = True

    @property
    def resource(self) -> Resource:
        """The kind of the group's object."""
        dialect = self.gang.ref.dialect
        return CONFIG_MAPS if dialect == "ConfigMap" else RESOURCES[dialect]

    @property
    def object_name(self) -> str:
        """The name of the group's object: pods name a ConfigMap by another one, in its data."""
        return self.config_map or self.gang.ref.name

    @property
    def held_text(self) -> str:
        """`cpu=12/16`: the amounts that are still held of the totals; `-` if nothing is reserved."""
        if not self.gang.total or (self.reserved is not None and self.reserved.ended):
            return "-"
        held = self.reserved.held if self.reserved is not None else {}
        return ",".join(
            f"{name}={format_resource(name, held.get(name, 0))}/{format_resource(name, total)}"
            for name, total in sorted(self.gang.total.items())
        )

    def document(self) -> dict[str, Any]:
        """The figures for JSON and YAML, with exact quantities. Null: not known."""
        census, gang, entry = self.census, self.gang, self.reserved

        def known(value: Any) -> Any:
            return value if self.counted else None

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
            "dialect": DIALECT_NAMES[gang.ref.dialect],
            "phase": known(self.phase),
            "minMembers": gang.min_members,
            "bound": known(census.allocated),
            "running": known(census.running),
            "pending": known(census.waiting),
            "succeeded": known(census.succeeded),
            "failed": known(census.failed),
            "topology": self.topology,
            "topologyEnforced": known(not self.unenforced) if self.topology != "-" else None,
            "reserved": known(reserved),
            "kept": self.nominated.document() if self.nominated is not None else None,
            "reason": self.reason,
            "members": known(
                [{"name": pod.name, "node": pod.node_name, "state": state_of(pod)} for pod in self.members]
            ),
        }

    def without_pods(self) -> GroupStatus:
        """What its own object tells, where its pods could not be read."""
        return msgspec.structs.replace(
            self,
            phase=UNKNOWN_PHASE,
            census=Census(0, 0, 0, 0, 0, 0),
            members=(),
            reserved=None,
            nominated=None,
            unenforced="",
            reason=self.gang.problem,
            counted=False,
        )


def status_of(view: GroupView, gang: Gang) -> GroupStatus:
    """The state of a group, from its current pods."""
    census = take_census(view.state, gang.key)
    members = tuple(sorted(view.members(gang), key=lambda pod: pod.name))
    reserved = reservation_of(view.state, gang) if gang.ref.dialect == _OUR_DIALECT else None
    phase = phase_of(gang, census, refused=refused_since(members))
    nominated = nominated_for(gang.ref.name, members, gang)
    where = constraints_text(gang)
    lacks = unenforced_reason(view, gang)
    reason = _reason(view, gang, phase, census, members)
    if not reason and phase in _WAITS:
        reason = lacks or _untold(members)
    config_map = view.state.config_maps.of(gang.key)
    name = config_map.name if config_map is not None else ""
    return GroupStatus(gang, phase, census, members, reserved, where, reason, nominated, lacks, name)


def unenforced_reason(view: GroupView, gang: Gang) -> str:
    """The reason why no scheduler enforces a group's topology constraints, from its status or results.

    Empty if a scheduler does, if the group has no constraints, and within ENFORCEMENT_GRACE_SECONDS after the
    creation of its first pod.
    """
    if constraints_text(gang) == "-":
        return ""
    told = find(gang.status.conditions, TOPOLOGY_NOT_ENFORCED)
    if told is not None and told.status == "True":
        return told.message
    config_map = view.state.config_maps.of(gang.key)
    # Groups without conditions: the results have the reason why they wait, of whatever kind.
    said = config_map.data.get("reason", "") if config_map is not None else _said(gang.results)
    if said.startswith(NOT_ENFORCED):
        return said
    # A native group has the condition only where its constraints are not enforced.
    known = told is not None or config_map is not None or bool(gang.results) or gang.ref.native
    first = min((pod.created for pod in view.members(gang)), default=inf)
    late = time.time() > first + ENFORCEMENT_GRACE_SECONDS
    return f"{NOT_ENFORCED}no scheduler has reported that it enforces them" if late and not known else ""


def read_reservations(client: ListClient, namespace: str, view: GroupView, diagnostics: Diagnostics) -> bool:
    """Add the ledgers of a namespace (all if empty) to the view. False, and a note, if not permitted."""
    ledgers = list_if_served(client, RESERVATION_LEDGERS, ListScope(namespace))
    if ledgers is None:
        diagnostics.note(UNKNOWN_RESERVED)
    for ledger in parsed(ledgers or (), parse_reservation_ledger, diagnostics.unreadable):
        view.state.gangs.put_ledger(ledger)
    return ledgers is not None


def read_quotas(client: ListClient, namespace: str, view: GroupView, diagnostics: Diagnostics) -> None:
    """Add the ElasticQuotas of a namespace to the view, if the user may list them."""
    for quota in parsed(
        list_if_served(client, ELASTIC_QUOTAS, ListScope(namespace)) or (),
        parse_elastic_quota,
        diagnostics.unreadable,
    ):
        view.state.put_quota(quota)


def state_of(pod: Pod) -> str:
    """The phase of a pod, or `Terminating`, `Gated`, `Scheduled` or the reason of its failure."""
    if pod.terminating and not pod.finished:
        return "Terminating"
    if pod.gates and not pod.assigned:
        return "Gated"
    if pod.finished and pod.reason:
        return pod.reason
    return "Scheduled" if pod.assigned and pod.phase in ("", "Pending") else pod.phase or "Pending"


def constraints_text(gang: Gang) -> str:
    """The topology constraints of a group: `one example.com/rack,rack:spread/2,node:pack`; `-` for none."""
    key = [f"one {gang.topology_key}"] if gang.topology_key else []
    try:
        given = gang.group.constraints if gang.group is not None else parse_constraints(gang.constraints)
    except ModelError:
        return ",".join([*key, "invalid"])
    return ",".join([*key, *map(_constraint, given)]) or ("pack" if gang.group is not None else "-")


def _constraint(constraint: LevelConstraint) -> str:
    text = f"{constraint.level}:{'hard-' if constraint.hard else ''}{constraint.type}"
    if constraint.partitions is not None:
        text += f"/{constraint.partitions}"
    if constraint.min is not None or constraint.max is not None:
        text += f"[{constraint.min or ''}..{constraint.max or ''}]"
    return f"{text}x{constraint.factor}" if constraint.factor is not None else text


def _said(results: str) -> str:
    """The reason in the results annotation of a PodGroup; empty without one."""
    try:
        return decode((results or "{}").encode(), _Results).reason
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def _reason(view: GroupView, gang: Gang, phase: str, census: Census, members: tuple[Pod, ...]) -> str:
    """The group's own problem, else what its pods lack, else what the scheduler says.

    That is what becomes of a running group that lost members, or the message for the newest pod.
    """
    if gang.problem:
        return gang.problem
    if phase == SCHEDULING:
        bound = census.allocated - census.binding
        return f"{bound} of the {gang.min_members} members that start together are bound"
    if phase in _WAITS and (lacks := too_few(gang, census)):
        evicted = find(gang.status.conditions, DISRUPTION_TARGET) if not members else None
        return f"{lacks}; {evicted.message}" if evicted is not None else lacks
    repair = find(gang.status.conditions, REPAIR)
    if repair is not None and repair.status == "True" and census.waiting:
        return repair.message
    config_map = view.state.config_maps.of(gang.key)
    return (config_map.data.get("reason", "") if config_map is not None else "") or _told(members)


def _untold(members: tuple[Pod, ...]) -> str:
    """The schedulers from which the waiting members heard nothing; empty if no member waits."""
    names = sorted({pod.scheduler_name for pod in members if not (pod.assigned or pod.finished)})
    return f"scheduler {', '.join(names)} has not tried its pods yet" if names else ""


def _told(members: tuple[Pod, ...]) -> str:
    """The scheduler's message for the newest waiting member; empty if no member waits or has a message.

    The newest member was tried when all others existed. Messages of older members may date from before it.
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
    return told.get(last.uid, f"the scheduler has not tried {last.name} yet") if last is not None else ""
