"""`kubectl elasticquota simulate`: flags, help, and the results of scenario files as text, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported, CommandFailed
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
    metavar="FILE",
    help="Scenario file; repeatable; -: standard input.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option("--live", is_flag=True, help="Run on the cluster as it is; nothing is written to it.")
@click.option("--config", default="", metavar="FILE", help="With --live: the scheduler's configuration.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of scenario files.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "junit"]),
    default="text",
    help="Output format.",
)
@click.option(
    "--explain",
    metavar="POD",
    help="Print the filters and scores of every node for this pod (namespace/name).",
)
@global_flags
@click.pass_context
def simulate(
    ctx: click.Context, /, files: tuple[str, ...], more: tuple[str, ...], output: str, **flags: Any
) -> None:
    """Run scenario files through the scheduler and its controllers; no cluster is needed.

    A scenario has objects and steps; a step may have expectations. The exit code is 1 if an expectation is
    not met, a file cannot be used, or no step has the pod of --explain. With --live, the scheduler runs on a
    copy of the cluster.

    \b
    Examples:
      kubectl elasticquota simulate --scenario borrow.yaml
      kubectl elasticquota simulate --scenario tests/*.yaml -o junit > results.xml
      kubectl elasticquota simulate --live
      kubectl elasticquota simulate --schema > scenario.schema.json
    """
    if flags["schema"]:
        print_schema()
        return
    _check_sources(files or more, flags)
    results: list[dict[str, Any]] = []
    problems: list[str] = []
    explain = flags["explain"]
    if flags["live"]:
        results.append(_run_live(ctx, flags["config"], explain))
    for file in (*files, *more):
        _run_file(file, explain, results, problems)
    if explain and results:
        problems += unexplained(explain, results)
    sys.stdout.write(_printed(results, problems, output))
    for problem in problems:
        print(visible(problem), file=sys.stderr)
    if problems or any(step.get("mismatches") for result in results for step in result["steps"]):
        raise AlreadyReported


def print_schema() -> None:
    """Print the JSON schema of scenario files, in the order of its types."""
    import json

    from scheduler_core.simulate import scenario_schema

    print(json.dumps(scenario_schema(), indent=2))


def _check_sources(files: Sequence[str], flags: Mapping[str, Any]) -> None:
    """Raises click.UsageError unless there is one source of scenarios."""
    if flags["live"] and files:
        raise click.UsageError("--live runs on the cluster, and --scenario on files: give one of them.")
    if not flags["live"] and not files:
        raise click.UsageError("give --scenario FILE, or --live.")
    if flags["config"] and not flags["live"]:
        raise click.UsageError("--config needs --live; a scenario file has its own config.")


def _run_live(ctx: click.Context, config: str, explain: str | None) -> dict[str, Any]:
    """What the scheduler would do in the cluster now. Raises CommandFailed if it cannot be read."""
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.live.live_world import read_world
    from scheduler_core.simulate.run import run_as_it_is

    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    live = read_world(session.client, session.namespace, diagnostics.note, config=config)
    if live.blind:
        raise CommandFailed(
            f"you may not list {', '.join(live.blind)}: the scheduler cannot run without them"
        )
    for missing in live.unread:
        diagnostics.note(f"note: you may not list {missing}: what depends on them is not known")
    for error in live.skipped:
        diagnostics.note(f"note: {error}: left out, as the scheduler leaves it out")
    return run_as_it_is(live.world.base, "the cluster as it is", explain)


def _printed(results: Sequence[Mapping[str, Any]], problems: Sequence[str], output: str) -> str:
    if output == "text":
        return "".join(f"{line}\n" for result in results for line in scenario_lines(result))
    if output == "junit":
        from kubectl_plugin.render.junit import junit

        return junit(results, problems)
    from kubectl_plugin.render.structured import encoded

    return encoded({"scenarios": list(results)}, output)


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
    yield visible(": ".join(part for part in (result["file"], result["name"], verdict) if part))
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
