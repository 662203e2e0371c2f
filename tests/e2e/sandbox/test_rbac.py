"""`muster-sandbox up --rbac`: kubectl as a tenant, as the document of the sandbox shows it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.api.server import ServerOptions
from sandbox.initial_objects import crd_dir, create_objects, read_crds, read_user_roles
from tests.support.clusters.sandbox_server import SandboxServer
from tests.tools.build import have

pytestmark = pytest.mark.e2e


def test_a_tenant_of_the_sandbox_has_the_rights_of_its_role() -> None:
    with SandboxServer(ServerOptions(rbac=True)) as server:
        server.run(create_objects(server.api.registry, [*read_crds(crd_dir()), *read_user_roles()]))
        kubeconfig = Path(server.kubeconfig)

        def kubectl(*args: str) -> subprocess.CompletedProcess[str]:
            command = [str(have("kubectl").path), "--kubeconfig", str(kubeconfig), *args]
            return subprocess.run(command, text=True, capture_output=True, timeout=60)

        for made in (
            ("create", "namespace", "team-a"),
            # The controllers of `up` make it; this server has none.
            ("create", "serviceaccount", "default", "-n", "team-a"),
            ("create", "rolebinding", "alice", "--clusterrole", "edit", "--user", "alice", "-n", "team-a"),
        ):
            assert kubectl(*made).returncode == 0
        groups = "podgroups.incubator.scheduling.k8s.io"
        may = ("--as", "alice", "auth", "can-i", "create", groups, "-n")
        assert kubectl(*may, "team-a").stdout == "yes\n"
        assert kubectl(*may, "team-b").stdout == "no\n"
        refused = kubectl("--as", "alice", "get", "elasticquotas", "-n", "team-b")
        assert 'User "alice" cannot list resource "elasticquotas"' in refused.stderr
        assert kubectl("--as", "alice", "get", "elasticquotas", "-n", "team-a").returncode == 0
        token = kubectl("create", "token", "default", "-n", "team-a")
        assert (token.returncode, token.stdout[:8]) == (0, "sandbox-"), token.stderr
