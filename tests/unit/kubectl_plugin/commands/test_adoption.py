"""`adopt`: what is planned, what is written, and that nothing is lost whenever it ends."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click
import msgspec
import pytest

from kubectl_plugin.cli.errors import AlreadyReported, CommandFailed
from kubectl_plugin.commands import adoption
from kubectl_plugin.commands.adoption import carry_out
from kubectl_plugin.commands.adoption_plan import AdoptionStep, plan
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, Unreachable
from scheduler_core.kube.paging import Page
from scheduler_core.model.kinds import ELASTIC_QUOTAS, Resource
from scheduler_core.model.writes import Create, Delete, Patch, Write

GROUP = "scheduling.k8s.io/group-name"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "j", "controller": True}
SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "s", "controller": True}
JOB_LABELS = {"batch.kubernetes.io/controller-uid": "j", "batch.kubernetes.io/job-name": "job", "app": "x"}


def pod(
    name: str = "p", *, node: str = "", scheduler: str = "default-scheduler", **meta: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "a", "uid": f"old-{name}", "resourceVersion": "7", **meta}
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "main"}],
        **({"nodeName": node} if node else {}),
    }
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


class Killed(BaseException):
    """The command ends here."""


class Server:
    """Pods, a quota, and a webhook that may be away. `ends_after` writes the command is killed."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = {item["metadata"]["name"]: item for item in pods}
        self.webhook = True
        self.quotas = [{"metadata": {"name": "eq", "namespace": "a"}}]
        self.full = False
        self.group_of_job = "g"
        self.written: list[tuple[Write, bool]] = []
        self.ends_after = 1000
        self.lost_deletion = False
        self.answers: Iterator[ApiError | None] = iter(())

    @property
    def client(self) -> Client:
        return cast(Client, self)

    def get_page(self, resource: Resource, namespace: str = "", **query: Any) -> Page:
        items = (
            self.quotas
            if resource == ELASTIC_QUOTAS
            else [item for item in self.pods.values() if item["spec"]["schedulerName"] == "default-scheduler"]
        )
        return Page(items=[msgspec.Raw(msgspec.json.encode(item)) for item in items])

    def get_json(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        if name not in self.pods:
            raise NotFound(404, "NotFound", "gone", "GET", "/pods")
        return self.pods[name]

    def create(self, write: Create, *, dry_run: bool = False) -> bytes:
        body = cast(dict[str, Any], copy.deepcopy(write.body))
        assert not {"uid", "resourceVersion"} & body["metadata"].keys()
        if dry_run:
            if self.full:
                raise Forbidden(403, "Forbidden", "exceeded quota: rq, requested: pods=1", "POST", "/pods")
        else:
            self._note(write, dry_run)
            error = next(self.answers, None)
            if error is not None and not error.maybe_accepted:
                raise error
            if body["metadata"]["name"] in self.pods:
                raise AlreadyExists(409, "AlreadyExists", "it is there", "POST", "/pods")
        if self.webhook and "schedulerName" not in body["spec"]:
            body["spec"]["schedulerName"] = "muster-scheduler"
            owners = body["metadata"].get("ownerReferences") or ()
            if self.group_of_job and any(owner["uid"] == "j" for owner in owners):
                body["metadata"].setdefault("annotations", {})[GROUP] = self.group_of_job
        body["spec"].setdefault("schedulerName", "default-scheduler")
        if not dry_run:
            name = body["metadata"]["name"]
            self.pods[name] = {**body, "metadata": {**body["metadata"], "uid": f"new-{name}"}}
            if error is not None:
                raise error
        return msgspec.json.encode(body)

    def write(self, write: Write, *, dry_run: bool = False) -> bytes:
        self._note(write, dry_run)
        assert isinstance(write, Patch | Delete)
        found = self.pods.get(write.name)
        if found is None:
            raise NotFound(404, "NotFound", "gone", "DELETE", "/pods")
        metadata = found["metadata"]
        if write.uid != metadata["uid"] or write.resource_version not in ("", metadata["resourceVersion"]):
            raise Conflict(409, "Conflict", "it changed", "DELETE", "/pods")
        if not dry_run and isinstance(write, Delete):
            del self.pods[write.name]
            if self.lost_deletion:
                raise Unreachable("no answer", sent=True, method="DELETE")
        elif not dry_run:
            metadata["resourceVersion"] += "1"
        return b""

    def _note(self, write: Write, dry_run: bool) -> None:
        if len(self.written) >= self.ends_after:
            raise Killed
        self.written.append((write, dry_run))


def planned(server: Server, group: str | None = None) -> list[tuple[str, str]]:
    return [(step.name, step.action) for step in plan(server.client, "a", group)]


@pytest.mark.parametrize(
    ("found", "action"),
    [
        pytest.param(pod(), [("p", "create")], id="nobody else makes it again"),
        pytest.param(pod(ownerReferences=[SET]), [("p", "delete")], id="its controller makes another"),
        pytest.param(
            pod(ownerReferences=[JOB], labels=JOB_LABELS), [("p", "release")], id="its Job must not count it"
        ),
        pytest.param(
            pod(ownerReferences=[JOB], labels={"app": "x"}), [("p", "none")], id="a selector of its own"
        ),
        pytest.param(
            pod(annotations={"muster.dev/released": "true"}),
            [("p", "released")],
            id="a run before was killed",
        ),
        pytest.param(pod(node="n"), [], id="it has a node and belongs to no group: it counts"),
        pytest.param(
            pod(node="n", ownerReferences=[JOB]), [("p", "joins")], id="a member that does not say so"
        ),
        pytest.param(
            pod(node="n", ownerReferences=[JOB], annotations={GROUP: "g"}), [], id="a member that counts"
        ),
        pytest.param(pod(deletionTimestamp="2026-01-01T00:00:00Z"), [], id="on its way out"),
        pytest.param(pod(annotations={"muster.dev/charged": "true"}), [], id="the webhook judged it"),
    ],
)
def test_what_is_planned_for_a_pod(found: dict[str, Any], action: list[tuple[str, str]]) -> None:
    assert planned(Server(found)) == action


def test_a_group_is_that_which_the_webhook_says_now() -> None:
    server = Server(pod("other"), pod("member", ownerReferences=[JOB], labels=JOB_LABELS))
    assert planned(server, "g") == [("member", "release")]


def test_while_the_webhook_is_away_nothing_is_planned() -> None:
    server = Server(pod())
    server.webhook = False
    with pytest.raises(
        CommandFailed, match="the webhook does not answer the API server; nothing was changed"
    ):
        planned(server)


def test_pods_that_are_not_musters_are_left_alone() -> None:
    server = Server(pod())
    server.webhook, server.quotas = False, []
    assert planned(server) == []


def test_a_full_native_quota_refuses_the_question_and_not_the_answer() -> None:
    server = Server(pod())
    server.full = True
    assert planned(server) == [("p", "create")]
    server.quotas = []
    assert planned(server) == []


def step(*pods: dict[str, Any]) -> tuple[Server, list[AdoptionStep]]:
    server = Server(*pods)
    return server, plan(server.client, "a", None)


def test_a_bare_pod_comes_back_the_same_but_for_its_scheduler(tmp_path: Path) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}
    server, steps = step(pod(labels={"app": "x"}, annotations={GROUP: "g"}, ownerReferences=[owner]))
    carry_out(server.client, steps, dry_run=False)
    new = server.pods["p"]
    assert (new["metadata"]["uid"], new["spec"]["schedulerName"]) == ("new-p", "muster-scheduler")
    assert new["metadata"]["labels"] == {"app": "x"}
    assert new["metadata"]["annotations"] == {GROUP: "g"}
    assert new["metadata"]["ownerReferences"] == [owner]
    assert new["spec"]["containers"] == [{"name": "main"}]


