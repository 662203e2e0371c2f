"""The command line of `muster-webhook`: options, `serve` and `unregister`."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar
from urllib.parse import urlsplit

import click

from scheduler_core.errors import MusterError
from scheduler_core.model.names import EXEMPT_NAMESPACES, MUSTER_SCHEDULER, TOPOLOGY_NAMESPACE

ALL_ADDRESSES: Final = ("0.0.0.0", "::")


def to_address(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, int]:
    """Parse HOST:PORT. Raises BadParameter."""
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def to_slashed(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, str]:
    """Parse NAMESPACE/NAME, or two empty strings. Raises BadParameter."""
    namespace, slash, name = value.partition("/")
    if value and not (namespace and slash and name):
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME")
    return namespace, name


def to_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """An https URL, or the empty string. Raises BadParameter."""
    parts = urlsplit(value)
    if value and (parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment):
        raise click.BadParameter(f"{value!r} is not an https URL")
    return value


def state_directory() -> Path:
    """The default directory for certificates, for a process outside a cluster."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "muster" / "webhook"


def serving_hosts(listen: str, url: str, service: tuple[str, str]) -> tuple[str, ...]:
    """The names in the serving certificate: of the listening address, of the URL and of the Service."""
    hosts = ["localhost", "127.0.0.1", "::1"]
    if listen and listen not in ALL_ADDRESSES:
        hosts.append(listen)
    hosts.append(urlsplit(url).hostname or "")
    namespace, name = service
    if name:
        hosts += [f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"]
    return tuple(dict.fromkeys(host for host in hosts if host))


if TYPE_CHECKING:
    from webhook.process import RunningWebhook

SUM_MODES = ("deny", "warn", "off")
ADOPTIONS = ("Report", "Recreate")
FOREIGN_PODS = ("Enforce", "Warn", "Allow")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _ServeByDefault(click.Group):
    """Runs `serve` where no command is named: where the first argument is an option, or missing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help", "--version")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


_kubeconfig = click.option("--kubeconfig", default="", metavar="FILE", help="Kubeconfig file.")
_context = click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig.")
_address = partial(click.option, show_default=True, callback=to_address, metavar="HOST:PORT")
_slashed = partial(click.option, default="", callback=to_slashed, metavar="NAMESPACE/NAME")
_directory = partial(click.option, type=click.Path(file_okay=False, path_type=Path), metavar="DIR")


def _names(flag: str, parameter: str, help_text: str) -> Callable[[_Function], _Function]:
    return click.option(flag, parameter, multiple=True, metavar="NAME", help=help_text)


@click.group(cls=_ServeByDefault, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="muster", prog_name="muster-webhook", message="%(prog)s %(version)s")
def cli() -> None:
    """Muster's admission webhook. Without a command it serves."""


@cli.command()
@_kubeconfig
@_context
@_address(
    "--listen", "address", default="127.0.0.1:9443", help="Where to listen; port 0 lets the system choose."
)
@_address(
    "--metrics-listen",
    default="127.0.0.1:10260",
    help="Where /metrics, /livez and /readyz are, over plain HTTP; port 0 lets the system choose.",
)
@click.option(
    "--scheduler-name",
    default=MUSTER_SCHEDULER,
    show_default=True,
    metavar="NAME",
    help="The schedulerName that pods of managed namespaces get.",
)
@_names(
    "--other-scheduler",
    "others",
    "A further schedulerName of Muster's own, that of another profile; may be repeated.",
)
@_names(
    "--topology-namespace",
    "topologies",
    f"A namespace whose topologies a profile reads, in addition to {TOPOLOGY_NAMESPACE}; may be repeated.",
)
@click.option(
    "--foreign-pods",
    type=click.Choice(FOREIGN_PODS),
    default="Enforce",
    show_default=True,
    help="What to do with pods of other schedulers, and with resizes, that exceed their quota.",
)
@_names(
    "--exempt-user",
    "users",
    "A user whose pods of other schedulers are not judged, in addition to nodes; may be repeated.",
)
@click.option(
    "--sum-of-min",
    type=click.Choice(SUM_MODES),
    default="deny",
    show_default=True,
    help="What to do when the sum of all min exceeds the allocatable of the nodes.",
)
@click.option(
    "--adoption",
    type=click.Choice(ADOPTIONS),
    default="Report",
    show_default=True,
    help="What to do with pods that went to another scheduler while the webhook was unavailable.",
)
@_names(
    "--exempt-namespace",
    "exempt",
    f"A namespace to ignore, in addition to {', '.join(EXEMPT_NAMESPACES)}; may be repeated.",
)
@click.option(
    "--gang-owners",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Kinds of owners that say how many of their pods start together, besides the built-in ones (YAML).",
)
@click.option("--register", is_flag=True, help="Write the webhook configurations when ready.")
@click.option(
    "--url",
    default="",
    callback=to_url,
    metavar="URL",
    help="URL at which the API server reaches the webhook.  [default: the listening address]",
)
@_slashed("--service", help="Service through which the API server reaches the webhook; replaces --url.")
@click.option("--service-port", type=click.IntRange(1, 65535), default=443, show_default=True)
@_directory(
    "--cert-dir",
    help="Directory for the certificates of a single process.  [default: ~/.local/state/muster/webhook]",
)
@_slashed(
    "--certificate-secret",
    help="Secret for the certificates that replicas share; replaces --cert-dir.",
)
@_directory(
    "--certificate-dir",
    help="Directory of tls.crt and tls.key that cert-manager, for example, renews; replaces --cert-dir.",
)
@click.option(
    "--client-ca",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="CAs (PEM); only clients with a certificate of theirs get reviews.  [default: all clients]",
)
@_names(
    "--client-name", "client_names", "With --client-ca: only clients with this common name; may be repeated."
)
@click.option(
    "--hold-timeout",
    type=click.FloatRange(1, 3600),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time after which a reservation is released if its object never appeared.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0, 300),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between a failing /readyz and the end, after SIGTERM.",
)
@click.option(
    "-v", "--v", "verbosity", type=click.IntRange(0), default=1, show_default=True, help="Log verbosity."
)
@click.option("--logging-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def serve(
    kubeconfig: str,
    context: str,
    address: tuple[str, int],
    metrics_listen: tuple[str, int],
    scheduler_name: str,
    others: tuple[str, ...],
    topologies: tuple[str, ...],
    foreign_pods: str,
    users: tuple[str, ...],
    sum_of_min: str,
    adoption: str,
    exempt: tuple[str, ...],
    gang_owners: Path | None,
    register: bool,
    url: str,
    service: tuple[str, str],
    service_port: int,
    cert_dir: Path | None,
    certificate_secret: tuple[str, str],
    certificate_dir: Path | None,
    client_ca: Path | None,
    client_names: tuple[str, ...],
    hold_timeout: float,
    drain: float,
    verbosity: int,
    logging_format: str,
) -> None:
    """Answer admission reviews over TLS, from caches of the cluster."""
    _check_usage(register, url or service[1] or address[0], certificate_dir, client_names, client_ca)
    _one_of(cert_dir, certificate_secret[1], certificate_dir)
    # Imported here: help and usage errors need none of it, and it takes 0.3 s.
    from scheduler_core.kube.connect import Overrides
    from scheduler_core.logs import set_up
    from webhook.certs.source import Source
    from webhook.http.client_certificates import ClientCertificates
    from webhook.owner_gangs.table import with_file
    from webhook.policy.review_dispatcher import Settings
    from webhook.process import RunningWebhook, WebhookOptions
    from webhook.reservations.ledger_writer import Times

    set_up(verbosity, logging_format)
    options = WebhookOptions(
        *address,
        metrics_listen,
        certificates=Source(
            cert_dir or state_directory(), certificate_secret, certificate_dir, patch=register
        ),
        settings=Settings(
            scheduler_name,
            sum_of_min,  # type: ignore[arg-type]
            frozenset({*EXEMPT_NAMESPACES, *exempt}),
            frozenset(others),
            foreign_pods,  # type: ignore[arg-type]
            frozenset(users),
            topology_namespaces=frozenset({TOPOLOGY_NAMESPACE, *topologies}),
        ),
        overrides=Overrides(kubeconfig=kubeconfig, context=context),
        register=register,
        url=url,
        service=service,
        service_port=service_port,
        hosts=serving_hosts(address[0], url, service),
        drain=drain,
        adoption=adoption,  # type: ignore[arg-type]
        clients=ClientCertificates(client_ca, frozenset(client_names)),
        times=Times(timeout=hold_timeout),
        gang_owners=with_file(gang_owners),
    )
    _run(RunningWebhook(options))


