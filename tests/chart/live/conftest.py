"""One real control plane for the chart: RBAC is on, and every request is written down."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.chart.live.installation import AUDIT_POLICY, Plane
from tests.chart.rendering import NAMESPACE
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.tools.build import have

STUBS = Path(__file__).with_name("stub_crds.yaml")
NAMESPACES = ("team-a", "team-b", NAMESPACE)


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    """A running server that knows the kinds of cert-manager and the Prometheus operator."""
    with tempfile.TemporaryDirectory(prefix="muster-audit-") as folder:
        policy, log = Path(folder, "policy.yaml"), Path(folder, "audit.log")
        policy.write_text(yaml.safe_dump(AUDIT_POLICY))
        log.touch()
        flags = (
            f"--audit-policy-file={policy}",
            f"--audit-log-path={log}",
            "--audit-log-mode=blocking-strict",
        )
        with ControlPlane(extra_flags=flags) as server:
            cluster = Cluster(server, have("kubectl").path, "kube-apiserver")
            cluster.kubectl("apply", "-f", str(STUBS))
            await_established(server)
            for name in NAMESPACES:
                # The strictest standard: a pod that does not keep it is refused.
                labels = {"pod-security.kubernetes.io/enforce": "restricted"} if name == NAMESPACE else {}
                body = {"metadata": {"name": name, "labels": labels}}
                cluster.request("POST", "/api/v1/namespaces", body)
            yield Plane(cluster, log)
