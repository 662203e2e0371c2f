"""Runs the checks of the doctor, confirms what may be a write that is under way, and repairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.doctor.accounts import check_accounts
from kubectl_plugin.cluster.doctor.enforcement import check_enforcement, check_topologies
from kubectl_plugin.cluster.doctor.objects import (
    check_leader,
    check_names,
    check_parts,
    check_passed_by,
    check_quota_use,
    check_reservations,
    check_resource_quota_use,
    check_rules,
)
from kubectl_plugin.cluster.doctor.reads import NotChecked, Reads
from kubectl_plugin.cluster.doctor.webhook import check_answer, check_certificates, check_webhook
from kubectl_plugin.render.structured import name_line
from scheduler_core.answers.doctor.findings import CheckResult, HealthFinding, gathered
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Conflict, Forbidden

Check = Callable[[Reads], CheckResult]

CHECKS: Final[dict[str, Check]] = {
    "rules": check_rules,
    "quota-use": check_quota_use,
    "resource-quota-use": check_resource_quota_use,
    "reservations": check_reservations,
    "webhook": check_webhook,
    "certificates": check_certificates,
    "answer": check_answer,
    "rights": check_accounts,
    "leader": check_leader,
    "enforced": check_enforcement,
    "topologies": check_topologies,
    "versions": check_parts,
    "names": check_names,
    "passed-by": check_passed_by,
}
# Values that others are about to write when pods come and go: what is wrong must still be wrong later.
CONFIRMED: Final = frozenset({"quota-use", "resource-quota-use", "reservations", "enforced"})
CONFIRM_SECONDS: Final = 2.0


def pause(seconds: float) -> None:
    """Let the writes that are under way arrive."""
    time.sleep(seconds)


def examine(reads: Reads, checks: Iterable[str] = tuple(CHECKS)) -> tuple[CheckResult, ...]:
    """The results of all checks. Raises the ApiError tree where the server cannot be reached."""
    results = {name: _made(name, reads) for name in checks}
    doubtful = [name for name in results if name in CONFIRMED and results[name].findings]
    if doubtful:
        pause(CONFIRM_SECONDS)
        again = reads.fresh()
        for name in doubtful:
            results[name] = _confirmed(results[name], _made(name, again))
    unread = tuple(HealthFinding("error", "unreadable object", text) for text in reads.unreadable)
    if unread:
        results["unreadable"] = CheckResult("unreadable", unread)
    return tuple(
        msgspec.structs.replace(result, findings=gathered(result.findings)) for result in results.values()
    )


def _made(name: str, reads: Reads) -> CheckResult:
    try:
        return CHECKS[name](reads)
    except (NotChecked, CommandFailed) as reason:
        return CheckResult(name, unchecked=str(reason))
    except Forbidden as error:
        return CheckResult(name, unchecked=error.message)


def _confirmed(first: CheckResult, second: CheckResult) -> CheckResult:
    """The findings of the second read that the first read had, too."""
    before = {finding.subject: finding for finding in first.findings}
    still = tuple(
        finding
        for finding in second.findings
        if finding.subject in before and finding.confirms(before[finding.subject])
    )
    return msgspec.structs.replace(second, findings=still)


class Repaired(msgspec.Struct, frozen=True):
    """The outcome of one repair: a line for stdout, or a problem for stderr."""

    finding: HealthFinding
    line: str = ""
    problem: str = ""


def repair(client: Client, results: Iterable[CheckResult], *, dry_run: bool) -> list[Repaired]:
    """Write what is derived anew. A finding whose object has changed meanwhile is left as it is.

    Raises the ApiError tree but for conflicts and missing rights.
    """
    outcomes = []
    for finding in (found for result in results for found in result.findings):
        if finding.repair is None:
            continue
        line = f"{name_line(finding.repair.name, finding.repair.resource)} repaired"
        try:
            client.write(finding.repair.write, dry_run=dry_run)
        except Conflict:
            problem = f"{finding.subject}: was changed meanwhile and is left as it is"
            outcomes.append(Repaired(finding, problem=problem))
        except Forbidden as error:
            outcomes.append(Repaired(finding, problem=f"{finding.subject}: {error.message}"))
        else:
            outcomes.append(Repaired(finding, f"{line} (server dry run)" if dry_run else line))
    return outcomes
