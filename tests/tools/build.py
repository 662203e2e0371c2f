"""Find the Kubernetes programs that tests and demo need, or build them from their pinned Go modules.

A tool is taken from `KUBEBUILDER_ASSETS`, then from PATH, then from a cache outside the repository that is
filled by Go in this folder's module of the tool's name. Where Go is not installed, it comes from the Python
registry (`toolchain.py`). The cache is keyed by the module's files, so a changed pin builds anew; several
processes may ask at once. With `MUSTER_NO_BUILD=1`, nothing is downloaded or built.

    python -m tests.tools.build [--link DIR] [--link-all] TOOL...

prints one line per tool; `--link` puts links to those that are not on PATH into DIR, `--link-all` also links
to the others. The exit code is 1 if one could not be had.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.tools import go_build, toolchain
from tests.tools.cache_folder import cache_folder
from tests.tools.locks import held
from tests.tools.progress import Line, interruptible

TOOLS = Path(__file__).resolve().parent
NAMES = (
    "kubectl",
    "etcd",
    "kube-apiserver",
    "helm",
    "kube-controller-manager",
    "kube-scheduler",
    # The newest Kubernetes beside the one that the sandbox follows: it serves the group API as beta.
    "kube-apiserver-1.37",
    "kube-controller-manager-1.37",
    "kube-scheduler-1.37",
    "scheduler-plugins",
    # Answers questions with Kubernetes' own packages (tests/beside/packages); of both releases.
    "kubernetes-packages",
    "kubernetes-packages-1.37",
    # The same of other schedulers; each pins the Kubernetes that it is made of.
    "koordinator-packages",
    "kueue-packages",
    "kubemark",
    "e2e.test",
    "jobset",
)
# What helps where a tool cannot be built; without these two, the demo and the tests go on.
HELP = {
    "kubectl": "install kubectl, or go on without it: MUSTER_NO_BUILD=1 make demo",
    "helm": "install Helm, or go on without its tests: MUSTER_NO_BUILD=1 make test",
}


class ToolMissing(Exception):
    """A tool that this machine neither has nor can build; `reason` is one line."""

    def __init__(self, tool: str, reason: str) -> None:
        self.tool = tool
        self.reason = reason
        super().__init__(f"{tool}: {reason}")


@dataclass(frozen=True, slots=True)
class Tool:
    """One program and where it came from."""

    name: str
    path: Path
    origin: str


def installed(name: str) -> Tool | None:
    """The tool from `KUBEBUILDER_ASSETS` or PATH, if it is there."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and os.access(Path(assets, name), os.X_OK):
        return Tool(name, Path(assets, name), "KUBEBUILDER_ASSETS")
    found = shutil.which(name)
    # A link to the cache stands on PATH in `.venv/bin`; whether it is still the right one, its key says.
    if found is None or cache_folder().resolve() in Path(found).resolve().parents:
        return None
    return Tool(name, Path(found), "PATH")


def built(name: str) -> Tool | None:
    """The tool from the cache, if it was built before."""
    binary = _binary(name)
    return Tool(name, binary, "cache") if binary.exists() else None


def have(name: str) -> Tool:
    """The tool, built if need be. Raises ToolMissing."""
    return installed(name) or built(name) or _build(name, Line())


def pinned(name: str) -> Tool:
    """The tool of the pinned version, built if need be, whatever PATH has. Raises ToolMissing."""
    return built(name) or _build(name, Line())


def possible(name: str) -> bool:
    """Whether `have` has a chance: the tool is there, or nothing forbids to build it."""
    return not _forbidden() or installed(name) is not None or built(name) is not None


def _forbidden() -> bool:
    return bool(os.environ.get("MUSTER_NO_BUILD"))


def _binary(name: str) -> Path:
    return cache_folder() / "tools" / go_build.key(TOOLS / name) / name


def _build(name: str, line: Line) -> Tool:
    if _forbidden():
        raise ToolMissing(name, "it is not on PATH, and MUSTER_NO_BUILD=1 forbids to build it")
    module, binary = TOOLS / name, _binary(name)
    try:
        with held(binary.with_name(f"{name}.lock"), line, f"builds {name}"):
            if binary.exists():
                return Tool(name, binary, "cache")
            go = toolchain.find(module, line)
            with toolchain.in_use(go, line):
                seconds = go_build.build(name, module, go, binary, line)
    except (toolchain.GoMissing, go_build.BuildFailed, OSError) as error:
        help_ = HELP.get(name, f"put {name} on PATH or into KUBEBUILDER_ASSETS")
        raise ToolMissing(name, f"{error}; {help_}") from None
    return Tool(name, binary, f"built in {seconds:.0f} s")


def main(argv: list[str] | None = None) -> int:
    """Have every tool named; print one line each; 1 if one is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--link", type=Path, metavar="DIR", help="link what is not on PATH into DIR")
    parser.add_argument("--link-all", action="store_true", help="link what is on PATH, too")
    parser.add_argument("tools", nargs="+", choices=NAMES, metavar="TOOL", help=", ".join(NAMES))
    args = parser.parse_args(argv)
    with interruptible():
        try:
            try:
                return _have_all(args.tools, args.link, args.link_all)
            finally:
                toolchain.clean(Line())
        except KeyboardInterrupt:
            print("interrupted; nothing unfinished is left, the next call builds it", file=sys.stderr)
            return 130


def _have_all(names: list[str], folder: Path | None, everything: bool) -> int:
    missing = False
    for name in names:
        try:
            tool = have(name)
        except ToolMissing as error:
            print(error, file=sys.stderr)
            missing = True
            continue
        if folder and (everything or tool.origin != "PATH"):
            _link(tool, folder)
        print(f"{name}: {tool.path} ({tool.origin})")
    return int(missing)


def _link(tool: Tool, folder: Path) -> None:
    """Link the tool in one step: a second process may do the same, and a demo may use the link."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".{tool.name}.{os.getpid()}"
    new.symlink_to(tool.path)
    new.replace(folder / tool.name)


if __name__ == "__main__":
    sys.exit(main())
