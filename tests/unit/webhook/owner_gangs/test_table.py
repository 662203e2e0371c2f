"""The table of owner kinds: what users may add, and the one line for what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from webhook.owner_gangs.table import MOST_MEMBERS, TableError, built_in, read_entries, with_file

THING = """
- group: example.com
  kind: Thing
  resource: things
  minimum: spec.size
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "table.yaml"
    path.write_text(text)
    return path


def test_added_kind_stands_beside_the_built_in_ones(tmp_path: Path) -> None:
    table = with_file(written(tmp_path, THING))
    (thing,) = table.by_kind["example.com", "Thing"]
    assert thing.count({"spec": {"size": 3}}) == 3
    assert table.by_kind["batch", "Job"] == built_in().by_kind["batch", "Job"]


def test_added_entry_replaces_those_of_its_kind(tmp_path: Path) -> None:
    text = "- {group: ray.io, kind: RayJob, resource: rayjobs, minimum: spec.mine}"
    (entry,) = with_file(written(tmp_path, text)).by_kind["ray.io", "RayJob"]
    assert entry.count({"spec": {"mine": 2}}) == 2


def test_entry_without_a_minimum_takes_its_kind_out(tmp_path: Path) -> None:
    table = with_file(written(tmp_path, "- {group: batch, kind: Job, resource: jobs}"))
    assert ("batch", "Job") not in table.by_kind


BROKEN = [
    ("no list", "a: b", "must be a list of at most 256 entries"),
    ("no YAML", "[", "is no YAML: while parsing"),
    (
        "no resource",
        "- {group: x, kind: Y, minimum: a}",
        "entry 1 (Y): Object missing required field",
    ),
    ("unknown field", THING + "  max: 3\n", "entry 1 (Thing): Object contains unknown field `max`"),
    ("path", THING.replace("spec.size", "spec."), "entry 1 (Thing): minimum='spec.': a field is expected"),
    ("resource", THING.replace("things", "Things"), "resource='Things': must be lower case letters"),
    ("group", THING.replace("example.com", "a/b"), "group='a/b': must be lower case letters"),
    ("kind", THING.replace("Thing", "a/b"), "kind='a/b': must be letters and digits"),
    (
        "condition",
        THING + "  when: [{path: a}]\n",
        "when='a': needs exactly one of in, notIn",
    ),
    ("two", THING + "  when: [{path: a, in: [b], absent: true}]\n", "when='a': needs exactly one of"),
    ("named", THING + "  named: metadata.name\n", "version='': must be given, as pods name the object"),
    ("members", THING + "  named: a\n  version: v1\n  each: b\n", "named='a': excludes members and each"),
    ("type", THING.replace("spec.size", "[]"), "entry 1 (Thing): minimum: Expected `str`, got `array`"),
    ("no kind", "- {group: x}", "entry 1: Object missing required field"),
    ("a text", "- x", "entry 1: Expected `object`, got `str`"),
]


@pytest.mark.parametrize(("name", "text", "words"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_broken_table_is_one_line_that_names_entry_field_value_and_rule(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(TableError) as refused:
        with_file(path)
    said = str(refused.value)
    assert words in said
    assert said.startswith(f"gang owners in {path}")
    assert "\n" not in said


def test_file_that_is_missing_or_huge_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="the file cannot be read: No such file"):
        with_file(tmp_path / "absent")
    with pytest.raises(TableError, match="262,144 are allowed"):
        with_file(written(tmp_path, "#" * 300_000))


# name, the condition, texts at `spec.a` (None: not there), whether it holds
CONDITIONS: list[tuple[str, str, list[str] | None, bool]] = [
    ("one of them", "in: [x, y]", ["y"], True),
    ("none of them", "in: [x, y]", ["z"], False),
    ("nothing there", "in: [x, y]", None, False),
    ("one of several", "in: [x]", ["z", "x"], True),
    ("not the unwanted", "notIn: [x]", ["y"], True),
    ("the unwanted", "notIn: [x]", ["x"], False),
    ("the unwanted beside others", "notIn: [x]", ["y", "x"], False),
    ("nothing to be unwanted", "notIn: [x]", None, True),
    ("absent, as wanted", "absent: true", None, True),
    ("present, and unwanted", "absent: true", ["x"], False),
    ("present, as wanted", "absent: false", ["x"], True),
    ("absent, and unwanted", "absent: false", None, False),
]


@pytest.mark.parametrize(
    ("condition", "texts", "holds"), [case[1:] for case in CONDITIONS], ids=[case[0] for case in CONDITIONS]
)
def test_when_an_owner_is_a_gang(condition: str, texts: list[str] | None, holds: bool) -> None:
    text = f"{THING}  when: [{{path: 'spec.a[].b', {condition}}}]\n"
    (entry,) = read_entries(text, "file")
    owner = {"spec": {"size": 3} | ({} if texts is None else {"a": [{"b": each} for each in texts]})}
    assert entry.count(owner) == (3 if holds else None)


@pytest.mark.parametrize(
    ("size", "count"), [(0, None), (1, 1), (MOST_MEMBERS, MOST_MEMBERS), (MOST_MEMBERS + 1, None)],
    ids=["none", "one", "as many as may be", "one more"],
)  # fmt: skip
def test_how_many_members_a_gang_may_have(size: int, count: int | None) -> None:
    (entry,) = read_entries(THING, "file")
    assert entry.count({"spec": {"size": size}}) == count
