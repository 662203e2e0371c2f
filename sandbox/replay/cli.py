"""`muster-sandbox replay`: what these quotas would have done to a trace of jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import yaml

from sandbox.replay.chart import svg
from sandbox.replay.generator import JOBS, generate
from sandbox.replay.models import RULES, QuotaModel
from sandbox.replay.policies import GPU, POLICIES, proportional
from sandbox.replay.report import PolicyFigures, document, figures_of, table
from sandbox.replay.trace import Trace, TraceError, read_trace, trace_text
from sandbox.replay.virtual_cluster import ClusterShape, VirtualCluster
from scheduler_core.errors import ModelError
from scheduler_core.model.duration import parse_duration
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota

PROPORTIONAL = "proportional"
_SHOWN = 5


@click.command()
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@click.option("--generate", "seed", type=int, metavar="SEED", help="Make a trace instead of reading one.")
@click.option(
    "--jobs", type=click.IntRange(1, 1_000_000), default=JOBS, show_default=True, help="Jobs to make."
)
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FILE", help="Write the trace as csv, and stop."
)
@click.option(
    "--nodes", type=click.IntRange(1, 10_000), default=48, show_default=True, help="Number of nodes."
)
@click.option(
    "--gpus-per-node", type=click.IntRange(1, 1024), default=8, show_default=True, help="GPUs of each node."
)
@click.option(
    "--quotas",
    default=PROPORTIONAL,
    show_default=True,
    metavar="FILE",
    help="ElasticQuotas (YAML); proportional: min by the GPU hours of each quota in the trace.",
)
@click.option(
    "--policy",
    default=",".join(POLICIES),
    show_default=True,
    help="Policies to compare, with commas between them.",
)
@click.option(
    "--checkpoint", default="30m", show_default=True, help="How often jobs save their work; 0s: never."
)
@click.option(
    "--models", is_flag=True, help="Compare models of other systems' rules, which know quotas and no nodes."
)
@click.option("--per-quota", is_flag=True, help="Show a line per quota, too.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The form.")
@click.option("--svg", "picture", type=click.Path(path_type=Path), metavar="FILE", help="Write a chart.")
def replay(trace: Path | None, seed: int | None, picture: Path | None, **given: Any) -> None:
    """Replay a TRACE of jobs through the scheduler in virtual time, under several policies.

    TRACE is a csv with the columns submit, duration, gpus and quota, or timestamp, duration, num_gpus and
    cluster, as Philly's trace has them. Nothing is created anywhere.
    """
    names = () if given["models"] else _policies(given["policy"])
    checkpoint = _checkpoint(given["checkpoint"])
    known = _trace(trace, seed, given["jobs"])
    if given["save"] is not None:
        _write(given["save"], trace_text(known.jobs))
        return
    shape = ClusterShape(given["nodes"], given["gpus_per_node"])
    quotas = _quotas(given["quotas"], known, shape)
    found = [_replayed(name, known, shape, quotas, checkpoint) for name in names]
    for rule in RULES if given["models"] else ():
        model = QuotaModel(quotas, shape.gpus, rule, checkpoint=checkpoint)
        found.append(figures_of(rule.name, model.run(known.jobs), shape.gpus))
    if given["output"] == "json":
        click.echo(json.dumps(document(found), indent=2))
    else:
        click.echo("\n".join(table(found, per_quota=given["per_quota"])))
    if picture is not None:
        _write(picture, svg(found, shape.gpus))


def _trace(path: Path | None, seed: int | None, jobs: int) -> Trace:
    if (path is None) == (seed is None):
        raise click.UsageError("Give a TRACE, or --generate SEED.")
    if seed is not None:
        return Trace(generate(seed, jobs))
    assert path is not None
    try:
        found = read_trace(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: {error}") from None
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    if found.broken:
        rows = len(found.broken)
        click.echo(f"{path}: {rows} of {rows + len(found.jobs)} rows are broken and left out:", err=True)
        for row in found.broken[:_SHOWN]:
            click.echo(f"  {row}", err=True)
        if rows > _SHOWN:
            click.echo(f"  and {rows - _SHOWN} more", err=True)
    return found


def _quotas(text: str, trace: Trace, shape: ClusterShape) -> list[ElasticQuota]:
    if text == PROPORTIONAL:
        return proportional(trace.jobs, shape.gpus)
    try:
        raws = [raw for raw in yaml.safe_load_all(Path(text).read_text(encoding="utf-8")) if raw]
        found = [parse_elastic_quota(raw) for raw in raws if raw.get("kind") == "ElasticQuota"]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError) as error:
        raise click.ClickException(f"{text}: {error}") from None
    except ModelError as error:
        raise click.ClickException(f"{text}: {error}") from None
    if not found:
        raise click.ClickException(f"{text}: has no ElasticQuota")
    total = sum(quota.min.get(GPU, 0) for quota in found)
    if total > shape.gpus:
        raise click.ClickException(
            f"{text}: the min of {GPU} sum to {total}, more than the {shape.gpus} GPUs"
        )
    missing = sorted({job.quota for job in trace.jobs} - {quota.namespace for quota in found})
    if missing:
        raise click.ClickException(f"{text}: has no quota for {', '.join(missing)}, which the trace names")
    return found


def _policies(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in POLICIES]
    if unknown or not names:
        said = ", ".join(unknown) or "none"
        raise click.UsageError(f"--policy: {said}; choose of {', '.join(POLICIES)}")
    return list(dict.fromkeys(names))


def _checkpoint(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None or seconds < 0:
        raise click.UsageError(f"--checkpoint {text}: must be a duration, such as 30m")
    return seconds


def _replayed(
    name: str, trace: Trace, shape: ClusterShape, quotas: Iterable[ElasticQuota], checkpoint: float
) -> PolicyFigures:
    cluster = VirtualCluster(shape, quotas, POLICIES[name], checkpoint=checkpoint)
    if not sys.stderr.isatty():
        return figures_of(name, cluster.run(trace.jobs), shape.gpus)
    with click.progressbar(length=len(trace.jobs), label=name, file=sys.stderr) as bar:
        done = 0

        def progress(ended: int) -> None:
            nonlocal done
            if ended > done:
                bar.update(ended - done)
                done = ended

        return figures_of(name, cluster.run(trace.jobs, progress), shape.gpus)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path}: {error}") from None
