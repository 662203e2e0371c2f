"""Find the Kubernetes programs that tests and demo need, or build them from their pinned Go modules.

A tool is taken from `KUBEBUILDER_ASSETS`, then from PATH, then from a cache outside the repository that is
filled by `go build` in this folder's module of the tool's name. The cache is keyed by the module's files and
the Go version, so a changed pin builds anew; several processes may ask at once.

    python tests/tools/build.py [--link DIR] [--link-all] TOOL...

prints one line per tool; `--link` puts links to those that are not on PATH into DIR, `--link-all` also links
to the others. The exit code is 1 if one could not be had.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

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
    "kubemark",
    "e2e.test",
    "jobset",
)
BUILD_SECONDS = 3600


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
    return Tool(name, Path(found), "PATH") if found else None


def have(name: str) -> Tool:
    """The tool, built if need be. Raises ToolMissing."""
    return installed(name) or _cached(name, _go(name))


def possible(name: str) -> bool:
    """Whether `have` has a chance: the tool is installed, or Go is."""
    return installed(name) is not None or shutil.which("go") is not None


def _go(name: str) -> str:
    go = shutil.which("go")
    if go is None:
        raise ToolMissing(name, "it is not on PATH, and Go, which would build it, is not installed")
    return go


def _cached(name: str, go: str) -> Tool:
    module = TOOLS / name
    home = _cache_home() / _key(module, go)
    binary = home / name
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if binary.exists():
            return Tool(name, binary, "cache")
        seconds = _build(name, module, go, binary)
    return Tool(name, binary, f"built in {seconds:.0f} s")


def _cache_home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "muster" / "tools"


def _key(module: Path, go: str) -> str:
    version = subprocess.run([go, "version"], cwd=module, capture_output=True, check=True).stdout
    digest = hashlib.sha256(version)
    for path in (module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(name: str, module: Path, go: str, binary: Path) -> float:
    pins = (module / "go.mod").read_text()
    how, package = _what(name, module, pins)
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    command = ["nice", "-n", "10", go, *how, "-trimpath", "-ldflags", _link_flags(pins)]
    started = time.monotonic()
    print(f"{name}: building {package} (minutes, once)", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            [*command, "-o", str(unfinished), package],
            cwd=module,
            text=True,
            capture_output=True,
            timeout=BUILD_SECONDS,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise ToolMissing(name, f"go build failed: {lines[-1] if lines else 'no message'}")
        unfinished.replace(binary)
    except subprocess.TimeoutExpired:
        raise ToolMissing(name, f"go build took more than {BUILD_SECONDS} s") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return time.monotonic() - started


def _what(name: str, module: Path, pins: str) -> tuple[list[str], str]:
    """How to build it, and which package: that of the tool line, or the module's own tests as a program."""
    if package := re.search(r"^tool (\S+)$", pins, re.M):
        return ["build"], package[1]
    if any(module.glob("*_test.go")):
        return ["test", "-c"], "."
    raise ToolMissing(name, f"{module / 'go.mod'} has no tool line")


def _link_flags(pins: str) -> str:
    """Strip symbols, and let the programs say which version they are and which Kubernetes they are for."""
    if helm := re.search(r"helm\.sh/helm/v3 (v\S+)", pins):
        return "-s -w " + _variables("helm.sh/helm/v3", _helm_variables(helm[1], pins))
    version = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", pins)
    if version is None:
        return "-s -w"
    values = {
        "gitVersion": version[1],
        "gitMajor": version[2],
        "gitMinor": version[3],
        "gitTreeState": "clean",
    }
    return "-s -w " + _variables("k8s.io/component-base/version", values, joint=".")


def _helm_variables(version: str, pins: str) -> dict[str, str]:
    minor = re.search(r"k8s\.io/client-go v0\.(\d+)\.", pins)
    kubernetes = {"k8sVersionMajor": "1", "k8sVersionMinor": minor[1] if minor else ""}
    packages = ("pkg/chartutil", "pkg/lint/rules")
    target = {f"{package}.{name}": value for package in packages for name, value in kubernetes.items()}
    return {"internal/version.version": version, **target}


def _variables(root: str, values: dict[str, str], joint: str = "/") -> str:
    return " ".join(f"-X {root}{joint}{name}={value}" for name, value in values.items())


def main(argv: list[str] | None = None) -> int:
    """Have every tool named; print one line each; 1 if one is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--link", type=Path, metavar="DIR", help="link what is not on PATH into DIR")
    parser.add_argument("--link-all", action="store_true", help="link what is on PATH, too")
    parser.add_argument("tools", nargs="+", choices=NAMES, metavar="TOOL", help=", ".join(NAMES))
    args = parser.parse_args(argv)
    missing = False
    for name in args.tools:
        try:
            tool = have(name)
        except ToolMissing as error:
            print(error, file=sys.stderr)
            missing = True
            continue
        if args.link and (args.link_all or tool.origin != "PATH"):
            args.link.mkdir(parents=True, exist_ok=True)
            link = args.link / name
            link.unlink(missing_ok=True)
            link.symlink_to(tool.path)
        print(f"{name}: {tool.path} ({tool.origin})")
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())
