"""The first answers after a start: rights are asked for by namespace, once the namespaces are known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kubectl_plugin.console.access.bearer import HOLDS_SECONDS, BearerGate
from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.pages.all import all_pages
from kubectl_plugin.console.web import app as web
from kubectl_plugin.console.web.app import create_app
from scheduler_core.kube.access_reviews import ReviewedUser
from tests.support.builders import make_quota
from tests.support.console_scene import Scene

TENANT = {"Authorization": "Bearer tenant"}


class Reviews:
    """A tenant who may list all in two namespaces. `asked` is called with the kind of each question."""

    def __init__(self) -> None:
        self.asked: Callable[[str], None] = lambda plural: None

    def user_of(self, token: str) -> ReviewedUser:
        return ReviewedUser(token)

    def may_list(self, user: ReviewedUser, resource: Any, namespace: str = "") -> bool:
        self.asked(resource.plural)
        return namespace in ("mine", "later")


class Starting:
    """A console in the cluster whose watch is not ready yet."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.watch = self.scene.watch
        self.watch.ready.clear()
        self.reviews = Reviews()
        self.now = 0.0
        reviews: Any = self.reviews
        rights = RightsReader(reviews, self.watch.cluster.namespaces, set)
        gate = BearerGate(reviews, rights, None, self.watch.ready.is_set, lambda: self.now)
        self.app = create_app(self.scene.services, gate, all_pages(), frozenset())
        self.app.testing = True

    def read(self) -> None:
        """The first batch arrives."""
        self.watch.put(make_quota("mine/quota").min(cpu=1).max(cpu=2).dict())
        self.watch.ready.set()

    def quotas(self) -> list[str]:
        """The namespaces of the quotas that the tenant sees."""
        with self.app.test_client() as client:
            answer = client.get("/now?format=json", headers=TENANT)
        assert answer.status_code == 200, answer.text
        return [item["namespace"] for item in answer.json["quotas"]]


def test_an_answer_that_waited_for_the_cluster_has_the_rights_in_it() -> None:
    starting = Starting()
    later = threading.Timer(0.2, starting.read)
    later.start()
    assert starting.quotas() == ["mine"]
    later.join()


def test_a_cluster_that_is_read_while_rights_are_asked_for_has_its_namespaces_asked_for() -> None:
    starting = Starting()

    def read_once(plural: str) -> None:
        # The last question that needs no namespaces.
        if plural == "nodes" and not starting.watch.ready.is_set():
            starting.read()

    starting.reviews.asked = read_once
    assert starting.quotas() == ["mine"]


def test_without_the_cluster_the_answer_says_when_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "FIRST_SECONDS", 0.0)
    with Starting().app.test_client() as client:
        for form in ("", "?format=json"):
            answer = client.get(f"/now{form}", headers=TENANT)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json["message"] == "the cluster is being read"
        assert client.get("/now").status_code == 401


def test_a_namespace_that_comes_later_is_asked_for_when_the_rights_are_read_again() -> None:
    starting = Starting()
    starting.read()
    assert starting.quotas() == ["mine"]
    starting.watch.put(make_quota("later/quota").min(cpu=1).max(cpu=2).dict())
    starting.now += HOLDS_SECONDS + 1
    assert starting.quotas() == ["later", "mine"]
