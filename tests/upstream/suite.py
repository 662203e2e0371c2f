"""Kubernetes' end-to-end suite as a program, and what it says of each spec."""

from __future__ import annotations

import enum
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools.build import have

# The suite ends itself after the first; where even that hangs, it is killed.
SUITE_SECONDS, KILL_SECONDS = 2 * 3600, 2 * 3600 + 600


class Outcome(enum.Enum):
    """What became of a spec.

    SKIPPED by itself, as it found what it needs to be missing; NOT_APPLICABLE where we know it to be missing.
    """

    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "skipped"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec: its name without the group's prefix, and the first line of why it did not pass or run."""

    name: str
    outcome: Outcome
    why: str = ""


class SuiteFailed(Exception):
    """The suite ended before its first spec; the message ends with the last lines that it wrote."""


def run(
    kubeconfig: Path, labels: str, nodes: int, folder: Path, reasons: Mapping[str, str] | None = None
) -> dict[str, Spec]:
    """Run the specs that a label filter (`a && !b`) selects, in order; by name.

    Raises SuiteFailed, ToolMissing. `reasons` says by regular expressions of names which of them cannot run,
    and why; these are told, too. The log is kept in `folder`.
    """
    reasons = reasons or {}
    report, log = folder / "report.json", folder / "e2e.log"
    command = [
        str(have("e2e.test").path),
        f"--kubeconfig={kubeconfig}",
        f"--num-nodes={nodes}",
        f"--kubectl-path={have('kubectl').path}",
        f"--ginkgo.label-filter={labels}",
        *([f"--ginkgo.skip={'|'.join(reasons)}"] if reasons else []),
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
    found = json.loads(report.read_text()) if report.exists() else []
    specs = specs_of(found)
    if not specs:
        raise SuiteFailed("\n".join(log.read_text(errors="replace").splitlines()[-25:]))
    return specs | left_out_of(found, labels, reasons)


def specs_of(report: list[dict[str, Any]]) -> dict[str, Spec]:
    """The specs of a report that were tried; those that the filter left out are in it, too."""
    found = {}
    for suite in report:
        for item in suite.get("SpecReports") or ():
            if item.get("LeafNodeType") == "It" and item.get("NumAttempts"):
                spec = _spec(item)
                found[spec.name] = spec
    return found


def left_out_of(report: list[dict[str, Any]], labels: str, reasons: Mapping[str, str]) -> dict[str, Spec]:
    """The specs of a report that the labels select and that did not run for one of the reasons."""
    found = {}
    for suite in report:
        for item in suite.get("SpecReports") or ():
            if item.get("LeafNodeType") != "It" or item.get("NumAttempts") or not _has(item, labels):
                continue
            text = _text(item)
            why = next((why for pattern, why in reasons.items() if re.search(pattern, text)), None)
            if why is not None:
                name = text.partition("] ")[2]
                found[name] = Spec(name, Outcome.NOT_APPLICABLE, why)
    return found


def _has(item: dict[str, Any], labels: str) -> bool:
    own = {label for part in item.get("ContainerHierarchyLabels") or () for label in part or ()}
    own |= set(item.get("LeafNodeLabels") or ())
    return all(
        (label.removeprefix("!") in own) is not label.startswith("!") for label in labels.split(" && ")
    )


def _text(item: dict[str, Any]) -> str:
    containers = [text for text in item.get("ContainerHierarchyTexts") or () if text]
    return " ".join([*containers, item["LeafNodeText"]])


def _spec(item: dict[str, Any]) -> Spec:
    name = _text(item).partition("] ")[2]
    outcome = {"passed": Outcome.PASSED, "skipped": Outcome.SKIPPED}.get(item["State"], Outcome.FAILED)
    message = (item.get("Failure") or {}).get("Message", "").strip()
    return Spec(name, outcome, message.partition("\n")[0])
