"""Which chapters are played, and that the command line says what is wrong in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sandbox.cli import main
from sandbox.demo.play import CHAPTERS, ROOT, chosen
from scheduler_core.errors import ConfigError


@pytest.mark.parametrize(
    ("asked", "played"),
    [((), [1, 2, 3, 4, 5, 6]), ((5,), [5]), ((6, 2, 6), [2, 6])],
    ids=["all without a choice", "one", "in their order, once each"],
)
def test_chapters_are_chosen(asked: tuple[int, ...], played: list[int]) -> None:
    assert chosen(asked) == played


def test_a_chapter_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no chapter 9, only 1 to 6"):
        chosen([9])
    result = CliRunner().invoke(main, ["demo", "--chapter", "9"])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)


def test_every_chapter_is_listed() -> None:
    result = CliRunner().invoke(main, ["demo", "--list"])
    assert result.exit_code == 0
    assert [line[:1] for line in result.output.splitlines()] == [str(number) for number in CHAPTERS]


def test_a_chapter_builds_only_on_earlier_ones_of_its_own_story() -> None:
    for number, chapter in CHAPTERS.items():
        for earlier in chapter.after:
            assert earlier < number
            assert CHAPTERS[earlier].namespaces == chapter.namespaces


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_says_what_it_is_for_and_leaves_the_scheduler_to_the_webhook(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ")
    assert "schedulerName" not in text
    for item in yaml.safe_load_all(text):
        assert {"apiVersion", "kind", "metadata"} <= item.keys()
