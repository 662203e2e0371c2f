"""Completion as kubectl asks for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kubectl_plugin.elasticquota import ANSWERS, COMMANDS
from kubectl_plugin.podgroup import podgroup
from tests.unit.kubectl_plugin.plugin_api import Api, Command, quota_object


def words(out: str) -> list[str]:
    return out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([""], [*COMMANDS, *ANSWERS, "completion", "version", ":4"]),
        (["g"], ["get", ":4"]),
        (["nope", ""], [*COMMANDS, *ANSWERS, "completion", "version", ":4"]),
        (["get", "--sho"], ["--show-labels", "--show-managed-fields", ":4"]),
        (
            ["get", "-o", ""],
            [
                *("table", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns="),
                *("go-template=", "go-template-file=", ":4"),
            ],
        ),
        (["get", "--label"], ["--label-columns", ":4"]),
        (["lending", "--s"], ["--server", "--sort-by", ":4"]),
        (["tree", "-o", ""], ["table", "json", "yaml", ":4"]),
        (["get", "--output=j"], ["--output=json", "--output=jsonpath=", ":4"]),
        (["get", "--color", "a"], ["auto", "always", ":4"]),
        (["simulate", "-o", ""], ["text", "json", "yaml", "junit", ":4"]),
        (["simulate", "--scenario", "x"], [":0"]),
        (["simulate", "--scenario", "x", ""], [":0"]),
        (["--kubeconfig", ""], [":0"]),
        (["what-if", "--config", ""], [":0"]),
        (["completion", ""], ["script", "install", ":4"]),
        (["version", ""], [":4"]),
        (["get", "--context", ""], ["test", ":4"]),
        (["get", "--user", ""], ["u", ":4"]),
    ],
)
def test_words_that_fit(eq: Command, line: list[str], expected: list[str]) -> None:
    done = eq("__complete", *line)
    assert (done.code, done.err) == (0, "")
    assert sorted(words(done.out)) == sorted(expected)


def test_names_come_from_the_namespace_that_is_meant(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"] = [quota_object("team-a", "one"), quota_object("team-b", "two")]
    assert words(eq("__complete", "get", "").out) == ["one", ":4"]
    assert words(eq("__complete", "get", "-n", "team-b", "").out) == ["two", ":4"]
    assert words(eq("__complete", "get", "-n=team-b", "two", "").out) == [":4"], "it has been named already"
    assert words(eq("__complete", "get", "-A", "").out) == [":4"]


@pytest.mark.parametrize("command", ["get", "status", "describe", "rank", "topology", "adopt", "eta"])
def test_every_command_that_takes_a_group_offers_those_of_every_dialect(
    api: Api, eq: Command, command: str
) -> None:
    meta = {"namespace": "team-a"}
    api.objects["podgroups"] = [
        {"apiVersion": version, "metadata": meta | {"name": name}}
        for version, name in (
            ("incubator.scheduling.k8s.io/v1alpha1", "one"),
            ("scheduling.x-k8s.io/v1alpha1", "two"),
            ("scheduling.k8s.io/v1beta1", "three"),
        )
    ]
    api.objects["configmaps"] = [
        {
            "metadata": meta | {"name": "cm", "labels": {"sakkara.group": ""}},
            "data": {"name": "four", "size": "2"},
        }
    ]
    assert words(eq("__complete", command, "", plugin=podgroup).out) == ["four", "one", "three", "two", ":4"]
    again = ["four", "three", "two", ":4"] if command in ("get", "describe") else [":4"]
    assert words(eq("__complete", command, "one", "", plugin=podgroup).out) == again


def test_namespaces_and_nodes_come_from_the_cluster(api: Api, eq: Command) -> None:
    api.objects["namespaces"] = [{"metadata": {"name": "team-a"}}, {"metadata": {"name": "other"}}]
    assert words(eq("__complete", "get", "-n", "t").out) == ["team-a", ":4"]
    api.objects["nodes"] = [{"metadata": {"name": "node-1"}}, {"metadata": {"name": "other"}}]
    for flag in ("--drain", "--like"):
        assert words(eq("__complete", "what-if", flag, "n").out) == ["node-1", ":4"]


def test_at_most_a_hundred_are_offered(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"] = [quota_object("team-a", f"q{i}") for i in range(150)]
    assert len(words(eq("__complete", "get", "").out)) == 101


def test_a_server_that_is_away_offers_nothing_and_says_nothing(eq: Command) -> None:
    done = eq("__complete", "get", "-s", "http://127.0.0.1:1", "")
    assert (done.code, done.out, done.err) == (0, ":4\n", "")


def test_install_writes_programs_that_ask_the_plugin(eq: Command, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    done = eq("completion", "install", "--dir", str(folder))
    assert done.code == 0
    assert done.err == f"note: {folder} is not on PATH\n"
    (folder / "kubectl-podgroup").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    (folder / "kubectl-podgroup").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    asked = subprocess.run(
        [str(folder / "kubectl_complete-podgroup"), "get", "-n", ""],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert asked.stdout == "<__complete><get><-n><>"


def test_install_into_a_folder_that_is_not_there_fails_in_one_line(eq: Command, tmp_path: Path) -> None:
    done = eq("completion", "install", "--dir", str(tmp_path / "no"))
    assert (done.code, done.err) == (1, f"error: {tmp_path / 'no'} is not a directory\n")


def test_script_prints_the_program(eq: Command) -> None:
    text = '#!/bin/sh\nexec kubectl-podgroup __complete "$@"\n'
    assert eq("completion", "script", "podgroup", plugin=podgroup).out == text
