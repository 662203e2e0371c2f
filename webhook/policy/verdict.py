"""Verdicts: the decision of a policy about one request, with messages, warnings and audit annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.quota.reservations.limits import ReservationRefusal
from scheduler_core.quota.violations import Violation

FORBIDDEN: Final = 403
INVALID: Final = 422
UNAVAILABLE: Final = 503
MAX_LISTED: Final = 20

Rule = Literal[
    "",
    "malformed",
    "whole",
    "bounds",
    "hard",
    "single",
    "sharing",
    "capacity",
    "in-use",
    "immutable",
    "group",
    "reserved",
    "topology",
    "max",
    "tree",
    "flavor",
]


class Cause(msgspec.Struct, frozen=True):
    """One entry of `status.details.causes`: a metav1.CauseType, the message and the field."""

    reason: str
    message: str
    field: str


class Finding(msgspec.Struct, frozen=True):
    """A broken rule and the name under which it is counted."""

    rule: Rule
    violation: Violation


class Verdict(msgspec.Struct, frozen=True):
    """The decision. `patch` is an RFC 6902 list (add, remove, replace and test only), empty for no change.

    `code` is 403 for a broken rule, 422 for an object that cannot be parsed, 503 for a request that may be
    tried again; `audit` goes into the audit annotations; `rules` names each broken rule once.
    """

    allowed: bool = True
    code: int = 200
    message: str = ""
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
    rules: tuple[Rule, ...] = ()
    audit: Mapping[str, str] = {}

    @property
    def decision(self) -> str:
        """One word for audit and metrics: `deny`, `patch` or `allow`."""
        if not self.allowed:
            return "deny"
        return "patch" if self.patch else "allow"

    def warning(self, more: tuple[str, ...]) -> Verdict:
        """The same verdict with more warnings, if it allows the request."""
        if not (more and self.allowed):
            return self
        return msgspec.structs.replace(self, warnings=(*self.warnings, *more))


ALLOW: Final = Verdict()


def allow(warnings: Iterable[str] = (), **audit: str) -> Verdict:
    """Allow the request, with warnings if there are any."""
    return Verdict(warnings=tuple(warnings), audit=audit)


def deny(findings: list[Finding], warnings: Iterable[str] = (), **audit: str) -> Verdict:
    """Refuse for all broken rules at once; at most MAX_LISTED are in the message."""
    listed = findings[:MAX_LISTED]
    message = "; ".join(str(finding.violation) for finding in listed)
    if len(findings) > len(listed):
        message += f"; and {len(findings) - len(listed)} more"
    return Verdict(
        allowed=False,
        code=FORBIDDEN,
        message=message,
        causes=tuple(
            Cause("FieldValueForbidden", str(finding.violation), finding.violation.field)
            for finding in listed
        ),
        warnings=tuple(warnings),
        rules=tuple(dict.fromkeys(finding.rule for finding in findings)),
        audit=audit,
    )


def refuse(message: str, field: str, reasons: Iterable[object], rule: Rule, **audit: str) -> Verdict:
    """Refuse for reasons that concern one field, each of which is a cause."""
    causes = tuple(Cause("FieldValueForbidden", str(reason), field) for reason in reasons)
    return Verdict(False, FORBIDDEN, message, causes, rules=(rule,), audit=audit)


def refuse_malformed(error: ModelError) -> Verdict:
    """Refuse an object that cannot be parsed, with the message of the parser."""
    return Verdict(
        allowed=False,
        code=INVALID,
        message=str(error),
        causes=(Cause("FieldValueInvalid", error.problem, error.path),),
        rules=("malformed",),
    )


def refuse_for_now(message: str, rule: Rule = "reserved") -> Verdict:
    """Refuse a request that could not be decided, whatever the failurePolicy is; the client may try again."""
    return Verdict(allowed=False, code=UNAVAILABLE, message=f"{message}; try again", rules=(rule,))


def refuse_lacking(subject: str, field: str, short: Sequence[ReservationRefusal]) -> Verdict:
    """Refuse a request for which quota is lacking beside what is used and reserved."""
    message = "; ".join(str(shortage) for shortage in short)
    return refuse(f"{subject}: {message}", field, short, "reserved")
