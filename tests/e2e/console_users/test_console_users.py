"""The console in the cluster, on a server with RBAC: each user sees what the API server lets them list.

The sandbox has no users, so these tests start a server of their own (make test-e2e).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.e2e.test_answers import gang, quota
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, scheduler
from tests.support.console_session import ConsoleSession, cluster_console
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e
WAIT = 30.0
RULES = Path(__file__).parents[3] / "charts" / "muster" / "rbac" / "console.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PAGES = ("/now", "/lending", "/queue", "/gangs", "/topology", "/what-if")


class Scene(NamedTuple):
    """Two teams, a user of the first, and one who may see all; tokens by name."""

    mine: str
    other: str
    host: str
    tokens: dict[str, str]

    def session(self, user: str) -> ConsoleSession:
        """A client that sends the token of a user."""
        return ConsoleSession(self.host, {"Authorization": f"Bearer {self.tokens[user]}"})


def account(cluster: Cluster, name: str) -> str:
    """A service account of the namespace `default`, and its token."""
    place = "/api/v1/namespaces/default/serviceaccounts"
    cluster.request("POST", place, {"metadata": {"name": name}})
    made = cluster.request("POST", f"{place}/{name}/token", {"spec": {"expirationSeconds": 3600}})
    return str(made["status"]["token"])


def grant(cluster: Cluster, name: str, rules: list[dict[str, Any]], namespace: str = "") -> None:
    """A role for the account of that name, in a namespace or everywhere."""
    kind = "Role" if namespace else "ClusterRole"
    place = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    cluster.request("POST", f"{place}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    cluster.request("POST", f"{place}/{kind.lower()}bindings", binding)


def rule(group: str, *resources: str) -> dict[str, Any]:
    """The right to read some kinds."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["get", "list", "watch"]}


@pytest.fixture
def scene(cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    """The console with the rights that the chart gives it."""
    mine, other = cluster.namespace("mine"), cluster.namespace("treasure")
    for name in ("galleon", "frigate"):
        create_node(cluster, name, cpu="4")
    hidden = gang(other, "5")
    for item in hidden:
        item["metadata"]["name"] = item["metadata"]["name"].replace("train", "doubloon")
        item["metadata"].get("annotations", {}).update({"scheduling.k8s.io/group-name": "doubloon"})
    work = [quota(mine, "2", "8"), quota(other, "6", "8"), *gang(mine, "2"), *hidden]
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(work))
    suffix = mine.rpartition("-")[2]
    names = {name: f"{name}-{suffix}" for name in ("console", "tenant", "boss", "nobody")}
    tokens = {name: account(cluster, whole) for name, whole in names.items()}
    grant(cluster, names["console"], yaml.safe_load(RULES.read_text())["rules"])
    reads = [rule("", "pods", "configmaps"), rule("scheduling.x-k8s.io", "elasticquotas", "podgroups")]
    reads.append(rule("incubator.scheduling.k8s.io", "podgroups"))
    grant(cluster, names["tenant"], reads, mine)
    grant(cluster, names["boss"], [*reads, rule("", "nodes")])
    kubeconfig = tmp_path / "console.kubeconfig"
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": tokens["console"]}
    kubeconfig.write_text(yaml.safe_dump(content))
    with scheduler(cluster, tmp_path):
        eventually(lambda: len(bound(cluster, mine)) == 2, WAIT)
        with cluster_console(kubeconfig, "--namespace", "muster-system") as (_, host):
            yield Scene(mine, other, host, tokens)


def bodies(scene: Scene, user: str) -> Iterator[tuple[str, int, str]]:
    """Every page of a user as HTML, fragment and document, with all headers."""
    session = scene.session(user)
    pages = [*PAGES, f"/gangs/{scene.mine}/incubator.train", f"/gangs/{scene.mine}/train"]
    for path in pages:
        session.page(path)
        for form in ("", "?fragment=", "?format=json", "?q=doubloon", "?steps=1"):
            reply = session.ask(path + form)
            yield path + form, reply.status, reply.body + json.dumps(reply.headers)


