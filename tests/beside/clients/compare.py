"""Asks a server with each kubeconfig, once with kubectl and once with the plugins' client."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from scheduler_core.errors import MusterError
from scheduler_core.kube.connect import Overrides, connect
from tests.beside.clients.kubeconfigs import KUBECONFIGS, plain
from tests.beside.clients.listener import Listener
from tests.beside.packages.difference import Difference
from tests.tools.build import pinned

# One that is never needed: who cannot reach the server is told at once.
SECONDS: Final = 20.0
REFUSED: Final = "refused"


def compare(listener: Listener) -> Iterator[Difference]:
    """What differs, for each kubeconfig of the table."""
    (listener.folder / "token").write_text("filed\n")
    for number, (sentence, change) in enumerate(KUBECONFIGS.items()):
        document = plain(listener)
        change(document, listener)
        path = listener.folder / f"kubeconfig-{number}"
        path.write_text(yaml.safe_dump(document))
        theirs, ours = by_kubectl(listener, path), by_muster(listener, path)
        if _reached(theirs) != _reached(ours):
            yield Difference("a kubeconfig", sentence, theirs, ours)


def _reached(said: str) -> str:
    """Refusals are alike whatever their words."""
    return REFUSED if said.startswith(REFUSED) else said


def by_kubectl(listener: Listener, path: Path) -> str:
    """What arrived from kubectl, or `refused` and its words."""
    listener.heard.clear()
    environ = {"PATH": os.environ["PATH"], "HOME": str(listener.folder), "KUBECONFIG": str(path)}
    done = subprocess.run(
        [str(pinned("kubectl").path), "version", f"--request-timeout={SECONDS:g}s"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environ,
        cwd=listener.folder,
        timeout=2 * SECONDS,
        check=False,
    )
    return _heard(listener, done.stderr.decode(errors="replace") if done.returncode else "")


def by_muster(listener: Listener, path: Path) -> str:
    """What arrived from the plugins' client, or `refused` and its words."""
    listener.heard.clear()
    try:
        client, _ = connect(Overrides(kubeconfig=str(path), request_timeout=SECONDS))
        client.call("GET", "/version")
    except MusterError as error:
        return _heard(listener, str(error))
    return _heard(listener, "")


def _heard(listener: Listener, error: str) -> str:
    if error:
        return f"{REFUSED}: {' '.join(error.split())}"
    return " | ".join("; ".join(one) for one in listener.heard)
