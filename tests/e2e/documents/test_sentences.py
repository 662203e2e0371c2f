"""Commands in sentences: the program, its subcommand and its flags exist, as `--help` after them shows."""

from __future__ import annotations

import re
import shlex
import subprocess

import click
import pytest
from click.testing import CliRunner

from kubectl_plugin.elasticquota import elasticquota
from kubectl_plugin.podgroup import podgroup
from sandbox.cli import main as sandbox
from scheduler_core.app.__main__ import main as scheduler
from tests.support.documents import ROOT, in_sentences
from tests.support.pasted_pages import PASTED
from tests.tools.build import have
from webhook.__main__ import cli as webhook

pytestmark = pytest.mark.e2e
COMMANDS = sorted({command for page in PASTED for command in in_sentences(page)})
OURS: dict[str, click.Command] = {
    "kubectl elasticquota": elasticquota,
    "kubectl podgroup": podgroup,
    "muster-sandbox": sandbox,
    "muster-scheduler": scheduler,
    "muster-webhook": webhook,
}


def help_of(command: str) -> tuple[int, str]:
    """Exit code and output of a command line with `--help` at its end."""
    for name, program in OURS.items():
        if command == name or command.startswith(f"{name} "):
            result = CliRunner().invoke(program, [*shlex.split(command.removeprefix(name)), "--help"])
            return result.exit_code, result.output
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [str(have(program).path), *arguments, "--help"], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", [each for each in COMMANDS if not each.startswith("make ")])
def test_a_command_in_a_sentence_is_understood(command: str) -> None:
    code, said = help_of(command)
    assert code == 0, said
    assert "Usage:" in said


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("make ")])
def test_a_target_in_a_sentence_exists(command: str) -> None:
    _, target, *_ = shlex.split(command)
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize(
    "command",
    [
        "kubectl elasticquota borrow",
        "kubectl podgroup rank --colour",
        "muster-sandbox rest",
        "muster-scheduler config repair",
        "kubectl appply",
        "helm rollbak",
    ],
)
def test_a_command_that_does_not_exist_would_be_noticed(command: str) -> None:
    assert help_of(command)[0] != 0