def test_a_tenant_sees_no_name_of_another_namespace(scene: Scene) -> None:
    names = {scene.other, "galleon", "frigate"}
    seen = 0
    for path, status, body in bodies(scene, "tenant"):
        assert status == 200, (path, body)
        # What the tenant typed comes back to them.
        found = {name for name in names if name in body}
        # A pod of one's own tells its node.
        own = {"galleon", "frigate"} if path.startswith("/gangs") else set()
        assert found <= own, (path, found)
        assert "doubloon" not in body.replace('value="doubloon"', "").replace("q=doubloon", "").replace(
            "“doubloon”", ""
        ), path
        seen += len(body)
    assert seen > 20_000
    now = scene.session("tenant").ask("/now?format=json").json()
    assert {item["namespace"] for item in now["quotas"]} == {scene.mine}
    assert now["totals"][0]["min"] == "8"
    (loans,) = scene.session("tenant").ask("/lending?format=json").json()["lending"]
    assert {(item["lender"], item["borrower"]) for item in loans["loans"]} == {("(others)", scene.mine)}
    queue = scene.session("tenant").ask("/queue?format=json").json()
    assert (queue["waiting"], queue["length"]) == ([], 1)
    hidden = scene.session("tenant").ask(f"/gangs/{scene.other}/incubator.doubloon")
    missing = scene.session("tenant").ask(f"/gangs/{scene.other}/incubator.nothing")
    assert (hidden.status, missing.status) == (404, 404)
    assert hidden.body.replace("doubloon", "nothing") == missing.body


def test_who_may_list_all_sees_all_and_who_may_nothing_sees_nothing(scene: Scene) -> None:
    boss = scene.session("boss")
    assert boss.page("/now").status == 200
    quotas = boss.ask("/now?format=json").json()["quotas"]
    assert {item["namespace"] for item in quotas} == {scene.mine, scene.other}
    assert boss.ask(f"/gangs/{scene.other}/incubator.doubloon").status == 200
    change = f"set=quota/{scene.other}:max.cpu=12"
    assert boss.ask("/what-if?format=json", "POST", change).json()["supposed"]
    for path, status, body in bodies(scene, "nobody"):
        expected = 404 if path.startswith("/gangs/") else 200
        assert status == expected, path
        assert scene.other not in body
        assert not re.search("galleon|frigate", body)
    tried = scene.session("tenant").ask("/what-if?format=json", "POST", change).json()
    assert tried == {"unread": ["nodes, and pods and quotas of all namespaces"]}


def test_tokens_are_reviewed_and_sessions_end(scene: Scene) -> None:
    stranger = ConsoleSession(scene.host, {})
    assert stranger.ask("/now").status == 401
    assert "A token of the cluster" in stranger.ask("/now").body
    assert ConsoleSession(scene.host, {"Authorization": "Bearer x.y.z"}).ask("/now").status == 401
    assert stranger.ask("/login", "POST", "token=wrong").status == 401
    entered = stranger.ask("/login", "POST", f"token={scene.tokens['tenant']}")
    assert entered.status == 303
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    session = ConsoleSession(scene.host, {"Cookie": cookie.partition(";")[0]})
    assert session.page("/now").status == 200
    assert session.ask("/logout", "POST", Origin="https://example.com").status == 403
    assert session.ask("/logout", "POST").status == 303
    assert session.ask("/now").status == 401
    # Headers of a proxy count for nothing without its certificate.
    forged = scene.session("tenant").ask(
        "/now?format=json", X_Remote_User="admin", X_Remote_Group="system:masters"
    )
    assert forged.status == 403


def test_a_right_that_is_taken_away_ends(scene: Scene, cluster: Cluster) -> None:
    session = scene.session("tenant")
    session.page("/now")
    assert session.ask("/now?format=json").json()["quotas"]
    suffix = scene.mine.rpartition("-")[2]
    cluster.request("DELETE", f"{RBAC}/namespaces/{scene.mine}/rolebindings/tenant-{suffix}")
    # The console keeps an answer about rights for half a minute.
    eventually(lambda: not session.ask("/now?format=json").json()["quotas"], 60)
