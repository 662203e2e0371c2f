"""Entry point of `muster-console`, the console in the cluster."""

from __future__ import annotations

import queue
import signal
import sys
from typing import Any

import click

from kubectl_plugin.cli.errors import describe
from scheduler_core.errors import MusterError


@click.command(name="muster-console")
@click.option(
    "--bind-address", default="127.0.0.1", help="Address to serve on; others than loopback need TLS."
)
@click.option("--secure-port", default=8443, type=click.IntRange(0, 65535), help="Port to serve on.")
@click.option("--health-bind-address", default="127.0.0.1", help="Address of health checks.")
@click.option(
    "--health-port", default=0, type=click.IntRange(0, 65535), help="Port of health checks; 0: none."
)
@click.option("--tls-cert-file", default="", metavar="FILE", help="Serving certificate, PEM.")
@click.option("--tls-private-key-file", default="", metavar="FILE", help="Its key, PEM.")
@click.option(
    "--proxy-client-ca-file",
    default="",
    metavar="FILE",
    help="CA of the certificates of authenticating proxies.",
)
@click.option(
    "--proxy-allowed-names",
    default="",
    metavar="NAME,...",
    help="Common names of these certificates; none: no proxy.",
)
@click.option(
    "--allowed-hosts", default="", metavar="NAME,...", help="Values of Host that are served; empty: any."
)
@click.option("--config", default="", metavar="FILE", help="The scheduler's configuration.")
@click.option("--prices", default="", metavar="FILE", help="Prices per resource and hour, YAML.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Empty: the account of the pod.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of the release.")
def command(kubeconfig: str, namespace: str, **flags: Any) -> None:
    """Serve Muster's view of the cluster to its users: each sees what the API server lets them list.

    Users log in with a bearer token, or come through an authenticating proxy. Nothing is written.
    """
    from kubectl_plugin.console.web.cluster_console import ClusterConsole, ConsoleOptions
    from scheduler_core.kube.connect import Overrides, connect

    options = ConsoleOptions(
        host=flags["bind_address"],
        port=flags["secure_port"],
        health_host=flags["health_bind_address"],
        health_port=flags["health_port"],
        certificate=flags["tls_cert_file"],
        key=flags["tls_private_key_file"],
        client_ca=flags["proxy_client_ca_file"],
        proxies=_names(flags["proxy_allowed_names"]),
        hosts=_names(flags["allowed_hosts"]),
        config=flags["config"],
        prices=flags["prices"],
    )
    client, target = connect(Overrides(kubeconfig=kubeconfig, namespace=namespace))
    console = ClusterConsole(client, namespace or target.namespace, options)
    # A handler may come while a lock is held, and this queue has none that it could wait for.
    asked: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.put(number))
    port = console.start()
    print(f"muster-console serves on {options.host}:{port}", flush=True)
    while not _asked_to_end(asked):
        if console.failed:
            raise click.ClickException(console.failed)
        console.renew()
    console.stop()


def _asked_to_end(asked: queue.SimpleQueue[int]) -> bool:
    """Whether a signal has come; waits a second for it."""
    try:
        asked.get(timeout=1.0)
    except queue.Empty:
        return False
    return True


def _names(text: str) -> frozenset[str]:
    return frozenset(name for item in text.split(",") if (name := item.strip()))


def main() -> None:
    """Console script `muster-console`."""
    try:
        command(prog_name="muster-console")
    except MusterError as error:
        sys.exit(describe(error))


if __name__ == "__main__":
    main()
