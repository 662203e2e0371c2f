"""The result of a simulated scenario as text: per step what was bound, waits, was evicted or differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubectl_plugin.table import visible


def scenario_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Lines for one scenario, in the form of the design's JSON (name, file, steps)."""
    steps = result["steps"]
    failed = sum(bool(step.get("mismatches")) for step in steps)
    verdict = f"{failed} of {len(steps)} steps not as expected" if failed else "ok"
    yield visible(f"{result['file']}: {result['name']}: {verdict}")
    for warning in result.get("warnings", []):
        yield visible(f"  warning   {warning}")
    for step in steps:
        yield f"  step {step['step']}"
        for line in _step_lines(step):
            yield visible(f"    {line}")


def _step_lines(step: Mapping[str, Any]) -> Iterator[str]:
    for warning in step.get("warnings", []):
        yield f"warning   {warning}"
    for pod, node in sorted(step.get("bound", {}).items()):
        yield f"bound     {pod} -> {node}"
    for pod, why in sorted(step.get("pending", {}).items()):
        yield f"pending   {pod}: {why.get('reason', '')}: {why.get('message', '')}"
    for eviction in step.get("evicted", []):
        reason = f" ({eviction['reason']})" if eviction.get("reason") else ""
        yield f"evicted   {eviction['pod']} for {eviction.get('for') or 'nobody'}{reason}"
    for group, state in sorted(step.get("groups", {}).items()):
        for pod, rank in state.get("ranks", []):
            yield f"rank      {group} {rank}: {pod}"
    for node, verdict in sorted(step.get("explain", {}).items()):
        yield f"explain   {node}: {_verdict(verdict)}"
    for mismatch in step.get("mismatches", []):
        yield f"MISMATCH  {mismatch}"


def _verdict(verdict: Mapping[str, Any]) -> str:
    refused = [f"{name}: {why}" for name, why in verdict.get("filters", {}).items() if why != "pass"]
    if refused:
        return "; ".join(refused)
    scores = ", ".join(f"{name} {score}" for name, score in verdict.get("scores", {}).items())
    return f"score {verdict.get('total', 0)}" + (f" ({scores})" if scores else "")
