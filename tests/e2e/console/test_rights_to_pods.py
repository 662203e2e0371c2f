"""A user who may not list pods: the console tells what is not known, and which right is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sandbox.api.server import ApiServer, ServerOptions
from sandbox.initial_objects import crd_dir, create_objects, read_crds
from tests.e2e.test_answers import gang, quota
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.console_session import local_console
from tests.support.faults.proxy import Proxy
from tests.support.faults.rules import Call, Matches, Rule
from tests.tools.build import have

pytestmark = [pytest.mark.e2e, pytest.mark.told_by("tests/e2e/console/test_ui.py")]
OWN = "team-a"
PAGES = ("/now", "/lending", "/queue", "/gangs", "/topology", "/what-if")


async def prepare(api: ApiServer) -> None:
    """Muster's kinds."""
    await create_objects(api.registry, [*read_crds(crd_dir())])


def pods_of_others(call: Call) -> bool:
    """Lists of pods but those of the user's namespace."""
    return call.path.endswith("/pods") and f"/namespaces/{OWN}/" not in call.path


def pods(call: Call) -> bool:
    """Lists of pods."""
    return call.path.endswith("/pods")


@pytest.mark.parametrize(
    ("denied", "counted"),
    [(pods, set()), (pods_of_others, {OWN})],
    ids=["of any namespace", "of other namespaces"],
)
def test_figures_of_pods_that_may_not_be_listed_are_not_known(
    tmp_path: Path, denied: Matches, counted: set[str]
) -> None:
    options = ServerOptions(directory=tmp_path, stop_seconds=0.2)
    with SandboxServer(options, prepare) as server, Proxy(server, tmp_path) as proxy:
        cluster = Cluster(server, have("kubectl").path, "sandbox")
        for name in (OWN, "team-b"):
            cluster.kubectl("create", "namespace", name)
            objects = [quota(name, "2", "4"), *gang(name, "2")]
            cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(objects))
        proxy.journal.add(Rule(denied, status=403, reason="Forbidden"))
        with local_console(proxy.door("tenant").kubeconfig, "-n", OWN) as (_, session):
            for path in PAGES:
                shown = session.page(path).body.partition("<details")[0]
                assert "you may not list" in shown, path
                assert "pods" in shown, path
            figures = session.ask("/now?format=json").json()["quotas"]
            assert {item["namespace"] for item in figures if item["used"] is not None} == counted
            groups = session.ask("/gangs?format=json").json()["groups"]
            assert {item["namespace"] for item in groups if item["members"] is not None} == counted
            assert (session.ask("/queue?format=json").json()["waiting"] is not None) == bool(counted)
