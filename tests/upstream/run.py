"""Kubernetes' own end-to-end suite: sig-scheduling with two schedulers, sig-api-machinery on the sandbox.

    python -m tests.upstream.run [--out DIR] [--schedulers muster,kube-scheduler] [SUITE...]

`scheduling` runs on etcd, kube-apiserver, kube-controller-manager and three hollow nodes, once with Muster
and once with kube-scheduler as the default scheduler. `api-machinery` runs on the sandbox alone. Prints a
table for each; the exit code is 1 where a spec passes with kube-scheduler and not with Muster, or where
nothing could be run. Logs and reports are kept in DIR (build/upstream).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.clusters.control_plane import ControlPlaneFailed
from tests.support.clusters.full_sandbox import FullSandbox
from tests.tools.build import ToolMissing
from tests.upstream import programs, suite
from tests.upstream.comparison import Comparison

OUT = Path("build/upstream")
# What is off by default has no API to be tested.
SCHEDULING = "sig-scheduling && !Alpha"
API_MACHINERY = "sig-api-machinery && Conformance"
# What the sandbox is not there for (docs/sandbox.md). In the table these specs stand with their reason.
NOT_APPLICABLE = {
    "AdmissionWebhook|CustomResourceConversionWebhook|CustomResourceFieldSelectors": (
        "its webhook runs in a pod, and no pod of the sandbox runs containers"
    ),
    "Aggregator": "its API server runs in a pod, and no pod of the sandbox runs containers",
    "AdmissionPolicy.*should (mutate|validate|allow)": "policies are stored and decide nothing",
    "if the original version has been compacted away": "waits until etcd compacts, and there is none",
}


def scheduling(out: Path, schedulers: list[str]) -> Comparison:
    """The specs of sig-scheduling with each scheduler, on a cluster of its own."""
    found = {}
    for name in schedulers:
        folder = _fresh(out / f"scheduling-{name}")
        with programs.cluster(name) as server:
            try:
                found[name] = suite.run(server.kubeconfig, SCHEDULING, programs.NODES, folder)
            finally:
                programs.logs(server, folder)
    return Comparison("sig-scheduling", found)


def api_machinery(out: Path, _: list[str]) -> Comparison:
    """The conformance specs of sig-api-machinery on the sandbox, where Muster schedules the few pods."""
    folder = _fresh(out / "api-machinery-sandbox")
    with FullSandbox(nodes=programs.NODES) as server, programs.muster(server.kubeconfig, folder):
        specs = suite.run(server.kubeconfig, API_MACHINERY, programs.NODES, folder, NOT_APPLICABLE)
    return Comparison("sig-api-machinery", {"sandbox": specs})


SUITES: dict[str, Callable[[Path, list[str]], Comparison]] = {
    "scheduling": scheduling,
    "api-machinery": api_machinery,
}


def main(argv: list[str]) -> int:
    """Run the named suites, or both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR")
    parser.add_argument("--schedulers", default=",".join(programs.SCHEDULERS), metavar="NAME,...")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    given = parser.parse_args(argv)
    schedulers = given.schedulers.split(",")
    if unknown := (set(given.suites) - set(SUITES)) | (set(schedulers) - set(programs.SCHEDULERS)):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    code = 0
    for name in given.suites or SUITES:
        started = time.monotonic()
        try:
            compared = SUITES[name](given.out.absolute(), schedulers)
        except (suite.SuiteFailed, ToolMissing, ControlPlaneFailed) as error:
            print(f"{name} could not be run: {error}", file=sys.stderr)
            code = 1
            continue
        print(f"{compared.text()}\n", flush=True)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
        for spec in compared.regressions():
            print(f"fails with {compared.ours} alone: {spec}", file=sys.stderr)
            code = 1
    return code


def _fresh(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
