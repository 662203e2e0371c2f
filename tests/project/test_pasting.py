"""Pasting into a terminal, and the comparison of its output with a document's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pasting import Terminal, difference, first_missing

TABLE = "NAME      USED   AGE\nnginx     1      4s"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        pytest.param(TABLE, "NAME   USED  AGE\nnginx  1     61m", id="columns and ages differ"),
        pytest.param(
            "0s  Warning  Pod/a", "3s (x2 over 5s)   Warning   Pod/a", id="an event that came again"
        ),
        pytest.param("pod/nginx-588n8wnwf-jbcgt", "pod/nginx-mss9nllc9-4n2dc", id="generated names"),
        pytest.param(
            "pod/a-0-6wqp9: at node-0", "pod/a-0-zjqr5: at node-0", id="a generated end in a sentence"
        ),
        pytest.param("at 2026-01-01T00:05:00Z", "at 2027-11-24T22:21:28Z", id="times"),
        pytest.param("10.244.0.1 node-0", "10.244.0.17 node-0", id="addresses"),
        pytest.param("exceeds max=6. ...", "exceeds max=6. preemption: none", id="the end of a line"),
        pytest.param('pod "a" deleted', 'pod "a" deleted from default namespace', id="a newer kubectl"),
        pytest.param("a\n...\nb", "a\nb", id="no line is left out"),
        pytest.param("a\n...\nb", "a\n1\n2\nb", id="two lines are left out"),
    ],
)
def test_what_differs_from_run_to_run_is_the_same(shown: str, printed: str) -> None:
    assert difference(shown, printed) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        pytest.param(TABLE, TABLE.replace("1", "2"), id="a number"),
        pytest.param(TABLE, TABLE.replace("4s", "-"), id="no age"),
        pytest.param(TABLE, f"{TABLE}\nweb  0  4s", id="a line more"),
        pytest.param(f"{TABLE}\nweb  0  4s", TABLE, id="a line less"),
        pytest.param("pod/train-2", "pod/train-3", id="a name that is not generated"),
        pytest.param('pod "a" deleted', 'pod "b" deleted from default namespace', id="another pod"),
        pytest.param("used cpu=1. ...", "used cpu=2. preemption: none", id="text before what is left out"),
        pytest.param("a\n...\nb", "a\n1\nc", id="a line after those that are left out"),
    ],
)
def test_a_difference_is_shown(shown: str, printed: str) -> None:
    assert printed in difference(shown, printed)


def test_the_end_of_an_output_is_enough_where_it_is_said_to_be_one() -> None:
    assert difference(TABLE, f"created\n{TABLE}", only_end=True) == ""
    assert difference(TABLE, f"{TABLE}\ncreated", only_end=True)
    assert difference(TABLE, f"created\n{TABLE}")


def test_an_excerpt_has_lines_of_the_output_in_their_order() -> None:
    assert first_missing("a\nb  3s", "a\nc\nb 4s\nd") == ""
    assert first_missing("b\na", "a\nb") == "a"
    assert first_missing("a\nx", "a\nb") == "x"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(tmp_path, os.environ) as opened:
        yield opened


def test_a_paste_goes_on_after_a_failure_and_tells_of_it(terminal: Terminal) -> None:
    (pasted,) = terminal.paste("echo before\nls missing\ncat <<EOF\nbehind\nEOF")
    assert pasted.output.startswith("before\n")
    assert pasted.output.endswith("\nbehind")
    assert pasted.failed == ("ls missing",)


def test_pastes_have_outputs_of_their_own_and_one_shell(terminal: Terminal) -> None:
    first, second = terminal.paste("name=value; printf %s unended", "echo $name")
    assert (first.output, second.output) == ("unended", "value")
    assert first.failed == second.failed == ()


def test_a_command_that_goes_on_is_watched_and_then_stopped(terminal: Terminal) -> None:
    assert "up" in terminal.paste_and_watch("echo up; exec sleep 600", "up")


def test_a_shell_that_ends_in_the_middle_is_a_failure(terminal: Terminal) -> None:
    with pytest.raises(AssertionError, match="did not come to its end"):
        terminal.paste("exit 3")