def test_fields_that_follow_from_a_priority_class_are_left_to_it() -> None:
    classed, plain = pod("classed"), pod("plain")
    classed["spec"] |= {"priorityClassName": "high", "priority": 5, "preemptionPolicy": "Never"}
    plain["spec"] |= {"priority": 7}
    server, steps = step(classed, plain)
    carry_out(server.client, steps, dry_run=False)
    assert server.pods["classed"]["spec"].keys() & {"priority", "preemptionPolicy"} == set()
    assert server.pods["classed"]["spec"]["priorityClassName"] == "high"
    assert server.pods["plain"]["spec"]["priority"] == 7


def test_every_write_names_what_it_was_decided_on() -> None:
    server, steps = step(
        pod("bare"), pod("set", ownerReferences=[SET]), pod("job", ownerReferences=[JOB], labels=JOB_LABELS)
    )
    carry_out(server.client, steps, dry_run=False)
    said = [
        (type(write).__name__, write.name, write.uid, write.resource_version)
        for write, _ in server.written
        if isinstance(write, Patch | Delete)
    ]
    assert said == [
        ("Delete", "bare", "old-bare", "7"),
        ("Delete", "set", "old-set", "7"),
        ("Patch", "job", "old-job", "7"),
        # Released, it goes in whatever version: its Job has made another.
        ("Delete", "job", "old-job", ""),
    ]


