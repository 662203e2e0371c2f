"""A real control plane for tests: etcd and kube-apiserver on loopback, in a folder that goes away.

There is no controller-manager and no kubelet: service accounts are not made, pods stay as they are written,
and a namespace that is deleted never ends. Whoever needs more passes `companions`: context managers made
from the running server (a small kubelet, controllers), entered after it is ready and left before it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from sandbox.real import control_plane
from sandbox.real.control_plane import HOST, Binaries, ControlPlaneFailed
from tests.support.clusters.server import write_kubeconfig
from tests.tools.build import have

__all__ = ["HOST", "Companion", "ControlPlane", "ControlPlaneFailed"]

Companion = Callable[["ControlPlane"], AbstractContextManager[object]]


class ControlPlane(control_plane.ControlPlane):
    """etcd and kube-apiserver as a context manager, with the attributes of `Server`."""

    def __init__(self, companions: Sequence[Companion] = (), extra_flags: Sequence[str] = ()) -> None:
        super().__init__(Binaries(have("etcd").path, have("kube-apiserver").path), extra_flags)
        self._companions = companions

    def _ready(self) -> None:
        write_kubeconfig(self.kubeconfig, self.url, self.ca_file, self.token)
        for companion in self._companions:
            self._exits.enter_context(companion(self))

    def pid(self, name: str) -> int:
        """Process id of `etcd` or `kube-apiserver`."""
        return self._processes[name].pid
