"""Spellings that kubectl's flag parser takes."""

import click
import pytest

from kubectl_plugin.cli.arguments import SWITCHES, normalise
from kubectl_plugin.elasticquota import elasticquota


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["get", "-n=team-a"], ["get", "-nteam-a"]),
        (["get", "-o=jsonpath={.a}"], ["get", "-ojsonpath={.a}"]),
        (["get", "--watch=true"], ["get", "--watch"]),
        (["get", "--no-headers=false", "x"], ["get", "x"]),
        (["get", "-A=true"], ["get", "--all-namespaces"]),
        (["get", "-w=0"], ["get"]),
        (["get", "--namespace=true"], ["get", "--namespace=true"]),
        (["get", "--watch=maybe"], ["get", "--watch=maybe"]),
        (["get", "--", "-n=x"], ["get", "--", "-n=x"]),
    ],
)
def test_kubectl_spellings_become_clicks(given: list[str], expected: list[str]) -> None:
    assert normalise(given) == expected


def test_every_switch_of_get_may_be_given_a_value() -> None:
    command = elasticquota.get_command(click.Context(elasticquota), "get")
    assert command is not None
    flags = {name for option in command.params if getattr(option, "is_flag", False) for name in option.opts}
    assert {name for name in flags if name.startswith("--")} == set(SWITCHES)
