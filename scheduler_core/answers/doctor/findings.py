"""What a check finds: how bad it is, in which object, what it is, what helps, and how it is repaired."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from scheduler_core.model.kinds import Resource
from scheduler_core.model.writes import Patch, Replace

Severity = Literal["note", "warning", "error"]
# The severities that make the exit code 1.
FAILURES: Final[frozenset[Severity]] = frozenset({"warning", "error"})


class DoctorRepair(msgspec.Struct, frozen=True):
    """The write that makes a derived value right; it holds only for the version that was read."""

    resource: Resource
    namespace: str
    name: str
    write: Patch | Replace


class HealthFinding(msgspec.Struct, frozen=True):
    """One finding. `subject` is the object, `problem` what is wrong, with numbers; `helps` may be empty.

    `others` are further objects of which exactly the same is true. `evidence` is what a second look must find
    again: the version of the object, or the difference itself. Without any, the object must be found again.
    """

    severity: Severity
    subject: str
    problem: str
    helps: str = ""
    repair: DoctorRepair | None = None
    others: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def fixable(self) -> bool:
        """Whether `--fix` repairs it."""
        return self.repair is not None

    def confirms(self, first: HealthFinding) -> bool:
        """Whether this finding of a later look is `first`, not another one that objects on the move made."""
        same = not first.evidence or not set(self.evidence).isdisjoint(first.evidence)
        return self.subject == first.subject and same

    def __str__(self) -> str:
        """`ElasticQuota team-a/quota: status.used[cpu]=4, but ...; what helps`."""
        count = len(self.others)
        more = f" and {count} other{'s' if count > 1 else ''}" if count else ""
        return f"{self.subject}{more}: {self.problem}" + (f"; {self.helps}" if self.helps else "")


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check: its findings, or why it was not made; `summary` says what was examined."""

    check: str
    findings: tuple[HealthFinding, ...] = ()
    summary: str = ""
    unchecked: str = ""

    @property
    def severity(self) -> str:
        """The worst severity of the findings; `ok` without any, `not checked` if the check was not made."""
        for severity in ("error", "warning", "note"):
            if any(found.severity == severity for found in self.findings):
                return severity
        return "not checked" if self.unchecked else "ok"


def gathered(findings: Iterable[HealthFinding]) -> tuple[HealthFinding, ...]:
    """The findings with those that say the same of objects of one kind and namespace as one.

    Findings that have a repair stay alone: each repair is one write.
    """
    kept: list[HealthFinding] = []
    places: dict[tuple[str, ...], int] = {}
    for finding in findings:
        family = finding.subject.rpartition("/")[0]
        key = (finding.severity, family, finding.problem, finding.helps, str(finding.fixable))
        if finding.repair is not None or not family or key not in places:
            places[key] = len(kept)
            kept.append(finding)
        else:
            first = kept[places[key]]
            kept[places[key]] = msgspec.structs.replace(first, others=(*first.others, finding.subject))
    return tuple(kept)


def failed(results: tuple[CheckResult, ...]) -> bool:
    """Whether any finding is a warning or an error."""
    return any(found.severity in FAILURES for result in results for found in result.findings)


def some(names: tuple[str, ...] | list[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
