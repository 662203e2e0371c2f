"""The choice of chapters, and error messages of the command line."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from sandbox.cli import main
from sandbox.demo.chapters import CHAPTERS, Step, chosen, steps
from sandbox.demo.tour import CONFIG, ROOT
from scheduler_core.config import load_config
from scheduler_core.config.args.muster import BorrowingArgs, CapacitySchedulingArgs
from scheduler_core.config.load import muster_config
from scheduler_core.config.schema import PluginConfig
from scheduler_core.errors import ConfigError
from tests.support.every import every_case


@pytest.mark.parametrize(
    ("asked", "played"),
    [((), [*range(1, 15), 16, 17, 18]), ((5,), [5]), ((6, 2, 6), [2, 6])],
    ids=["all without a choice", "one", "in their order, once each"],
)
def test_chapters_are_chosen(asked: tuple[int, ...], played: list[int]) -> None:
    assert chosen(asked) == played


TEAMS = ("team-a", "team-b")


@pytest.mark.parametrize(
    ("numbers", "expected", "ending"),
    [
        pytest.param([1, 2], [Step(1), Step(2)], CHAPTERS[2].ending, id="one example goes on"),
        pytest.param([2], [Step(2, (1,))], CHAPTERS[2].ending, id="what a chapter needs"),
        pytest.param([1, 6], [Step(1), Step(6, (), TEAMS)], CHAPTERS[6].ending, id="two examples"),
        pytest.param([2, 8], [Step(2, (1,)), Step(8, (), TEAMS)], "", id="gangs need the room"),
        pytest.param([7, 8, 9], [Step(7), Step(8), Step(9)], CHAPTERS[7].ending, id="room for gangs"),
        pytest.param([8, 12], [Step(8), Step(12)], "", id="no quotas"),
    ],
)
def test_an_example_is_over_when_the_next_one_needs_its_room(
    numbers: list[int], expected: list[Step], ending: str
) -> None:
    assert steps(numbers) == (expected, ending)


def test_real_controllers_play_the_chapters_that_need_them() -> None:
    assert chosen((), real=True) == chosen([15], real=True) == [15]


@pytest.mark.parametrize(
    ("asked", "real", "problem"),
    [
        ([19], False, "chapter 19 does not exist; choose 1 to 18"),
        ([15], False, "chapter 15 needs real controllers: `make demo-controllers` plays it"),
        ([3], True, "chapter 3 is played without --controllers"),
    ],
    ids=["no such chapter", "no real controllers", "no use for real controllers"],
)
def test_a_chapter_that_cannot_be_played_is_refused(asked: list[int], real: bool, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        chosen(asked, real=real)
    folder = ["--controllers", "."] if real else []
    result = CliRunner().invoke(main, ["demo", "--chapter", str(asked[0]), *folder])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert problem in result.output


def test_programs_that_are_missing_are_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--controllers", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output == f"Error: {tmp_path}: lacks the programs etcd and kube-apiserver\n"


def test_every_chapter_is_listed() -> None:
    result = CliRunner().invoke(main, ["demo", "--list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == [str(number) for number in CHAPTERS]


def test_a_chapter_builds_only_on_earlier_ones_of_its_own_story() -> None:
    for number, chapter in CHAPTERS.items():
        for earlier in chapter.after:
            assert earlier < number
            assert CHAPTERS[earlier].namespaces == chapter.namespaces


EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
OBJECTS = [path for path in EXAMPLES if "\nmetadata:" in path.read_text()]
"""The others are configurations and scenarios."""


@every_case("path", EXAMPLES, lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_says_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith("# ")


@every_case("path", OBJECTS, lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_is_made_of_objects(path: Path) -> None:
    for item in yaml.safe_load_all(path.read_text()):
        assert {"apiVersion", "kind", "metadata"} <= item.keys()


def test_examples_name_a_scheduler_only_where_they_need_another_profile() -> None:
    profiles = {
        profile.scheduler_name for profile in load_config((ROOT / CONFIG).read_text(), CONFIG).profiles
    }
    named = {
        (path.parent.name, name)
        for path in OBJECTS
        # Those stand as they were published, whatever scheduler they name.
        if "seeds" not in path.parts
        for name in re.findall(r"schedulerName: (\S+)", path.read_text())
    }
    assert named == {("topology", "muster-topology"), ("load-aware", "muster-load-aware")}
    assert profiles == {"muster-scheduler", *(name for _, name in named)}


def test_the_scheduler_of_the_demo_treats_quotas_and_gangs_as_the_built_in_one_does() -> None:
    config = load_config((ROOT / CONFIG).read_text(), CONFIG)
    found, built_in = config.profiles[0], muster_config().profiles[0]
    # The demo shows borrowers who come to equal shares.
    plain = tuple(map(first_come_first_served, found.plugin_config))
    assert msgspec.structs.replace(found, plugin_config=plain) == built_in
    assert plain != found.plugin_config
    assert config.leader_election == muster_config().leader_election


def first_come_first_served(item: PluginConfig) -> PluginConfig:
    if not isinstance(item.args, CapacitySchedulingArgs):
        return item
    args = msgspec.structs.replace(item.args, borrowing=BorrowingArgs())
    return msgspec.structs.replace(item, args=args)


def test_a_chapter_without_quotas_leaves_no_quotas_and_no_ending() -> None:
    for chapter in CHAPTERS.values():
        assert bool(chapter.namespaces) == bool(chapter.ending)
