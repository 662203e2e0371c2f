"""A cluster without Muster's kinds: the console says so, and sees them once they are installed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sandbox.api.server import ServerOptions
from sandbox.initial_objects import crd_dir
from tests.e2e.test_answers import quota
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.console_session import local_console
from tests.support.eventually import eventually
from tests.tools.build import have

pytestmark = [pytest.mark.e2e, pytest.mark.told_by("tests/e2e/console/test_ui.py")]
KIND = "elasticquotas.scheduling.x-k8s.io"
MISSING = f"The server does not have {KIND}: is Muster installed?"
# The console asks again within half a minute.
SOON = 45.0


def test_kinds_that_come_later_are_seen(tmp_path: Path) -> None:
    with SandboxServer(ServerOptions(directory=tmp_path, stop_seconds=0.2)) as server:
        cluster = Cluster(server, have("kubectl").path, "sandbox")
        with local_console(server.kubeconfig) as (process, session):
            for path in ("/now", "/queue", "/what-if", "/gangs", "/topology", "/lending"):
                page = session.page(path).body
                assert MISSING in page, path
                assert "may not list" not in page, path
                assert "may be old" not in page, path
            assert "kubectl apply" not in session.ask("/now").body
            tried = f"nothing can be tried: the server does not have {KIND}"
            assert tried in session.ask("/what-if").body
            cluster.kubectl("create", "-f", str(crd_dir()))
            eventually(lambda: MISSING not in session.ask("/now").body, SOON)
            namespace = cluster.namespace("late")
            cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(quota(namespace, "1", "2")))
            eventually(lambda: namespace in session.ask("/now?format=json").body, SOON)
            assert "nothing can be tried" not in session.ask("/what-if").body
            assert not [line for line in process.said if line.startswith("note:")]
