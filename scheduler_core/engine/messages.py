"""What the engine says of its decisions, in words."""

from __future__ import annotations

from scheduler_core.engine.decisions import Decision, Noticed
from scheduler_core.model.gang import RESOURCES, Gang, GroupRef
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import (
    PREEMPTED_BY,
    PREEMPTING_MEMBER,
    REASON_INVALID_TOPOLOGY,
    REASON_UNSCHEDULABLE,
)
from scheduler_core.model.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.quota.policy import above_max_text, borrowed
from scheduler_core.state.cluster import ClusterState


def eviction_message(
    state: ClusterState, preemptor: Pod, victim: Pod, node: str, *, group: GroupRef | None = None
) -> str:
    """Why a victim goes: the preemptor, its quota, what the victim's quota borrows (reference, rule 14).

    `group` is the preemptor's where the whole group is to start: told is its own priority, if it has one.
    """
    whole = f"{PREEMPTING_MEMBER}{group}" if group is not None else ""
    gang = state.gangs.gangs.get(group.key) if group is not None else None
    own_priority = gang.priority if gang is not None else None
    priority = preemptor.priority if own_priority is None else own_priority
    text = f"{PREEMPTED_BY}{preemptor.key}{whole} (priority {priority}) for node {node}"
    own, other = state.ledger.quota_of(preemptor.namespace), state.ledger.quota_of(victim.namespace)
    if own is None or other is None:
        return text
    if own is other:
        return f"{text}, under ElasticQuota {own.key}"
    amounts = borrowed(state.ledger, other)
    parts = ", ".join(f"{name}={format_resource(name, value)}" for name, value in amounts.items())
    uses = above_max_text(state.ledger, other)
    passed = f" and {uses}" if uses else ""
    return (
        f"{text}, which reclaims the min of ElasticQuota {own.key}; "
        f"ElasticQuota {other.key} borrows {parts}{passed}"
    )


def unschedulable_event(gang: Gang, profile: str, message: str) -> Noticed:
    """The event on a PodGroup whose members cannot start (coscheduling seed, "Scheduling", 2 and 4)."""
    resource = RESOURCES[gang.ref.dialect]
    return Noticed(
        resource.api_version,
        resource.kind,
        gang.ref.namespace,
        gang.ref.name,
        gang.uid,
        profile,
        REASON_UNSCHEDULABLE,
        message,
    )


def topology_notices(state: ClusterState) -> list[Decision]:
    """Events on topology ConfigMaps that could not be read, each told once; the tree before them stays."""
    table = state.topology
    found, table.unreported = table.unreported, []
    return [
        Noticed(
            CONFIG_MAPS.api_version,
            CONFIG_MAPS.kind,
            config_map.namespace,
            config_map.name,
            config_map.uid,
            scheduler,
            REASON_INVALID_TOPOLOGY,
            f"{config_map.fault}; the topology that was read before stays in use",
        )
        for config_map in found
        for scheduler, settings in table.settings.items()
        if settings.namespace == config_map.namespace
    ]
