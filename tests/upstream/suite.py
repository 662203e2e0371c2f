"""Kubernetes' end-to-end suite as a program, and what it says of each spec."""

from __future__ import annotations

import enum
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.build import have

# The suite ends itself after the first; where even that hangs, it is killed.
SUITE_SECONDS, KILL_SECONDS = 2 * 3600, 2 * 3600 + 600


class Outcome(enum.Enum):
    """What became of a spec; SKIPPED by itself, as it found what it needs to be missing."""

    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec that ran: its name without the group's prefix, and the first line of why it did not pass."""

    name: str
    outcome: Outcome
    why: str = ""


class SuiteFailed(Exception):
    """The suite ended before its first spec; the message ends with the last lines that it wrote."""


def run(kubeconfig: Path, labels: str, nodes: int, folder: Path, skip: str = "") -> dict[str, Spec]:
    """Run the specs that a label filter selects, in order; by name. Raises SuiteFailed, ToolMissing.

    `skip` is a regular expression of names that are left out; the log is kept in `folder`.
    """
    report, log = folder / "report.json", folder / "e2e.log"
    command = [
        str(have("e2e.test").path),
        f"--kubeconfig={kubeconfig}",
        f"--num-nodes={nodes}",
        f"--kubectl-path={have('kubectl').path}",
        f"--ginkgo.label-filter={labels}",
        *([f"--ginkgo.skip={skip}"] if skip else []),
        f"--ginkgo.json-report={report}",
        f"--ginkgo.timeout={SUITE_SECONDS}s",
        "--ginkgo.seed=1",
        "--ginkgo.no-color",
        "--ginkgo.silence-skips",
        "--dump-logs-on-failure=false",
    ]
    with log.open("w") as output:
        subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
    specs = specs_of(json.loads(report.read_text())) if report.exists() else {}
    if not specs:
        raise SuiteFailed("\n".join(log.read_text(errors="replace").splitlines()[-25:]))
    return specs


def specs_of(report: list[dict[str, Any]]) -> dict[str, Spec]:
    """The specs of a report that were tried; those that the filter left out are in it, too."""
    found = {}
    for suite in report:
        for item in suite.get("SpecReports") or ():
            if item.get("LeafNodeType") == "It" and item.get("NumAttempts"):
                spec = _spec(item)
                found[spec.name] = spec
    return found


def _spec(item: dict[str, Any]) -> Spec:
    containers = [text for text in item.get("ContainerHierarchyTexts") or () if text]
    name = " ".join([*containers, item["LeafNodeText"]]).partition("] ")[2]
    outcome = {"passed": Outcome.PASSED, "skipped": Outcome.SKIPPED}.get(item["State"], Outcome.FAILED)
    message = (item.get("Failure") or {}).get("Message", "").strip()
    return Spec(name, outcome, message.partition("\n")[0])
