"""Command line of `muster-sandbox`."""

from __future__ import annotations

import asyncio
import errno
import importlib
import importlib.util
from importlib.metadata import version as installed_version
from pathlib import Path

import click

from sandbox.nodes.initial_nodes import NodeShape, Topology, numbered_nodes, read_topology
from scheduler_core.errors import ModelError, MusterError

DEFAULT_NODES = 4


class _Commands(click.Group):
    """Commands of this module, and `demo` if the package contains it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        demo = ["demo"] if importlib.util.find_spec("sandbox.demo") else []
        return sorted([*super().list_commands(ctx), *demo])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "demo" and importlib.util.find_spec("sandbox.demo"):
            found = importlib.import_module("sandbox.demo").demo
            return found if isinstance(found, click.Command) else None
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A Kubernetes API server in one process for development and tests. It listens on loopback only and keeps
    all objects in memory.
    """


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
    config: Path | None,
    binaries: Path | None,
) -> None:
    """Serve a cluster until Ctrl-C."""
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
        if topology:
            layout = read_topology(topology, shape)
        else:
            layout = Topology(numbered_nodes(DEFAULT_NODES if nodes is None else nodes, shape))
        # Imported here because `--help`, `version` and usage errors need no server.
        from sandbox import scheduler_config
        from sandbox.real.control_plane import binaries_in
        from sandbox.serve import ServeOptions, serve

        if config:
            scheduler_config.check(config)
        found = binaries_in(binaries) if binaries else None
        asyncio.run(serve(ServeOptions(layout, port, kubeconfig, everything, config, found), click.echo))
    except MusterError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(_os_text(error, port)) from None


def _os_text(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on 127.0.0.1 is in use; choose another, or leave --port out for a free one"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
