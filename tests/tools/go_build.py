"""Build one tool from its pinned Go module, and show how many of its packages are compiled."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.tools.failures import explain
from tests.tools.progress import Ended, Line, TookTooLong, watch
from tests.tools.toolchain import Go

BUILD_SECONDS = 3600
# Without symbols and debugging information: half the size, and less to compile.
FLAGS = ("-trimpath",)
# Seconds of one processor for an average package, for the expected time; measured with kubectl and Helm.
SECONDS_PER_PACKAGE = 0.27
# What a build takes on the disk: with all modules and compiled packages, or with a filled cache beside it.
PRIVATE_MEGABYTES = 2500
SHARED_MEGABYTES = 500


class BuildFailed(Exception):
    """A tool that could not be built; `reason` is one line."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def key(module: Path) -> str:
    """What a built tool depends on: its module's files, how it is built, and the kind of machine."""
    digest = hashlib.sha256(repr((FLAGS, platform.system(), platform.machine())).encode())
    for path in (module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build(name: str, module: Path, go: Go, binary: Path, line: Line) -> float:
    """Build the tool into `binary`; the seconds that it took. Raises BuildFailed."""
    _check_space(binary.parent, PRIVATE_MEGABYTES if go.work else SHARED_MEGABYTES)
    pins = (module / "go.mod").read_text()
    how, package = _what(module, pins)
    tests = ["-test"] if how[0] == "test" else []
    packages = Packages()
    listed = _run(["list", "-deps", *tests, package], packages, name, module, go, line)
    packages.total = packages.seen
    packages.seen = 0
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    command = [*how, "-v", *FLAGS, "-ldflags", _link_flags(pins), "-o", str(unfinished), package]
    try:
        built = _run(command, packages, name, module, go, line)
        unfinished.replace(binary)
    finally:
        unfinished.unlink(missing_ok=True)
    return listed.seconds + built.seconds


@dataclass
class Packages:
    """Counts the modules that Go downloads, then the packages that it lists or compiles, a line each."""

    seen: int = 0
    total: int = 0
    downloaded: int = 0

    def notice(self, line: str) -> None:
        if line.startswith("go: downloading "):
            self.downloaded += 1
        elif re.fullmatch(r"[\w./~+-]+( \[\S+\])?", line):
            self.seen += 1

    def state(self, seconds: float) -> str:
        if not self.total:
            return f"{_counted(self.downloaded, 'module')} downloaded, {seconds:.0f} s"
        if self.seen >= self.total:
            return f"linking, {seconds:.0f} s"
        return f"{self.seen} of {self.total} packages, {seconds:.0f} s ({self._expected(seconds)})"

    def _expected(self, seconds: float) -> str:
        """From the average package first, and from the speed of this machine as soon as that is known."""
        if self.seen * 10 < self.total:
            cores = os.cpu_count() or 1
            whole = self.total * SECONDS_PER_PACKAGE / cores
            return f"about {_minutes(whole)} on {_counted(cores, 'core')}, once"
        return f"about {_minutes(seconds * (self.total - self.seen) / self.seen)} more"


def _minutes(seconds: float) -> str:
    return _counted(max(1, round(seconds / 60)), "minute")


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _check_space(folder: Path, megabytes: int) -> None:
    free = shutil.disk_usage(folder).free // 10**6
    if free < megabytes:
        raise BuildFailed(f"the build needs {megabytes} MB in {folder}, and {free} MB are free")


def _run(arguments: list[str], report: Packages, name: str, module: Path, go: Go, line: Line) -> Ended:
    command = ["nice", "-n", "10", go.program, *arguments]
    try:
        done = watch(
            command,
            report,
            line,
            what=name,
            cwd=module,
            environ=go.environ,
            timeout=BUILD_SECONDS,
        )
    except TookTooLong as error:
        raise BuildFailed(f"go {arguments[0]} took more than {error.seconds:.0f} s") from None
    except OSError as error:
        raise BuildFailed(f"{error.filename or go.program} cannot be run: {error.strerror}") from None
    if done.code:
        raise BuildFailed(f"go {arguments[0]} failed: {explain(done.lines, go.environ)}")
    return done


def _what(module: Path, pins: str) -> tuple[list[str], str]:
    """How to build it, and which package: of the tool line, the module's own, or its tests as a program."""
    if package := re.search(r"^tool (\S+)$", pins, re.M):
        return ["build"], package[1]
    if any(module.glob("*_test.go")):
        return ["test", "-c"], "."
    if any(module.glob("*.go")):
        return ["build"], "."
    raise BuildFailed(f"{module / 'go.mod'} has no tool line")


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