def _run(process: RunningWebhook) -> None:
    """Run until SIGTERM or SIGINT."""
    from scheduler_core.logs.lines import LineWriter

    asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def stop_when_asked() -> None:
        asked.get()
        process.stop()

    # A handler interrupts the main thread, which may hold the lock of the Event that `stop` sets: the handler
    # would wait for that lock for ever.
    threading.Thread(target=stop_when_asked, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.put(number))
    said = LineWriter(sys.stdout)
    process.run(lambda line: said.write(f"muster-webhook: {line}"))


def _check_usage(
    register: bool,
    reached: str,
    certificate_dir: Path | None,
    client_names: tuple[str, ...],
    client_ca: Path | None,
) -> None:
    """Raises UsageError for options that do not go together.

    `reached` is the address at which API servers call the webhook.
    """
    if register and reached in ALL_ADDRESSES:
        raise click.UsageError(f"--register with --listen {reached} needs --url or --service")
    if register and certificate_dir:
        raise click.UsageError("--register writes the webhook's own CA; with --certificate-dir there is none")
    if client_names and not client_ca:
        raise click.UsageError("--client-name needs --client-ca")


def _one_of(*sources: object) -> None:
    """Raises UsageError where more than one source of certificates is given."""
    if sum(map(bool, sources)) > 1:
        raise click.UsageError("--cert-dir, --certificate-secret and --certificate-dir exclude each other")


@cli.command()
@_kubeconfig
@_context
def unregister(kubeconfig: str, context: str) -> None:
    """Delete the webhook configurations: the API server stops sending reviews at once."""
    from scheduler_core.kube.connect import Overrides, connect
    from webhook.certs.registration import unregister as remove

    client, _ = connect(Overrides(kubeconfig=kubeconfig, context=context))
    remove(client)


def main() -> NoReturn:
    """Entry point: expected failures are one line and exit code 1."""
    try:
        cli.main(prog_name="muster-webhook", standalone_mode=True)
    except MusterError as error:
        click.echo(f"muster-webhook: {' '.join(str(error).split())}", err=True)
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main()
