"""Scheduler processes of the comparison: Muster, and kube-scheduler with plugins for quotas and gangs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from sandbox.ports import free_port
from sandbox.real.control_plane import end_process
from scheduler_core.model.names import MUSTER_SCHEDULER
from tests.tools.build import have

MUSTER, PEER = "Muster", "kube-scheduler"
# schedulerName of the pods that each of them takes.
NAMES: Mapping[str, str] = {MUSTER: MUSTER_SCHEDULER, PEER: "peer"}
RATE = 100_000
# The peer of works with native groups: kube-scheduler alone, whose own cycle places a group.
NATIVE_GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"


def peer_configuration(kubeconfig: Path, native: bool = False) -> dict[str, Any]:
    """Configuration of kube-scheduler without client rate limit.

    It has CapacityScheduling and Coscheduling, or no plugin of others where it places `native` groups.
    """
    both = [{"name": "CapacityScheduling"}, {"name": "Coscheduling"}]
    others = [{"name": "*"}]
    plugins = {
        "multiPoint": {"enabled": both},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": others},
        "postFilter": {"enabled": both, "disabled": others},
    }
    profile = {"schedulerName": NAMES[PEER], **({} if native else {"plugins": plugins})}
    return _configuration(kubeconfig, profile)


def _configuration(kubeconfig: Path, profile: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": RATE, "burst": RATE},
        "profiles": [profile],
    }


def _muster_command(kubeconfig: Path) -> list[str]:
    flags = ["--leader-elect=false", f"--kube-api-qps={RATE}", f"--kube-api-burst={RATE}", "--secure-port=0"]
    return [sys.executable, "-m", "scheduler_core.app", f"--kubeconfig={kubeconfig}", *flags]


def _peer_command(kubeconfig: Path, folder: Path, native: bool) -> list[str]:
    config = folder / "peer.yaml"
    config.write_text(yaml.safe_dump(peer_configuration(kubeconfig, native)))
    flags = [f"--config={config}", f"--secure-port={free_port()}", f"--cert-dir={folder / 'peer'}"]
    if native:
        flags.append(f"--feature-gates={NATIVE_GATES}")
    program = "kube-scheduler-1.37" if native else "scheduler-plugins"
    return [str(have(program).path), *flags, "--bind-address=127.0.0.1"]


def _stand_in_command(kubeconfig: Path, folder: Path) -> list[str]:
    """Muster under the name of the peer."""
    config = folder / "stand-in.yaml"
    config.write_text(yaml.safe_dump(_configuration(kubeconfig, {"schedulerName": NAMES[PEER]})))
    return [sys.executable, "-m", "scheduler_core.app", f"--config={config}", "--secure-port=0"]


class Ended(Exception):
    """The scheduler ended unexpectedly; the message ends with the last lines of its log."""


@contextmanager
def scheduler(
    name: str, kubeconfig: Path, folder: Path, *, native: bool = False, stand_in: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Context manager of the scheduler MUSTER or PEER; its log remains. Raises Ended, ToolMissing.

    `native`: the peer is the newest kube-scheduler, which places native groups in a cycle of its own.
    `stand_in`: Muster takes the place of the peer, which then need not be built.
    """
    if name == MUSTER:
        command = _muster_command(kubeconfig)
    elif stand_in:
        command = _stand_in_command(kubeconfig, folder)
    else:
        command = _peer_command(kubeconfig, folder, native)
    log = folder / f"{NAMES[name]}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
        if (code := process.poll()) is not None:
            said = log.read_text(errors="replace").splitlines()[-5:]
            raise Ended(f"{name} ended with {code}: {' '.join(said)}")
    finally:
        end_process(process)
