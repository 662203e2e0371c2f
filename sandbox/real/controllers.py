"""Kubernetes' own controllers and the controller of JobSets, beside a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.initial_objects import read_definitions
from sandbox.objects import Obj
from sandbox.ports import free_port
from sandbox.real.control_plane import HOST, ControlPlane, programs_in

MANAGER: Final = "kube-controller-manager"
JOBSET: Final = "jobset"
JOBSET_CRD: Final = "jobset-crd.yaml"

_JOBSET_CONFIG: Final = """\
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
webhook: {{host: {host}, port: {port}, certDir: {certificates}}}
metrics: {{bindAddress: "0"}}
health: {{healthProbeBindAddress: "0"}}
"""


@dataclass(frozen=True)
class ControllerPrograms:
    """Paths of the programs, and the CustomResourceDefinition of JobSets."""

    manager: Path
    jobset: Path
    definitions: Sequence[Obj]

    def commands(self, server: ControlPlane) -> dict[str, list[str]]:
        """Command line of each program by name, for nodes whose kubelet is the sandbox's."""
        return {
            MANAGER: manager_command(self.manager, server, heartbeats=False),
            JOBSET: jobset_command(self.jobset, server),
        }


def controllers_in(folder: Path) -> ControllerPrograms:
    """The programs and the CRD in a directory. Raises ConfigError with the missing ones."""
    manager, jobset = programs_in(folder, (MANAGER, JOBSET))
    return ControllerPrograms(manager, jobset, read_definitions(folder / JOBSET_CRD))


def manager_command(program: Path, server: ControlPlane, *, heartbeats: bool = True) -> list[str]:
    """Command line of kube-controller-manager with the controllers that it runs by default.

    Without `heartbeats` no kubelet renews the Lease of its node: the node lifecycle controller, which would
    taint all nodes after 50 seconds, does not run.
    """
    return [
        str(program),
        f"--kubeconfig={server.kubeconfig}",
        f"--root-ca-file={server.ca_file}",
        f"--service-account-private-key-file={server.folder / 'server.key'}",
        # Nobody asks for its metrics.
        "--secure-port=0",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        *([] if heartbeats else ["--controllers=*,-node-lifecycle-controller"]),
    ]


def jobset_command(program: Path, server: ControlPlane) -> list[str]:
    """Command line of the controller of JobSets; writes its configuration to the server's folder.

    Its webhooks are not registered, so JobSets have to be complete as written.
    """
    certificates = server.folder / "jobset-certificates"
    certificates.mkdir()
    for source, target in (("server.crt", "tls.crt"), ("server.key", "tls.key")):
        (certificates / target).write_bytes((server.folder / source).read_bytes())
    config = server.folder / "jobset.yaml"
    config.write_text(_JOBSET_CONFIG.format(host=HOST, port=free_port(), certificates=certificates))
    return [str(program), f"--kubeconfig={server.kubeconfig}", f"--config={config}"]
