"""What a crash leaves: every answered write, nothing half done, and no version twice."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.kinds.builtin import CONFIG_MAPS
from sandbox.persistence.journal import Journal, JournalFailed
from sandbox.persistence.kept_objects import (
    REVISION_GAP,
    Generation,
    raise_revision,
    read_kept,
    write_generation,
)
from sandbox.persistence.records import FileDamaged, header
from sandbox.store.object_store import ObjectStore

State = dict[str, tuple[str, str]]
NAMES = ("a", "b", "c")
WRITES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["write", "delete"])), max_size=12)


def config_map(name: str, text: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "n"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"text": text}}


def state_of(store: ObjectStore) -> State:
    """Text and resourceVersion of each object by its name."""
    return {
        obj["metadata"]["name"]: (obj["data"]["text"], obj["metadata"]["resourceVersion"])
        for obj in store.iterate(CONFIG_MAPS)
    }


def write(store: ObjectStore, name: str, what: str, text: str) -> None:
    exists = store.get(CONFIG_MAPS, "n", name) is not None
    if what == "delete":
        if exists:
            store.remove(CONFIG_MAPS, "n", name)
    elif exists:
        store.update(CONFIG_MAPS, config_map(name, text))
    else:
        store.create(CONFIG_MAPS, config_map(name, text))


def restarted(folder: Path) -> tuple[Generation, ObjectStore]:
    generation, kept = read_kept(folder)
    raise_revision(generation, kept)
    store = ObjectStore()
    store.restore(kept.in_order(), kept.revision)
    return generation, store


async def life(
    folder: Path, writes: list[tuple[str, str]], *, limit: int = 1 << 30, label: str = ""
) -> list[tuple[State, int, int]]:
    """Start from the folder and write; after each answer the state, and the sizes of generation and file."""
    generation, store = restarted(folder)
    journal = Journal(generation, store, limit=limit)
    journal.start()
    history = [(state_of(store), generation.number, generation.writes.stat().st_size)]
    for number, (name, what) in enumerate(writes):
        write(store, name, what, f"{label}{number}")
        await journal.settled()
        current = read_number(folder)
        size = Generation(folder, current).writes.stat().st_size
        history.append((state_of(store), current, size))
    await journal.stop()
    return history


def read_number(folder: Path) -> int:
    return max(int(path.suffix[1:]) for path in folder.glob("objects.*"))


def begin(folder: Path) -> None:
    write_generation(Generation(folder, 0), (), 1)


@settings(max_examples=60)
@given(writes=WRITES, cut=st.floats(0, 1), garbage=st.binary(max_size=8))
def test_after_a_crash_at_any_byte_all_answered_writes_are_there(
    writes: list[tuple[str, str]], cut: float, garbage: bytes
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin(folder)
        history = asyncio.run(life(folder, writes))
        file = Generation(folder, 0).writes
        whole = file.read_bytes()
        first = history[0][2]
        end = first + round(cut * (len(whole) - first))
        file.write_bytes(whole[:end] + garbage.replace(b"\n", b""))
        answered = [state for state, _, size in history if size <= end]
        _, store = restarted(folder)
        assert state_of(store) == answered[-1]


@settings(max_examples=25)
@given(lives=st.lists(WRITES, min_size=2, max_size=4), limit=st.sampled_from([0, 300, 1 << 30]))
def test_versions_grow_over_restarts_and_new_generations(
    lives: list[list[tuple[str, str]]], limit: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin(folder)
        seen: dict[str, str] = {}
        last: State = {}
        for number, writes in enumerate(lives):
            history = asyncio.run(life(folder, writes, limit=limit, label=f"{number}."))
            assert history[0][0] == last
            last = history[-1][0]
            for text, version in (value for state, _, _ in history for value in state.values()):
                assert seen.setdefault(version, text) == text
        assert len(list(folder.glob("objects.*"))) == len(list(folder.glob("writes.*"))) == 1


def test_versions_of_lost_writes_are_not_given_again(tmp_path: Path) -> None:
    def crash() -> int:
        _, store = restarted(tmp_path)
        write(store, "a", "write", "seen by a watch, and lost")
        return store.revision

    begin(tmp_path)
    lost = [crash() for _ in range(3)]
    _, store = restarted(tmp_path)
    assert store.revision > lost[2] > lost[1] > lost[0]
    assert lost[1] - lost[0] == REVISION_GAP


@pytest.mark.smoke
def test_a_watch_from_before_the_restart_has_to_list_again(tmp_path: Path) -> None:
    begin(tmp_path)
    asyncio.run(life(tmp_path, [("a", "write"), ("a", "delete")]))
    _, store = restarted(tmp_path)
    with pytest.raises(Exception, match="too old resource version"):
        store.since(CONFIG_MAPS, 2)
    assert store.since(CONFIG_MAPS, store.revision) == []


DAMAGE = [
    ("objects that are cut off", "objects.0", lambda raw: raw[:-1], "line 2 is damaged"),
    ("empty objects", "objects.0", lambda raw: b"", "is empty"),
    (
        "a changed byte before other writes",
        "writes.0",
        lambda raw: raw.replace(b'"a"', b'"x"', 1),
        "is damaged",
    ),
    (
        "another file",
        "writes.0",
        lambda raw: header().replace(b"muster", b"mister") + raw,
        "line 1 is damaged",
    ),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("sentence", "name", "change", "problem"), DAMAGE, ids=[row[0] for row in DAMAGE])
def test_a_damaged_file_is_named(sentence: str, name: str, change: Any, problem: str, tmp_path: Path) -> None:
    begin(tmp_path)
    asyncio.run(life(tmp_path, [("a", "write"), ("b", "write")]))
    file = tmp_path / name
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(FileDamaged) as found:
        read_kept(tmp_path)
    assert str(found.value).startswith(f"{file}: "), sentence
    assert problem in str(found.value)


def test_a_full_disk_fails_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> str:
        generation, store = restarted(tmp_path)
        journal = Journal(generation, store)
        journal.start()
        monkeypatch.setattr("os.fdatasync", full)
        write(store, "a", "write", "x")
        with pytest.raises(JournalFailed):
            await journal.settled()
        with pytest.raises(JournalFailed) as ended:
            await journal.ended()
        await journal.stop()
        return str(ended.value)

    begin(tmp_path)
    assert asyncio.run(scenario()) == f"{tmp_path}: cannot keep the objects: No space left on device"
