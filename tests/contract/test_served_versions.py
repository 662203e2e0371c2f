"""A reflector of native groups on a server that adds and drops versions of them while it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest

from sandbox.api.server import ServerOptions
from sandbox.kinds.builtin import serve_groups
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.errors import NotFound
from scheduler_core.kube.paging import Page
from scheduler_core.kube.watch.reflector import Reflector, ReflectorOptions
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.groups.gang import Disruption, Gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.kinds import NATIVE_POD_GROUPS, Resource
from scheduler_core.model.writes import Create, Patch
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.eventually import eventually

# A watch ends after a second, so that the version is asked for again as it is after minutes in production.
QUICK = ReflectorOptions(backoff=0.02, backoff_cap=0.1, watch_min=1, watch_max=1, silence=5.0, brief=0.05)
WAIT = 20.0


class Groups:
    """A sandbox with two groups, a reflector of them, and what it was told."""

    def __init__(self, server: SandboxServer) -> None:
        self.server = server
        self.client: Client = connect(Overrides(kubeconfig=str(server.kubeconfig)))[0]
        self.told: list[Event] = []
        self.reflector = Reflector(
            self.client, NATIVE_POD_GROUPS, parse_native_gang, self.told.append, options=QUICK
        )

    def create(self, version: str) -> None:
        for name, mode in (("one", {"single": {}}), ("two", {"all": {}})):
            spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": mode}
            if version == "v1alpha2":
                spec["disruptionMode"] = "PodGroup" if "all" in mode else "Pod"
            body = {"metadata": {"name": name}, "spec": spec}
            self.client.create(Create(NATIVE_POD_GROUPS, "default", body))

    def serve(self, versions: Collection[str]) -> None:
        async def change() -> None:
            serve_groups(self.server.api.kinds, versions)

        self.server.run(change())

    def follow(self) -> None:
        self.reflector.start()
        assert self.reflector.synced.wait(WAIT)

    def types(self) -> list[tuple[str, str]]:
        return [(event.type, event.key) for event in self.told if event.type != "SYNCED"]

    def gangs(self) -> dict[str, Gang]:
        return {event.key: event.obj for event in self.told if event.obj is not None}


@pytest.fixture
def groups(request: pytest.FixtureRequest) -> Iterator[Groups]:
    with SandboxServer(ServerOptions(group_versions=request.param)) as server:
        made = Groups(server)
        yield made
        made.reflector.stop()
        if made.reflector.alive:
            made.reflector.join(WAIT)
        made.client.session.close()


@pytest.mark.parametrize(
    ("groups", "version"),
    [
        (("v1alpha2",), "v1alpha2"),
        (("v1beta1", "v1alpha3"), "v1beta1"),
        (("v1alpha3",), "v1alpha3"),
        (("v1", "v1beta1"), "v1"),
    ],
    indirect=["groups"],
)
def test_every_version_is_read_and_written(groups: Groups, version: str) -> None:
    groups.create(version)
    groups.follow()
    assert groups.reflector.served.version == version
    disruptions = {key: gang.disruption for key, gang in groups.gangs().items()}
    assert disruptions == {"default/one": Disruption.SINGLE, "default/two": Disruption.ALL}
    moment = "2026-01-01T00:00:00Z"
    fields = {"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": moment}
    patch = Patch(
        NATIVE_POD_GROUPS, "default", "one", {"status": {"conditions": [fields]}}, subresource="status"
    )
    groups.client.patch(patch)
    eventually(lambda: ("MODIFIED", "default/one") in groups.types(), WAIT)


@pytest.mark.parametrize(
    ("groups", "later"),
    [
        (("v1alpha2",), ("v1beta1", "v1alpha3")),
        (("v1beta1",), ("v1alpha3",)),
        (("v1beta1",), ("v1", "v1beta1")),
    ],
    indirect=["groups"],
)
def test_objects_stay_themselves_when_the_version_changes(groups: Groups, later: tuple[str, ...]) -> None:
    groups.create(groups.client.resolve(NATIVE_POD_GROUPS).version)
    groups.follow()
    uids = {event.key: event.uid for event in groups.told if event.obj is not None}
    groups.serve(later)
    eventually(lambda: groups.reflector.served.version == later[0], WAIT)
    both = [("MODIFIED", "default/one"), ("MODIFIED", "default/two")]
    eventually(lambda: [groups.types().count(told) for told in both] == [1, 1], WAIT)
    assert "DELETED" not in {type_ for type_, _ in groups.types()}
    assert [type_ for type_, key in groups.types() if key == "default/two"] == ["ADDED", "MODIFIED"]
    assert {event.key: event.uid for event in groups.told if event.obj is not None} == uids


@pytest.mark.parametrize("groups", [("v1beta1",)], indirect=True)
def test_a_kind_that_goes_and_returns_is_followed_again(groups: Groups) -> None:
    groups.create("v1beta1")
    groups.follow()
    groups.serve(())
    eventually(lambda: groups.types().count(("DELETED", "default/one")) == 1, WAIT)
    assert groups.reflector.absent
    with pytest.raises(NotFound, match="podgroups"):
        groups.client.resolve(NATIVE_POD_GROUPS)
    groups.serve(("v1",))
    eventually(lambda: groups.types()[-2:] == [("ADDED", "default/one"), ("ADDED", "default/two")], WAIT)
    assert groups.reflector.served.version == "v1"
    eventually(lambda: not groups.reflector.absent, WAIT)


@pytest.mark.parametrize("groups", [("v1beta1",)], indirect=True)
def test_servers_that_are_upgraded_one_by_one_delete_nothing(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.create("v1beta1")
    groups.follow()
    answer, refused = groups.client.get_page, []

    def another_server(*args: Any, **more: Any) -> Page:
        if len(refused) < 4:
            refused.append(args)
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        return answer(*args, **more)

    # Discovery is answered by a new server, and the first lists by an old one.
    monkeypatch.setattr(groups.client, "get_page", another_server)
    groups.serve(("v1",))
    eventually(lambda: groups.types().count(("MODIFIED", "default/two")) == 1, WAIT)
    assert len(refused) == 4
    assert "DELETED" not in {type_ for type_, _ in groups.types()}


@pytest.mark.parametrize("groups", [("v1beta1",)], indirect=True)
def test_an_object_that_does_not_exist_is_no_reason_to_ask_for_versions(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.client.resolve(NATIVE_POD_GROUPS)
    asked: list[Resource] = []
    monkeypatch.setattr(groups.client, "resolve", asked.append)
    with pytest.raises(NotFound, match="nobody"):
        groups.client.get(NATIVE_POD_GROUPS, "default", "nobody")
    assert asked == []


@pytest.mark.parametrize("groups", [("v1beta1",)], indirect=True)
def test_a_client_finds_the_new_version_after_a_404(groups: Groups) -> None:
    groups.create("v1beta1")
    assert len(list(groups.client.list_raw(NATIVE_POD_GROUPS))) == 2
    groups.serve(("v1alpha2",))
    assert len(list(groups.client.list_raw(NATIVE_POD_GROUPS))) == 2
