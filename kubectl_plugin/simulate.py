"""`kubectl elasticquota simulate`: quota policy on a file, with the real engine and no cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kubectl_plugin.entry import AlreadyReported
from kubectl_plugin.options import global_flags
from scheduler_core.errors import MusterError
from scheduler_core.model.printable import visible

# So many pods an error lists.
MOST_NAMED: Final = 10


@click.command(name="simulate", short_help="Run the scheduler on scenario files, no cluster.")
@click.option(
    "--scenario",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Scenario file; repeatable; - is standard input.",
)
@click.argument("more", nargs=-1, metavar="[FILE]...")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Form of the result."
)
@click.option("--explain", metavar="POD", help="Per node, what filters and scores say of this pod (ns/name).")
@global_flags
def simulate(files: tuple[str, ...], more: tuple[str, ...], output: str, explain: str | None) -> None:
    """Run scenario files through the scheduler and its controllers; no cluster is needed.

    A scenario lists objects and steps; a step may say what it expects. The exit code is 1 if an expectation
    is not met, a file cannot be used, or no step has the pod of --explain.

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
        from kubectl_plugin.simulate_text import scenario_lines

        for result in results:
            for line in scenario_lines(result):
                print(line)
    else:
        from kubectl_plugin.structured import to_json, to_yaml

        sys.stdout.write((to_json if output == "json" else to_yaml)({"scenarios": results}))
    for problem in problems:
        print(visible(problem), file=sys.stderr)
    if problems or any(step.get("mismatches") for result in results for step in result["steps"]):
        raise AlreadyReported


def unexplained(pod: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to say if no step of any scenario explains the pod; empty if one does."""
    from difflib import get_close_matches

    steps = [step for result in results for step in result["steps"]]
    if any("explain" in step for step in steps):
        return []
    known = sorted({name for step in steps for name in (*step.get("bound", {}), *step.get("pending", {}))})
    if pod in known:
        return [f"error: --explain {pod}: its schedulerName is that of no profile, so nothing decides on it"]
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
    """Run every scenario of a file; what is wrong with the file is one line, and the next file goes on."""
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
