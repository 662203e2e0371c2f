"""Command line of `muster-sandbox`."""

from __future__ import annotations

import asyncio
import errno
import importlib
import importlib.util
import tempfile
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from sandbox.load.cli import load
from sandbox.nodes.initial_nodes import NodeShape, Topology, numbered_nodes, read_topology
from sandbox.options_cli import NumberRange
from scheduler_core.errors import ModelError, MusterError

DEFAULT_NODES = 4


# Commands whose modules are dear, or not in every package: each is imported when it is called, or listed.
_ELSEWHERE: Final = {"demo": "sandbox.demo", "replay": "sandbox.replay.cli"}


class _Commands(click.Group):
    """Commands of this module, and of other ones that the package contains."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *filter(_is_elsewhere, _ELSEWHERE)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if _is_elsewhere(cmd_name):
            found = getattr(importlib.import_module(_ELSEWHERE[cmd_name]), cmd_name)
            return found if isinstance(found, click.Command) else None
        return super().get_command(ctx, cmd_name)


def _is_elsewhere(name: str) -> bool:
    return name in _ELSEWHERE and importlib.util.find_spec(_ELSEWHERE[name]) is not None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A Kubernetes API server in one process for development and tests. It listens on loopback only."""


main.add_command(load)


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"muster-sandbox {installed_version('muster')}")


@main.command()
@click.option("--nodes", type=click.IntRange(0, 10_000), help=f"Number of nodes (default {DEFAULT_NODES}).")
@click.option(
    "--topology",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with a topology tree (YAML or JSON) or a topology ConfigMap; its leaves become the nodes.",
)
@click.option("--node-cpu", default="8", show_default=True, help="CPU of a node (cores).")
@click.option("--node-memory", default="32Gi", show_default=True, help="Memory of a node.")
@click.option("--node-gpus", default="0", show_default=True, help="GPUs (nvidia.com/gpu) of a node.")
@click.option("--node-pods", default="110", show_default=True, help="Maximum number of pods on a node.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1 (default: a free one)."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Where to write the kubeconfig (default: a temporary file).",
)
@click.option(
    "--all", "everything", is_flag=True, help="Also install Muster's CRDs and run scheduler and webhook."
)
@click.option(
    "--rbac",
    is_flag=True,
    help="Roles and bindings limit what users may do; kubectl --as USER is such a user.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the cluster in DIR: the next start with it goes on with its objects, port and kubeconfig.",
)
@click.option(
    "--seed-cluster",
    "seed_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Start with the objects of a scenario, or of a file from `kubectl get -o yaml`.",
)
@click.option(
    "--speed",
    type=NumberRange(0, 10_000, min_open=True),
    default=1.0,
    show_default=True,
    help="Pods and Jobs run so many times faster.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="KubeSchedulerConfiguration of the scheduler that --all starts.",
)
@click.option(
    "--kube-apiserver",
    "binaries",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Use the kube-apiserver and etcd programs in DIR instead of the sandbox's own API server.",
)
def up(
    nodes: int | None,
    topology: Path | None,
    node_cpu: str,
    node_memory: str,
    node_gpus: str,
    node_pods: str,
    port: int,
    kubeconfig: Path | None,
    everything: bool,
    rbac: bool,
    config: Path | None,
    binaries: Path | None,
    keep: Path | None,
    seed_file: Path | None,
    speed: float,
) -> None:
    """Serve a cluster until Ctrl-C."""
    if binaries is not None:
        _check_with_real_server(keep=keep is not None, seed=seed_file is not None, rbac=rbac)
    if config is not None and not everything:
        raise click.UsageError("--config needs --all: it configures the scheduler that --all starts")
    if nodes is not None and topology is not None:
        raise click.UsageError("--nodes and --topology cannot be used together")
    shape = NodeShape(node_cpu, node_memory, node_gpus, node_pods)
    try:
        shape.capacity()
    except ModelError as error:
        raise click.UsageError(f"--node-...: {error}") from None
    try:
        # Imported here because `--help`, `version` and usage errors need no server.
        from sandbox import scheduler_config
        from sandbox.objects import now
        from sandbox.real.control_plane import binaries_in
        from sandbox.serve import ServeOptions, serve

        given = _nodes_given()
        seed = None
        if seed_file:
            # It needs the simulation, whose import takes as long as that of the server.
            from sandbox.seeds.seed_file import read_seed

            seed = read_seed(seed_file, now().timestamp())
        if seed and seed.nodes and given:
            raise click.UsageError(f"{seed_file} has nodes: leave out --nodes, --topology and --node-...")
        if topology:
            layout = read_topology(topology, shape)
        else:
            count = 0 if seed and seed.nodes else DEFAULT_NODES
            layout = Topology(numbered_nodes(count if nodes is None else nodes, shape))
        if config:
            scheduler_config.check(config)
        found = binaries_in(binaries) if binaries else None
        options = ServeOptions(
            layout, port, kubeconfig, everything, config, found, keep, given, seed, speed, rbac
        )
        asyncio.run(serve(options, click.echo))
    except MusterError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        place = error.filename
        if not place and error.errno in (errno.ENOSPC, errno.EDQUOT):
            # Python names no file where the disk is full.
            place = keep or tempfile.gettempdir()
        where = f"{place}: " if place else ""
        raise click.ClickException(f"{where}{error.strerror or error}") from None


def _check_with_real_server(*, keep: bool, seed: bool, rbac: bool) -> None:
    """Raises UsageError for an option that only the sandbox's own server has."""
    reasons = {
        "--keep": (keep, "etcd keeps nothing"),
        "--seed-cluster": (seed, "a real API server gives every object a new uid and time"),
        "--rbac": (rbac, "a real API server has RBAC"),
    }
    for option, (given, why) in reasons.items():
        if given:
            raise click.UsageError(f"{option} and --kube-apiserver cannot be used together: {why}")


def _nodes_given() -> bool:
    """Whether an option of the command line asks for certain nodes."""
    context = click.get_current_context()
    names = ("nodes", "topology", "node_cpu", "node_memory", "node_gpus", "node_pods")
    return any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in names)
