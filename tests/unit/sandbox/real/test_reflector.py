"""Repeated, late and obsolete events of a real API server."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox.kinds.builtin import CONFIG_MAPS
from sandbox.objects import copy_json
from sandbox.real.reflector import MirrorStore


def config_map(name: str, version: int, uid: str = "u") -> dict[str, Any]:
    meta = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, "data": {"v": str(version)}}


def heard(mirror: MirrorStore) -> list[tuple[str, str, str]]:
    """(event, uid, version) of what the mirror tells from now on."""
    said: list[tuple[str, str, str]] = []

    def listen(event: str, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        said.append((event, obj["metadata"]["uid"], obj["data"]["v"]))

    mirror.subscribe(CONFIG_MAPS, listen)
    return said


def test_items_of_lists_say_what_they_are() -> None:
    mirror = MirrorStore()
    mirror.learn(CONFIG_MAPS, config_map("a", 1))
    found = mirror.get(CONFIG_MAPS, "ns", "a")
    assert found is not None
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")


def test_older_news_changes_nothing() -> None:
    mirror = MirrorStore()
    said = heard(mirror)
    for version in (5, 3, 5, 7):
        mirror.learn(CONFIG_MAPS, config_map("a", version))
    assert said == [("ADDED", "u", "5"), ("MODIFIED", "u", "7")]


def test_a_deleted_object_stays_deleted() -> None:
    mirror = MirrorStore()
    said = heard(mirror)
    mirror.learn(CONFIG_MAPS, config_map("a", 1))
    mirror.forget(CONFIG_MAPS, config_map("a", 9))
    mirror.learn(CONFIG_MAPS, config_map("a", 4))
    mirror.forget(CONFIG_MAPS, config_map("a", 9))
    assert mirror.list(CONFIG_MAPS) == []
    assert [event for event, _, _ in said] == ["ADDED", "DELETED"]


def test_an_object_that_was_made_anew_is_another_one() -> None:
    mirror = MirrorStore()
    mirror.learn(CONFIG_MAPS, config_map("a", 1, "first"))
    said = heard(mirror)
    mirror.learn(CONFIG_MAPS, config_map("a", 5, "second"))
    mirror.forget(CONFIG_MAPS, config_map("a", 3, "first"))
    assert said == [("DELETED", "first", "1"), ("ADDED", "second", "5")]
    assert mirror.count(CONFIG_MAPS, "ns") == 1


def test_a_new_list_takes_away_what_it_lacks() -> None:
    mirror = MirrorStore()
    for name in ("a", "b"):
        mirror.learn(CONFIG_MAPS, config_map(name, 1, name))
    said = heard(mirror)
    mirror.replace(CONFIG_MAPS, [config_map("b", 2, "b"), config_map("c", 3, "c")])
    assert said == [("DELETED", "a", "1"), ("MODIFIED", "b", "2"), ("ADDED", "c", "3")]


NEWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 20), st.booleans()), max_size=30)


@given(NEWS)
def test_listeners_and_mirror_agree(news: list[tuple[str, int, bool]]) -> None:
    mirror = MirrorStore()
    known: dict[str, str] = {}

    def follow(event: str, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        name = obj["metadata"]["name"]
        assert (event == "ADDED") == (name not in known)
        if event == "DELETED":
            del known[name]
        else:
            known[name] = obj["data"]["v"]

    mirror.subscribe(CONFIG_MAPS, follow)
    for name, version, gone in news:
        obj = config_map(name, version, f"{name}{version // 7}")
        (mirror.forget if gone else mirror.learn)(CONFIG_MAPS, copy_json(obj))
    assert known == {obj["metadata"]["name"]: obj["data"]["v"] for obj in mirror.list(CONFIG_MAPS)}
