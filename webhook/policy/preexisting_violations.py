"""Rules that an object broke before the change.

An update is refused only for the rules that it breaks or makes worse. So an object that was illegal before
(written before the webhook was installed, or made illegal by a node that left) can still be relabelled, lose
a finalizer, or be repaired in steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.quota.violations import Violation
from webhook.policy.verdict import Verdict, allow, refuse_malformed

ALREADY_BROKEN: Final = "allowed: this rule was already broken before the change"


class _SpecOnly(msgspec.Struct, frozen=True):
    spec: Any = None


def preexisting_warnings(violations: Iterable[Violation]) -> list[str]:
    """One warning for each rule that was already broken before the change."""
    return [f"{ALREADY_BROKEN}: {violation}" for violation in violations]


def judge_unreadable_update(error: ModelError, raw: msgspec.Raw, old_raw: msgspec.Raw) -> Verdict:
    """The verdict on an update to an object that cannot be parsed: allowed if its spec stays the same."""
    try:
        same = spec_of(raw) == spec_of(old_raw)
    except (msgspec.MsgspecError, UnicodeError):
        same = False
    return allow([f"{ALREADY_BROKEN}: {error}"]) if same else refuse_malformed(error)


def spec_of(raw: msgspec.Raw) -> Any:
    """The decoded `spec` of any object. Raises MsgspecError and UnicodeError."""
    return decode(raw, _SpecOnly).spec
