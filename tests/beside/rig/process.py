"""Muster's own process beside the simulation: it watches the server, and decides about the same pods."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import yaml

from sandbox.real.control_plane import end_process
from tests.beside.rig.outcome import Finding, Outcome, Undecided, counted, same_decision
from tests.beside.rig.real import Real, in_time, refusal
from tests.beside.rig.world import Raw, named

_PREEMPTING: Final = re.compile(r"preempting (\d+) pods")
NAME: Final = "muster-beside"
# How kinds of findings begin that are of the process.
PROCESS: Final = "process: "


class Process:
    """The running scheduler."""

    def __init__(self, real: Real, process: subprocess.Popen[bytes]) -> None:
        self._real = real
        self._process = process

    def decision(self, pod: Raw, before: frozenset[str]) -> Outcome:
        """What it decides about a pod that is offered to it. `before`: the pods that were ending already.

        Raises Undecided.
        """
        found = in_time(lambda: self._decided(named(pod)))
        node = found["spec"].get("nodeName", "")
        if node:
            return Outcome(node=node)
        message = refusal(found) or ""
        promised = _PREEMPTING.search(message)
        victims = self._victims(before, int(promised[1])) if promised else frozenset()
        nominated = found["status"].get("nominatedNodeName", "")
        return Outcome(nominated=nominated, reasons=counted(message), victims=victims, message=message)

    def _victims(self, before: frozenset[str], count: int) -> frozenset[str]:
        """The pods that it evicts. It says so first."""
        in_time(lambda: len(self._real.ending() - before) >= count)
        return self._real.ending() - before

    def _decided(self, key: str) -> dict[str, Any]:
        if (code := self._process.poll()) is not None:
            raise Undecided(f"muster-scheduler ended with {code}")
        found = self._real.pod(key)
        if not found["spec"].get("nodeName") and refusal(found) is None:
            raise LookupError(f"nothing is decided about {key}")
        return found


@contextmanager
def muster(real: Real) -> Iterator[Process]:
    """A new scheduler with kube-scheduler's plugins, which knows the objects that are there now."""
    folder = real.server.folder
    config = folder / "muster.yaml"
    config.write_text(yaml.safe_dump(_configuration(str(real.server.kubeconfig))))
    command = [sys.executable, "-m", "scheduler_core.app", f"--config={config}", "--secure-port=0"]
    with (folder / "muster.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield Process(real, process)
    finally:
        end_process(process)


def _configuration(kubeconfig: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 10_000, "burst": 10_000},
        "profiles": [{"schedulerName": NAME}],
    }


def offered(pod: Raw) -> Raw:
    """The pod, for this process."""
    return {**pod, "spec": {**pod["spec"], "schedulerName": NAME}}


def compared(simulated: Outcome, decided: Outcome) -> tuple[Finding, ...]:
    """What the process decides otherwise than a simulation of the same objects."""
    return tuple(
        Finding(f"{PROCESS}{found.kind}", found.theirs, found.ours)
        for found in same_decision(simulated, decided)
    )
