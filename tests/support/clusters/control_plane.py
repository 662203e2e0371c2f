"""A real control plane for tests: etcd and kube-apiserver on loopback, in a folder that goes away.

There is no controller-manager and no kubelet: service accounts are not made, pods stay as they are written,
and a namespace that is deleted never ends. Whoever needs more passes `companions`: context managers made
from the running server (a small kubelet, controllers), entered after it is ready and left before it stops.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from sandbox.real import control_plane
from sandbox.real.control_plane import HOST, Binaries, ControlPlaneFailed
from tests.support.clusters.server import write_kubeconfig
from tests.support.durations import LASTING
from tests.support.free_port import free_port
from tests.tools.build import have

__all__ = ["HOST", "Companion", "ControlPlane", "ControlPlaneFailed"]

Companion = Callable[["ControlPlane"], AbstractContextManager[object]]

# What each kube-apiserver needs to serve the native groups; they are off in both releases.
GROUP_FLAGS = {
    "kube-apiserver": (
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,"
        "WorkloadAwarePreemption=true",
    ),
    "kube-apiserver-1.37": (
        "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
        "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,"
        "PodGroupPreemptionPolicy=true",
    ),
}


class ControlPlane(control_plane.ControlPlane):
    """etcd and kube-apiserver as a context manager, with the attributes of `Server`.

    `apiserver` names the tool, and so the release; it serves the native groups.
    """

    def __init__(
        self,
        companions: Sequence[Companion] = (),
        extra_flags: Sequence[str] = (),
        apiserver: str = "kube-apiserver",
    ) -> None:
        flags = [*GROUP_FLAGS[apiserver], *extra_flags]
        # The port stays its own, also while it is stopped.
        super().__init__(Binaries(have("etcd").path, have(apiserver).path), flags, free_port())
        self._companions = companions

    def _start(self, name: str, binary: Path, *flags: str) -> subprocess.Popen[bytes]:
        process = super()._start(name, binary, *flags)
        LASTING.add(process.pid)
        self._exits.callback(LASTING.discard, process.pid)
        return process

    def _ready(self) -> None:
        write_kubeconfig(self.kubeconfig, self.url, self.ca_file, self.token)
        for companion in self._companions:
            self._exits.enter_context(companion(self))

    def pid(self, name: str) -> int:
        """Process id of `etcd` or `kube-apiserver`."""
        return self._processes[name].pid
