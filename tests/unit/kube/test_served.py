"""Versions by discovery: which version of a kind is used, and how writes name it."""

from __future__ import annotations

import json

import pytest

from scheduler_core.kube.errors import Forbidden, NotFound
from scheduler_core.kube.served import ServedVersions
from scheduler_core.model.kinds import (
    COMPOSITE_POD_GROUPS,
    EVENTS,
    NATIVE_POD_GROUPS,
    POD_DISRUPTION_BUDGETS,
    WORKLOADS,
)
from scheduler_core.model.writes import Bind, Create, Patch

GROUP = "/apis/scheduling.k8s.io"


class Discovery:
    """A server with kinds by version."""

    def __init__(self, **kinds: tuple[str, ...]) -> None:
        self.kinds = {"v1": ("priorityclasses",), **kinds}
        self.listed_only: tuple[str, ...] = ()

    def __call__(self, path: str) -> bytes:
        if path == GROUP:
            return json.dumps(
                {"versions": [{"version": name} for name in (*self.kinds, *self.listed_only)]}
            ).encode()
        version = path.removeprefix(GROUP + "/")
        if version not in self.kinds:
            raise NotFound(404, "NotFound", "", {}, None, method="GET", path=path)
        return json.dumps({"resources": [{"name": name} for name in self.kinds[version]]}).encode()


BOTH = ("podgroups", "podgroups/status", "workloads")


@pytest.mark.parametrize(
    ("kinds", "version"),
    [
        ({"v1alpha2": BOTH}, "v1alpha2"),
        ({"v1beta1": BOTH}, "v1beta1"),
        ({"v1alpha3": BOTH, "v1beta1": BOTH}, "v1beta1"),
        ({"v1": ("priorityclasses", *BOTH), "v1beta1": BOTH}, "v1"),
        ({"v1beta1": ("workloads",), "v1alpha3": BOTH}, "v1alpha3"),
    ],
)
def test_the_best_version_with_the_kind_is_used(kinds: dict[str, tuple[str, ...]], version: str) -> None:
    served = ServedVersions()
    assert served.resolve(Discovery(**kinds), NATIVE_POD_GROUPS).version == version
    known = served.known(NATIVE_POD_GROUPS)
    assert known == served.resolve(Discovery(**kinds), NATIVE_POD_GROUPS)


def test_a_kind_that_no_version_has_is_not_found() -> None:
    served = ServedVersions()
    with pytest.raises(NotFound, match=r"compositepodgroups\.scheduling\.k8s\.io"):
        served.resolve(Discovery(v1beta1=BOTH), COMPOSITE_POD_GROUPS)
    assert served.known(COMPOSITE_POD_GROUPS) is None


def test_a_version_dropped_between_two_reads_is_passed_over() -> None:
    discovery = Discovery(v1alpha3=BOTH)
    discovery.listed_only = ("v1beta1",)
    assert ServedVersions().resolve(discovery, WORKLOADS).version == "v1alpha3"


def test_a_server_that_hides_discovery_is_asked_for_the_constant() -> None:
    def hidden(path: str) -> bytes:
        raise Forbidden(403, "Forbidden", "", {}, None, method="GET", path=path)

    assert ServedVersions().resolve(hidden, NATIVE_POD_GROUPS).version == NATIVE_POD_GROUPS.version


def test_a_version_that_is_known_stays_where_discovery_is_refused_later() -> None:
    def hidden(path: str) -> bytes:
        raise Forbidden(403, "Forbidden", "", {}, None, method="GET", path=path)

    served = ServedVersions()
    served.resolve(Discovery(v1alpha2=BOTH), NATIVE_POD_GROUPS)
    assert served.resolve(hidden, NATIVE_POD_GROUPS).version == "v1alpha2"


def test_a_version_that_goes_is_forgotten_with_its_references() -> None:
    served = ServedVersions()
    served.resolve(Discovery(v1alpha2=BOTH), NATIVE_POD_GROUPS)
    served.resolve(Discovery(v1beta1=BOTH), NATIVE_POD_GROUPS)
    event = Create(
        EVENTS, "a", {"regarding": {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}}
    )
    assert served.translated(event).body == event.body


def test_writes_name_the_version_of_the_server() -> None:
    served = ServedVersions()
    served.resolve(Discovery(v1alpha2=BOTH), NATIVE_POD_GROUPS)
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g"}
    there = {**group, "apiVersion": "scheduling.k8s.io/v1alpha2"}

    patch = served.translated(Patch(NATIVE_POD_GROUPS, "a", "g", {"status": {}}, subresource="status"))
    assert patch.resource.version == "v1alpha2"
    event = served.translated(Create(EVENTS, "a", {"kind": "Event", "regarding": group}))
    assert (event.resource, event.body["regarding"]) == (EVENTS, there)
    owned = {"metadata": {"name": "b", "ownerReferences": [group, {"apiVersion": "v1", "kind": "Pod"}]}}
    budget = served.translated(Create(POD_DISRUPTION_BUDGETS, "a", owned))
    assert budget.body["metadata"]["ownerReferences"] == [there, {"apiVersion": "v1", "kind": "Pod"}]
    assert owned["metadata"]["ownerReferences"][0] == group, "the write of the core stays as it is"
    bind = Bind("a", "p", "uid", "node")
    assert served.translated(bind) is bind
