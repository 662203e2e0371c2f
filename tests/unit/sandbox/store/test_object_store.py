from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import StatusError
from sandbox.kinds.builtin import CONFIG_MAPS, PODS
from sandbox.store.object_store import ObjectStore


def config(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}, **fields}


def test_versions_grow_over_all_kinds() -> None:
    store = ObjectStore()
    first = store.create(CONFIG_MAPS, config("x"))
    second = store.create(PODS, {"metadata": {"namespace": "a", "name": "p"}})
    third = store.update(CONFIG_MAPS, config("x", data={"k": "v"}))
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second, third)]
    assert versions == sorted(set(versions))
    assert store.revision == versions[-1]


def test_a_stored_object_is_never_changed() -> None:
    store = ObjectStore()
    old = store.create(CONFIG_MAPS, config("x"))
    version = old["metadata"]["resourceVersion"]
    store.update(CONFIG_MAPS, {**old, "data": {"k": "v"}})
    store.remove(CONFIG_MAPS, "a", "x")
    assert old["metadata"]["resourceVersion"] == version
    assert "data" not in old


def test_bytes_are_encoded_once_per_served_version() -> None:
    store = ObjectStore()
    store.create(CONFIG_MAPS, config("x"))
    version = store.version(CONFIG_MAPS, "a", "x")
    assert version is not None
    calls: list[str] = []

    def convert(obj: dict[str, Any]) -> dict[str, Any]:
        calls.append("called")
        return obj

    assert version.encoded("v1", convert) is version.encoded("v1", convert)
    version.encoded("v2", convert)
    assert len(calls) == 2


REFUSALS = [
    ("a name that is taken", lambda s: s.create(CONFIG_MAPS, config("x")), "AlreadyExists"),
    ("an update of nothing", lambda s: s.update(CONFIG_MAPS, config("y")), "NotFound"),
    ("a removal of nothing", lambda s: s.remove(CONFIG_MAPS, "a", "y"), "NotFound"),
]


@pytest.mark.parametrize(("sentence", "act", "reason"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_refuses(sentence: str, act: Any, reason: str) -> None:
    store = ObjectStore()
    store.create(CONFIG_MAPS, config("x"))
    with pytest.raises(StatusError) as refused:
        act(store)
    assert refused.value.reason == reason


def test_compaction_makes_old_versions_expire() -> None:
    store = ObjectStore()
    store.create(CONFIG_MAPS, config("x"))
    before = store.revision
    store.create(CONFIG_MAPS, config("y"))
    assert [entry.new.name for entry in store.since(CONFIG_MAPS, before)] == ["y"]
    store.compact()
    assert store.since(CONFIG_MAPS, store.revision) == []
    with pytest.raises(StatusError, match=r"too old resource version: \d+ \(\d+\)") as gone:
        store.since(CONFIG_MAPS, before)
    assert gone.value.code == 410


def test_the_log_keeps_a_bounded_tail() -> None:
    store = ObjectStore(log_length=8)
    for number in range(100):
        store.create(CONFIG_MAPS, config(f"c{number}"))
    assert 8 <= len(store.since(CONFIG_MAPS, store.revision - 8)) <= 10
    with pytest.raises(StatusError, match="too old"):
        store.since(CONFIG_MAPS, 1)


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "remove"]), st.integers(0, 3)))


@given(STEPS)
def test_replaying_the_events_gives_the_objects(steps: list[tuple[str, str, int]]) -> None:
    store = ObjectStore()
    copy: dict[str, Any] = {}
    seen: list[str] = []

    def follow(event: str, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        name = obj["metadata"]["name"]
        assert (old is None) == (event == "ADDED")
        seen.append(obj["metadata"]["resourceVersion"])
        if event == "DELETED":
            del copy[name]
        else:
            copy[name] = obj

    store.subscribe(CONFIG_MAPS, follow)
    for name, what, value in steps:
        exists = store.get(CONFIG_MAPS, "a", name) is not None
        if what == "remove" and exists:
            store.remove(CONFIG_MAPS, "a", name)
        elif what == "put":
            (store.update if exists else store.create)(CONFIG_MAPS, config(name, data={"v": str(value)}))
    assert [copy[name] for name in sorted(copy)] == store.list(CONFIG_MAPS)
    assert [entry.rv for entry in store.since(CONFIG_MAPS, 0)] == [int(version) for version in seen]
    assert store.count(CONFIG_MAPS) == store.count(CONFIG_MAPS, "a") == len(copy)
