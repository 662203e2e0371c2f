"""The demo's cluster in a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from sandbox.demo.commands import command_environment
from sandbox.processes import with_parent

_PROGRAM: Final = "muster-sandbox"


class ShownCluster(Protocol):
    """What the view needs of the demo's cluster."""

    kubeconfig: Path
    directory: Path


@dataclass(frozen=True)
class View:
    """How the cluster is shown. `quiet`: what fills it is not."""

    opens: bool = True
    quiet: bool = True

    def show(self, root: Path, cluster: ShownCluster) -> None:
        """Run `kubectl elasticquota ui` until Ctrl-C."""
        environment = command_environment(root, cluster.kubeconfig, cluster.directory / "kubectl-cache")
        program = Path(sys.executable).with_name("kubectl-elasticquota")
        command = [str(program), "ui", *([] if self.opens else ["--no-open"])]
        running = subprocess.Popen(with_parent(command), env=environment.variables, cwd=root)
        try:
            running.wait()
        except KeyboardInterrupt:
            running.wait()
        finally:
            running.terminate()


def command_to_view() -> str:
    """The command that fills a cluster and shows it, as the user can type it here."""
    given = Path(sys.argv[0])
    if given.name == "__main__.py":
        return f"{sys.orig_argv[0]} -m {given.parent.name} demo --ui"
    # A shell that finds a program on PATH passes its absolute name. `make` names it by the folder, which is
    # on its own PATH, not on the user's.
    found = shutil.which(_PROGRAM) if given.is_absolute() else None
    name = _PROGRAM if found and Path(found).resolve() == given.resolve() else str(given)
    return f"{name} demo --ui"
