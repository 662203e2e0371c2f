"""Finds labels and annotations of Muster that are mistyped, or whose values nobody understands."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from scheduler_core.answers.doctor.findings import HealthFinding
from scheduler_core.model import names
from scheduler_core.model.duration import parse_duration
from scheduler_core.model.meta import ObjectMeta

PREFIX: Final = "muster.dev/"
# Prefixes of keys that only Muster and what it follows use: an unknown key there is a mistake.
_OWN: Final = (PREFIX, "sakkara.")
# Keys that charts and tools of Muster set, beside those of names.
_OTHERS: Final = (
    f"{PREFIX}gang-owners",
    f"{PREFIX}exit-code",
    f"{PREFIX}run-seconds",
    f"{PREFIX}stop-seconds",
    f"{PREFIX}load",
    f"{PREFIX}config",
)
KNOWN: Final = frozenset(
    {
        *_OTHERS,
        *(
            value
            for key, value in vars(names).items()
            if isinstance(value, str) and "." in value and key.endswith(("_LABEL", "_ANNOTATION"))
        ),
    }
)
# Keys of other groups that people also mistype.
_LIKELY: Final = (names.GROUP_NAME_ANNOTATION, names.X_POD_GROUP_LABEL)
# How like a known key must be to count as mistyped (ratio of difflib).
_ALIKE: Final = 0.87


def _one_of(*values: str) -> Callable[[str], str]:
    return lambda text: "" if text in values else f"is none of {', '.join(values)}"


def _duration(text: str) -> str:
    seconds = parse_duration(text)
    return "" if seconds is not None and seconds >= 0 else "is not a duration such as 10m or 1h30m"


_RULES: Final[dict[str, Callable[[str], str]]] = {
    names.EXEMPT_LABEL: _one_of("true", "false"),
    names.JOB_DISRUPTION_LABEL: _one_of(names.JOB_DISRUPTION_IGNORE),
    names.HOLD_QUOTA_ANNOTATION: _duration,
    names.LIFECYCLE_POLICY_ANNOTATION: _one_of(*names.LIFECYCLE_POLICIES),
    names.FORCE_DELETE_ANNOTATION: _one_of("true", "false"),
}


def check_keys(kind: str, meta: ObjectMeta) -> list[HealthFinding]:
    """Labels and annotations of one object that are mistyped or have a value without effect."""
    found = []
    for field, entries in (("labels", meta.labels), ("annotations", meta.annotations)):
        for key, value in sorted((entries or {}).items()):
            problem, helps = _problem(key, value)
            if problem:
                place = f"metadata.{field}[{key}]"
                found.append(HealthFinding("warning", f"{kind} {meta.key}", f"{place} {problem}", helps))
    return found


def _problem(key: str, value: str) -> tuple[str, str]:
    """What is wrong with an entry and what helps; empty if nothing is."""
    if key in KNOWN:
        rule = _RULES.get(key)
        broken = rule(value) if rule is not None else ""
        return (f"= {value!r} {broken}", "it has no effect") if broken else ("", "")
    own = key.startswith(_OWN)
    close = get_close_matches(key, KNOWN if own else _LIKELY, n=1, cutoff=0.6 if own else _ALIKE)
    if not own and not close:
        return "", ""
    return "is not known", f"did you mean {close[0]}?" if close else "nothing of Muster reads it"
