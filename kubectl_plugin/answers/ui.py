"""`kubectl elasticquota ui`: flags, help, and the web view on the user's own machine."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import click

from kubectl_plugin.cli.global_flags import global_flags


@click.command(name="ui")
@click.option(
    "--port", default=0, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; default: a free one."
)
@click.option("--open/--no-open", "opens", default=True, help="Whether to open the browser.")
@click.option("--config", default="", metavar="FILE", help="The scheduler's configuration.")
@click.option("--prices", default="", metavar="FILE", help="Prices per resource and hour, YAML.")
@global_flags
@click.pass_context
def ui(ctx: click.Context, /, port: int, opens: bool, config: str, prices: str) -> None:
    """Show quotas, loans, the queue, gangs and the topology in a browser, with your own rights.

    It serves on 127.0.0.1 until Ctrl-C, writes nothing to the cluster, and shows what your kubeconfig lets
    you list. The link that it prints can be used once.

    \b
    Examples:
      kubectl elasticquota ui
      kubectl elasticquota ui --no-open --port 8080
      kubectl elasticquota ui --context staging -n team-a
      kubectl elasticquota ui --prices prices.yaml
    """
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.console.web.local_console import LocalConsole

    session = CommandSession.of(ctx)
    console = LocalConsole(session.client, session.namespace, port, config=config, prices=prices)
    link = console.start()
    _on_signals(_end)
    try:
        print("Muster's view of the cluster, with your rights, until Ctrl-C:", flush=True)
        print(f"  {link}", flush=True)
        print("The link can be used once, within ten minutes.", flush=True)
        if opens:
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
        console.wait(lambda line: print(line, file=sys.stderr, flush=True))
    finally:
        console.stop()
        # The interpreter takes a moment to end, without handlers of ours.
        _on_signals(signal.SIG_IGN)


def _on_signals(action: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Set what the signals do that end the console; not every system has all."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), action)


def _end(number: int, frame: FrameType | None) -> None:
    """Nothing that the console started may outlive it. The exit code is a shell's for a signal."""
    _on_signals(_ends_already)
    sys.exit(128 + number)


def _ends_already(number: int, frame: FrameType | None) -> None:
    """A second signal must not cut the end short, with a traceback."""
