"""The rule book over a live cluster: what is read, what is found, how it is printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click
import msgspec

from kubectl_plugin.entry import AlreadyReported
from kubectl_plugin.lint_groups import broken_groups
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.reading import Reader, Scope, list_or_none, list_raw, parsed
from kubectl_plugin.session import CommandSession
from kubectl_plugin.structured import to_json
from kubectl_plugin.table import visible
from kubectl_plugin.unserved import UNKNOWN_SCHEDULERS, unserved_notes
from scheduler_core.model.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NODES, RESOURCE_QUOTAS
from scheduler_core.model.node import Node, parse_node
from scheduler_core.model.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.model.resources import add
from scheduler_core.quota import rules
from scheduler_core.quota.examination import Broken, examine, examine_capacity
from scheduler_core.quota.ledger import QuotaLedger

UNKNOWN_CAPACITY = "note: the sum of min is not checked: you may not list all elasticquotas and nodes"


class Report(msgspec.Struct, frozen=True):
    """Broken rules, and what is legal but may surprise."""

    violations: tuple[rules.Violation, ...]
    notes: tuple[str, ...]


def allocatable(nodes: Iterable[Node]) -> dict[str, int]:
    """What the schedulable nodes have together."""
    total: dict[str, int] = {}
    for node in nodes:
        if not node.unschedulable:
            total = add(total, node.allocatable)
    return total


def report(
    quotas: Sequence[ElasticQuota], natives: Sequence[ResourceQuota], capacity: Sequence[Broken] = ()
) -> Report:
    """Every rule and every note on these quotas, and what is wrong with the sum of all."""
    broken = [*examine(quotas, natives), *capacity]
    notes = [note for quota in quotas for note in rules.notes(quota, natives)]
    return Report(tuple(item.violation for item in broken), tuple(notes))


def gather(client: Reader, namespace: str, complaints: Complaints) -> tuple[int, Report]:
    """Read what the rules need; the number of quotas, and the findings. Raises the ApiError tree."""
    own = Scope(namespace)
    quotas = list(
        parsed(list_raw(client, ELASTIC_QUOTAS, own), parse_elastic_quota, complaints.about_content)
    )
    natives = list(
        parsed(list_raw(client, RESOURCE_QUOTAS, own), parse_resource_quota, complaints.about_content)
    )
    everyone = quotas if not namespace else _other_quotas(client, complaints)
    nodes = list_or_none(client, NODES, Scope())
    if everyone is None or nodes is None:
        complaints.note(UNKNOWN_CAPACITY)
        return len(quotas), report(quotas, natives)
    ledger = QuotaLedger()
    for quota in everyone:
        ledger.put_quota(quota)
    room = allocatable(parsed(nodes, parse_node, complaints.about_content))
    return len(quotas), report(quotas, natives, examine_capacity(ledger.total_min, room))


def _other_quotas(client: Reader, complaints: Complaints) -> list[ElasticQuota] | None:
    items = list_or_none(client, ELASTIC_QUOTAS, Scope())
    if items is None:
        return None
    return list(parsed(items, parse_elastic_quota, lambda error: None))


def run_lint(ctx: click.Context, output: str) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, AlreadyReported."""
    session = CommandSession.of(ctx)
    complaints = Complaints()
    count, found = gather(session.client, session.scope, complaints)
    groups = broken_groups(session.client, session.scope, complaints)
    found = msgspec.structs.replace(found, violations=(*found.violations, *groups))
    unserved = unserved_notes(session.client, session.scope)
    if unserved is None:
        complaints.note(UNKNOWN_SCHEDULERS)
    found = msgspec.structs.replace(found, notes=(*found.notes, *(unserved or ())))
    if output == "json":
        sys.stdout.write(to_json(msgspec.to_builtins(found)))
    else:
        for violation in found.violations:
            print(visible(f"error: {violation}"))
        for note in found.notes:
            print(visible(f"note: {note}"))
        print(f"{count} quotas, {len(found.violations)} broken rules, {len(found.notes)} notes")
    if found.violations or complaints.failed:
        raise AlreadyReported
