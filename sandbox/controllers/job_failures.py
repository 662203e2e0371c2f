"""`podFailurePolicy` of Jobs: what a failed pod means for its Job."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sandbox.objects import Obj, at


class Verdict(NamedTuple):
    """Whether a failed pod counts against backoffLimit, is ignored, or fails the Job, and why it does."""

    action: Literal["Count", "Ignore", "FailJob"]
    message: str = ""


def verdict_of(policy: Obj | None, pod: Obj) -> Verdict:
    """The first matching rule decides; without one the pod counts."""
    where = f"{pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}"
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        why = _exit_code_text(rule.get("onExitCodes"), pod, where) or _condition_text(rule, pod, where)
        if not why:
            continue
        action = rule.get("action")
        if action == "FailJob":
            return Verdict("FailJob", f"{why} matching FailJob rule at index {number}")
        return Verdict("Ignore" if action == "Ignore" else "Count")
    return Verdict("Count")


def _exit_code_text(wanted: Obj | None, pod: Obj, where: str) -> str:
    if not wanted:
        return ""
    for status in at(pod, "status", "containerStatuses") or ():
        code = at(status, "state", "terminated", "exitCode")
        named = wanted.get("containerName") in (None, status["name"])
        if code and named and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return f"Container {status['name']} for pod {where} failed with exit code {code}"
    return ""


def _condition_text(rule: Obj, pod: Obj, where: str) -> str:
    have = {c.get("type"): c.get("status") for c in at(pod, "status", "conditions") or ()}
    for wanted in rule.get("onPodConditions") or ():
        if have.get(wanted["type"]) == wanted.get("status", "True"):
            return f"Pod {where} has condition {wanted['type']}"
    return ""
