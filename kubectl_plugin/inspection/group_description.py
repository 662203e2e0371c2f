"""Descriptions of groups of every dialect: state, members, conditions, Events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.group_status import GroupStatus, state_of, status_of
from kubectl_plugin.cluster.group_view import GroupView
from kubectl_plugin.cluster.reading import ListClient
from kubectl_plugin.inspection.description import (
    Description,
    Section,
    conditions_section,
    events_section,
)
from kubectl_plugin.inspection.events import read_events
from kubectl_plugin.render.table import ABSENT
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import ApiError
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.meta import ApiObject, decode
from scheduler_core.printing.age import age

Facts = Callable[[GroupStatus], Iterable[tuple[str, str]]]


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[ObjectCondition, ...] | None = None


class _Wire(ApiObject, frozen=True):
    status: _Status | None = None


def describe_groups(
    client: ListClient, view: GroupView, groups: Iterable[Gang], facts: Facts, diagnostics: Diagnostics
) -> Iterator[Description]:
    """The descriptions of groups of the view. `facts` are the lines on the state of a group.

    A group that is gone meanwhile is reported. Raises the ApiError tree.
    """
    for gang in groups:
        status = status_of(view, gang)
        try:
            raw = client.get(status.resource, gang.ref.namespace, status.object_name)
            wire = decode(raw, _Wire, status.resource.kind)
        except ApiError as error:
            if not error.status:
                raise
            diagnostics.object_error(error)
            continue
        except ModelError as error:
            diagnostics.unreadable(error)
            continue
        conditions = wire.status.conditions if wire.status is not None else None
        now = time.time()
        sections = (
            Section("Members", ("Name", "Node", "State", "Age"), tuple(_members(status, now))),
            conditions_section(conditions or ()),
            events_section(read_events(client, status.resource.kind, wire.metadata, diagnostics), now),
        )
        yield Description(status.resource, wire.metadata, tuple(facts(status)), sections)


def _members(status: GroupStatus, now: float) -> Iterator[tuple[str, ...]]:
    for pod in status.members:
        yield pod.name, pod.node_name or ABSENT, state_of(pod), age(pod.created, now)
