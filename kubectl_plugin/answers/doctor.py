"""`kubectl elasticquota doctor`: flags, help, the results of the checks, and the repairs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags
from scheduler_core.model.printable import visible
from scheduler_core.printing.counts import counted

if TYPE_CHECKING:
    from kubectl_plugin.cluster.doctor.examination import Repaired
    from scheduler_core.answers.doctor.findings import CheckResult


@click.command(name="doctor")
@click.option("--fix", is_flag=True, help="Write again values that are only derived: status.used, ledgers.")
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    help="With --fix: server: only try the repairs; nothing is stored.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@global_flags
@click.pass_context
def doctor(ctx: click.Context, /, fix: bool, dry_run: str, output: str) -> None:
    """Check whether the installation is healthy, and what is stored in it is right.

    It recomputes the use of quotas and the reservations from pods, looks at webhook, certificates, leader and
    versions, and finds what is mistyped or passed by the webhook. Everything that lint finds is a part of it.
    Without --fix nothing is written. The exit code is 1 if there is a warning or an error.

    \b
    Examples:
      kubectl elasticquota doctor -A
      kubectl elasticquota doctor -n team-a -o json
      kubectl elasticquota doctor -A --fix --dry-run=server
    """
    from kubectl_plugin.cluster.doctor.examination import examine, repair
    from kubectl_plugin.cluster.doctor.reads import Reads
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.render.structured import to_json
    from scheduler_core.answers.doctor.findings import FAILURES

    if dry_run != "none" and not fix:
        raise click.UsageError("--dry-run needs --fix")
    session = CommandSession.of(ctx)
    results = examine(Reads(session.client, session.scope))
    repairs = repair(session.client, results, dry_run=dry_run == "server") if fix else []
    if output == "json":
        sys.stdout.write(to_json(document(results, repairs)))
    else:
        for line in lines(results, repairs):
            print(visible(line))
    for item in repairs:
        if item.problem:
            print(visible(f"error: {item.problem}"), file=sys.stderr)
    done = {id(item.finding) for item in repairs if item.line and dry_run == "none"}
    found = [finding for result in results for finding in result.findings]
    if any(finding.severity in FAILURES and id(finding) not in done for finding in found):
        raise AlreadyReported


def lines(results: Sequence[CheckResult], repairs: Sequence[Repaired]) -> list[str]:
    """One line per check that is well or was not made, one per finding, the repairs, and the counts."""
    out = []
    for result in results:
        for finding in result.findings:
            out.append(f"{finding.severity + ':':9}{result.check}: {finding}")
        if not result.findings and not result.unchecked:
            out.append(f"{'ok:':9}{result.check}: {result.summary}")
        if result.unchecked:
            out.append(f"not checked: {result.check}: {result.unchecked}")
    out += [item.line for item in repairs if item.line]
    found = [finding.severity for result in results for finding in result.findings]
    unmade = sum(bool(result.unchecked) for result in results)
    parts = [counted(len(results), "check")]
    parts += [counted(found.count(name), name) for name in ("error", "warning", "note")]
    return [*out, ", ".join([*parts, f"{unmade} not checked"])]


def document(results: Sequence[CheckResult], repairs: Sequence[Repaired]) -> dict[str, Any]:
    """The results and repairs for JSON."""
    return {
        "checks": [
            {
                "check": result.check,
                "severity": result.severity,
                "summary": result.summary,
                "notChecked": result.unchecked,
                "findings": [
                    {
                        "severity": finding.severity,
                        "subjects": [finding.subject, *finding.others],
                        "problem": finding.problem,
                        "helps": finding.helps,
                        "fixable": finding.fixable,
                    }
                    for finding in result.findings
                ],
            }
            for result in results
        ],
        "repairs": [
            {"subject": item.finding.subject, "repaired": bool(item.line), "problem": item.problem}
            for item in repairs
        ],
    }
