"""Compares reservation ledgers with the pods and PodGroups that exist (docs/reservations.md#the-ledger)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.answers.doctor.findings import DoctorRepair, HealthFinding
from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.kinds import RESERVATION_LEDGERS
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import NAME, ReservationLedger, ledger_body
from scheduler_core.model.resources import ResourceList
from scheduler_core.model.writes import Replace
from scheduler_core.quota.reservations.reconcile import reconcile, unconfirmed_entries
from scheduler_core.quota.reservations.usage import NamespaceUsage, amounts_text

# The webhook releases an entry whose object did not appear within this time (`--hold-timeout`).
RELEASED_SECONDS: Final = 60.0


def check_ledger(
    ledger: ReservationLedger, pods: Mapping[str, PodUse], groups: Mapping[str, PodGroup], age: float | None
) -> HealthFinding | None:
    """The entries of a ledger for which no object exists, and a `status.held` that is not their sum.

    `pods` and `groups` are those of the namespace by uid. `age`: seconds since the last write of the ledger,
    None if not known. Entries are repaired only if all are older than the time in which the webhook would
    release them: a younger one may belong to a pod that is just being created.
    """
    lost = unconfirmed_entries(ledger, pods, groups)
    settled = age is not None and age >= RELEASED_SECONDS
    problems = _entries(ledger, {uid for is_hold, uid in lost if is_hold}, {u for h, u in lost if not h})
    held = _held(ledger, pods)
    if ledger.name == NAME and _plain(ledger.held) != _plain(held):
        said, right = amounts_text(_plain(ledger.held)) or "nothing", amounts_text(_plain(held)) or "nothing"
        problems.append(f"status.held is {said}, but its entries hold {right}")
    if not problems:
        return None
    text, evidence = "; ".join(problems), tuple(problems)
    if lost and not settled:
        helps = f"the webhook releases such entries after {int(RELEASED_SECONDS)} s when it is at work"
        return HealthFinding("warning", _subject(ledger), text, helps, evidence=evidence)
    wanted = reconcile(ledger, pods, groups, gone=[uid for _, uid in lost])
    wanted = NamespaceUsage(wanted, pods).ledger(wanted)
    write = Replace(RESERVATION_LEDGERS, ledger.namespace, ledger.name, ledger_body(wanted))
    repair = DoctorRepair(RESERVATION_LEDGERS, ledger.namespace, ledger.name, write)
    helps = "the webhook repairs it when it is at work; --fix repairs it"
    return HealthFinding("error", _subject(ledger), text, helps, repair, evidence=evidence)


def _subject(ledger: ReservationLedger) -> str:
    return f"ReservationLedger {ledger.namespace}/{ledger.name}"


def _held(ledger: ReservationLedger, pods: Mapping[str, PodUse]) -> dict[str, int]:
    """What the holds reserve beyond the pods that exist and the charges."""
    return NamespaceUsage(ledger, pods).held


def _plain(amounts: ResourceList) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if value}


def _entries(ledger: ReservationLedger, holds: set[str], charges: set[str]) -> list[str]:
    found = [
        f"it holds {amounts_text(hold.total) or 'nothing'} for PodGroup {hold.group}, which does not exist"
        for hold in ledger.holds
        if hold.uid in holds
    ]
    found += [
        f"it charges {amounts_text(charge.usage)} for pod {charge.pod or charge.uid}, which does not exist "
        "with that use"
        for charge in ledger.charges
        if charge.uid in charges
    ]
    return found