def test_a_pod_that_got_a_node_meanwhile_stays(capsys: pytest.CaptureFixture[str]) -> None:
    server, steps = step(pod())
    server.pods["p"]["metadata"]["resourceVersion"] = "8"
    with pytest.raises(AlreadyReported):
        carry_out(server.client, steps, dry_run=False)
    assert server.pods["p"]["metadata"]["uid"] == "old-p"
    assert "pod/p -n a: Error from server (Conflict): it changed" in capsys.readouterr().err


def test_a_server_dry_run_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    server, steps = step(pod("bare"), pod("job", ownerReferences=[JOB], labels=JOB_LABELS))
    before = copy.deepcopy(server.pods)
    carry_out(server.client, steps, dry_run=True)
    assert server.pods == before
    assert {dry_run for _, dry_run in server.written} == {True}
    assert capsys.readouterr().out.count("(server dry run)") == 2


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pods are kept while they are made anew."""
    monkeypatch.setattr(adoption.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(adoption, "PAUSE_SECONDS", 0.0)
    return tmp_path


@pytest.mark.parametrize("writes", range(6))
def test_wherever_it_is_killed_no_pod_is_lost(kept: Path, writes: int) -> None:
    server, steps = step(pod("one"), pod("two"))
    server.ends_after = writes
    with suppress(Killed):
        carry_out(server.client, steps, dry_run=False)
    saved = [
        item["metadata"]["name"] for file in kept.iterdir() for item in json.loads(file.read_text())["items"]
    ]
    assert {*server.pods, *saved} == {"one", "two"}
    assert bool(saved) == (writes < 4)


def test_a_file_of_pods_is_for_their_owner_alone(kept: Path) -> None:
    server, steps = step(pod())
    server.ends_after = 1
    with pytest.raises(Killed):
        carry_out(server.client, steps, dry_run=False)
    (file,) = kept.iterdir()
    assert file.stat().st_mode & 0o077 == 0


LATE = (
    AlreadyExists(409, "AlreadyExists", "object is being deleted", "POST", "/pods"),
    Forbidden(403, "Forbidden", "exceeded quota: rq", "POST", "/pods"),
    Unreachable("no answer", sent=True, method="POST"),
)


@pytest.mark.parametrize(
    "error", LATE, ids=["the old one lingers", "the quota is behind", "the answer is lost"]
)
def test_a_creation_is_tried_until_the_pod_is_there(kept: Path, error: ApiError) -> None:
    server, steps = step(pod())
    server.answers = iter([error])
    carry_out(server.client, steps, dry_run=False)
    assert server.pods["p"]["metadata"]["uid"] == "new-p"
    assert list(kept.iterdir()) == []


def test_a_deletion_whose_answer_is_lost_is_followed_by_the_creation(kept: Path) -> None:
    server, steps = step(pod())
    server.lost_deletion = True
    carry_out(server.client, steps, dry_run=False)
    assert server.pods["p"]["metadata"]["uid"] == "new-p"


def test_pods_that_could_not_be_created_are_reported_and_kept_in_the_file(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adoption, "CREATE_SECONDS", 0.0)
    server, steps = step(pod())
    server.answers = iter([LATE[1]])
    with pytest.raises(AlreadyReported):
        carry_out(server.client, steps, dry_run=False)
    (file,) = kept.iterdir()
    assert f"to create the missing pods, run: kubectl create -f {file}" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "done"), [("y\n", True), ("n\n", False), ("", False)])
def test_nothing_is_done_without_consent(
    kept: Path, monkeypatch: pytest.MonkeyPatch, typed: str, done: bool
) -> None:
    from click.testing import CliRunner

    server = Server(pod())
    session = type("Session", (), {"client": server.client, "scope": "a", "namespace": "a"})()
    monkeypatch.setattr(adoption.CommandSession, "of", staticmethod(lambda ctx: session))
    from kubectl_plugin.commands.elasticquota_adopt import adopt

    CliRunner().invoke(adopt, [], input=typed, catch_exceptions=False)
    assert (server.pods["p"]["metadata"]["uid"] == "new-p") is done
    assert isinstance(adopt, click.Command)
