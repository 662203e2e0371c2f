"""`muster-scheduler`: the scheduler process and its configuration tools."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import uuid

import click

from scheduler_core.app.config_cli import config_group, configure, scheduler_flags
from scheduler_core.app.logs import set_up
from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.builtin import muster_config
from scheduler_core.config.flags import Flags, apply_flags

log = logging.getLogger(__name__)


@click.group(invoke_without_command=True)
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="KubeSchedulerConfiguration.")
@click.option("--context", default="", help="Context of the kubeconfig to use.")
@click.option("-v", "--v", "verbosity", type=int, default=1, show_default=True, help="Log verbosity.")
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@scheduler_flags
@click.pass_context
def main(
    ctx: click.Context,
    config_file: str | None,
    context: str,
    verbosity: int,
    logging_format: str,
    flags: Flags,
) -> None:
    """Schedule pods whose schedulerName is one of the profiles' names.

    Without --config the built-in profile muster-scheduler runs: default plugins, elastic quotas and gangs.
    """
    if ctx.invoked_subcommand is None:
        set_up(verbosity, logging_format)
        config = configure(config_file, flags) if config_file else apply_flags(flags, base=muster_config())
        sys.exit(run(config, flags.kubeconfig or "", context))


main.add_command(config_group)


def run(config: SchedulerConfiguration, kubeconfig: str, context: str) -> int:
    """Run until SIGTERM or SIGINT (exit code 0), or until leadership is lost (1)."""
    from scheduler_core.app.wiring import Process
    from scheduler_core.errors import MusterError
    from scheduler_core.kube.connect import Overrides, connect
    from scheduler_core.kube.lease import LeaderElection, LeaseTimes

    election = config.leader_election
    connection = config.client_connection
    identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    overrides = Overrides(kubeconfig=kubeconfig or connection.kubeconfig, context=context)
    try:
        client, _ = connect(overrides, qps=connection.qps, burst=connection.burst)
        process = Process(config, client, identity)
    except MusterError as error:
        click.echo(f"error: {error}", err=True)
        return 1
    done = threading.Event()
    lost: list[str] = []

    def on_lost(reason: str) -> None:
        lost.append(reason)
        done.set()

    lease = LeaderElection(
        client,
        election.resource_namespace,
        election.resource_name,
        identity,
        times=LeaseTimes(election.lease_duration, election.renew_deadline, election.retry_period),
        on_started=process.lead,
        on_lost=on_lost,
        on_error=lambda error: log.warning("lease: %s", error),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    process.start()
    campaign = threading.Thread(target=lease.run, name="lease", daemon=True)
    if election.leader_elect:
        campaign.start()
    else:
        process.lead()
    done.wait()
    process.stop()
    if election.leader_elect and not lost:
        lease.stop()
        campaign.join(timeout=5.0)
    if lost:
        log.error("leadership lost: %s", lost[0])
    return 1 if lost else 0


if __name__ == "__main__":
    main()
