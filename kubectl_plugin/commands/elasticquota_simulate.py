"""`kubectl elasticquota simulate`: flags, help, and the results of scenario files as text, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported
from kubectl_plugin.cli.global_flags import global_flags
from scheduler_core.errors import MusterError
from scheduler_core.model.printable import visible

# Number of pods that an error names.
MOST_NAMED: Final = 10


@click.command(name="simulate")
@click.option(
    "--scenario",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Scenario file; repeatable; -: standard input.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Output format."
)
@click.option(
    "--explain",
    metavar="POD",
    help="Print the filters and scores of every node for this pod (namespace/name).",
)
@global_flags
def simulate(files: tuple[str, ...], more: tuple[str, ...], output: str, explain: str | None) -> None:
    """Run scenario files through the scheduler and its controllers; no cluster is needed.

    A scenario has objects and steps; a step may have expectations. The exit code is 1 if an expectation is
    not met, a file cannot be used, or no step has the pod of --explain.

    \b
    Examples:
      kubectl elasticquota simulate --scenario borrow.yaml
      kubectl elasticquota simulate --scenario tests/*.yaml -o json
    """
    results: list[dict[str, Any]] = []
    problems: list[str] = []
    for file in (*files, *more):
        _run_file(file, explain, results, problems)
    if explain and results:
        problems += unexplained(explain, results)
    if output == "text":
        for result in results:
            for line in scenario_lines(result):
                print(line)
    else:
        from kubectl_plugin.render.structured import encoded

        sys.stdout.write(encoded({"scenarios": results}, output))
    for problem in problems:
        print(visible(problem), file=sys.stderr)
    if problems or any(step.get("mismatches") for result in results for step in result["steps"]):
        raise AlreadyReported


def unexplained(pod: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The error if no step of any scenario explains the pod; empty if one does."""
    from difflib import get_close_matches

    steps = [step for result in results for step in result["steps"]]
    if any("explain" in step for step in steps):
        return []
    known = sorted({name for step in steps for name in (*step.get("bound", {}), *step.get("pending", {}))})
    if pod in known:
        return [f"error: --explain {pod}: no profile has its schedulerName, so the pod is not scheduled"]
    near = get_close_matches(pod, known, n=3) or [name for name in known if name.endswith(f"/{pod}")]
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    elif known:
        more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        hint = f"there are {', '.join(known[:MOST_NAMED])}{more}"
    else:
        hint = "there are no pods"
    return [f"error: --explain {pod}: no step has a pod of that name (namespace/name); {hint}"]


def _run_file(file: str, explain: str | None, results: list[dict[str, Any]], problems: list[str]) -> None:
    """Run every scenario of a file. A file that cannot be used adds one line to `problems`."""
    from scheduler_core.simulate import load_scenarios, run_scenario

    try:
        text = _read(file)
        for scenario in load_scenarios(text, file):
            results.append(run_scenario(scenario, explain))
    except OSError as error:
        problems.append(f"error: {file}: {(error.strerror or str(error)).lower()}")
    except UnicodeDecodeError:
        problems.append(f"error: {file}: is not UTF-8 text")
    except MusterError as error:
        text = " ".join(str(error).split())
        problems.append(f"error: {text}" if text.startswith(file) else f"error: {file}: {text}")


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    return Path(file).read_text(encoding="utf-8")


def scenario_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Text lines of the result of one scenario: a mapping with name, file, warnings and steps."""
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
        preemptor = f" for {eviction['for']}" if eviction.get("for") else ""
        yield f"evicted   {eviction['pod']}{preemptor}{reason}"
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
