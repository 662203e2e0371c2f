"""`muster-scheduler`: the scheduler process and its configuration tools."""

from __future__ import annotations

import sys
from typing import Any

import click

from scheduler_core.app.config_cli import config_group, configure, refuse_unsupported, scheduler_flags
from scheduler_core.config import ConfigErrors, SchedulerConfiguration
from scheduler_core.config.flags import Flags, apply_flags
from scheduler_core.config.load import muster_config
from scheduler_core.logs import set_up


class _Level(click.ParamType):
    """A number; accepts `-v=2` as Kubernetes programs do."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).removeprefix("=")
        if not text.isdecimal() or not text.isascii():
            self.fail(f"{text!r} is not a number", param, ctx)
        return int(text)


@click.group(invoke_without_command=True)
@click.version_option(package_name="muster", prog_name="muster-scheduler", message="%(prog)s %(version)s")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="KubeSchedulerConfiguration.")
@click.option("--context", default="", help="Context of the kubeconfig to use.")
@click.option(
    "--bind-address",
    default="127.0.0.1",
    show_default=True,
    help="Address of the HTTP port. The default is reachable from the same host only.",
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=10259,
    show_default=True,
    help="HTTP port for health, metrics, configuration and debugging; 0 for none.",
)
@click.option("-v", "--v", "verbosity", type=_Level(), default=1, show_default=True, help="Log verbosity.")
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--manage-node-metrics",
    is_flag=True,
    help="Keep a NodeMetric per node and its spec, as the ConfigMap slo-controller-config says.",
)
@click.option(
    "--report-node-metrics",
    is_flag=True,
    help="Fill NodeMetrics from the metrics API, for clusters without an agent on the nodes.",
)
@scheduler_flags
@click.pass_context
def main(
    ctx: click.Context,
    config_file: str | None,
    context: str,
    bind_address: str,
    secure_port: int,
    verbosity: int,
    logging_format: str,
    manage_node_metrics: bool,
    report_node_metrics: bool,
    flags: Flags,
) -> None:
    """Schedule pods whose schedulerName is one of the profiles' names.

    Without --config the built-in profile muster-scheduler runs: default plugins, elastic quotas and gangs.
    """
    if ctx.invoked_subcommand is not None:
        return
    set_up(verbosity, logging_format)
    try:
        if config_file:
            config = _configured(config_file, flags, context)
        else:
            config = apply_flags(flags, base=muster_config())
        refuse_unsupported(config)
    except ConfigErrors as found:
        for error in found.within(config_file or "").errors:
            click.echo(f"error: {error}", err=True)
        sys.exit(1)
    from scheduler_core.app.process import SchedulerOptions, run

    options = SchedulerOptions(
        context=context,
        address=bind_address,
        port=secure_port,
        manage_node_metrics=manage_node_metrics,
        report_node_metrics=report_node_metrics,
    )
    sys.exit(run(config, options, lambda line: click.echo(line, err=True)))


def _configured(file: str, flags: Flags, context: str) -> SchedulerConfiguration:
    from scheduler_core.app.policy_config_map import config_maps_of

    return configure(file, flags, config_maps_of(context=context))


main.add_command(config_group)


if __name__ == "__main__":
    main()
