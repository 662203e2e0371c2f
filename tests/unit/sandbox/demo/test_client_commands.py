"""Without kubectl, the client does what the chapters ask, and leaves out what it does not understand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from sandbox.demo import client_commands as module
from sandbox.demo.api_objects import ApiObjects, RequestRefused
from sandbox.demo.client_commands import ClientCommands
from sandbox.demo.commands import CommandEnvironment, CommandTooSlow, NeedsKubectl, Outcome
from sandbox.objects import Obj

TWO = """
kind: Pod
metadata: {name: a}
---
kind: Pod
metadata: {name: b}
---
"""


class Objects:
    """Pods of one namespace; the pod `refused` is refused, and a deleted pod is gone at once."""

    def __init__(self) -> None:
        self.pods: dict[str, Obj] = {}
        self.merged: list[tuple[str, Obj]] = []

    def title(self, kind: str, name: str) -> str:
        return f"{kind}/{name}"

    def apply(self, document: Obj) -> tuple[str, bool]:
        name = document["metadata"]["name"]
        new = name not in self.pods
        self.pods[name] = {"metadata": {"name": name}}
        return f"pod/{name}", new

    def replace(self, document: Obj) -> str:
        raise RequestRefused("Forbidden", "denied the request")

    def delete(self, kind: str, name: str, namespace: str) -> None:
        del self.pods[name]

    def get(self, kind: str, name: str, namespace: str) -> Obj | None:
        return self.pods.get(name)

    def list(self, kind: str, namespace: str | None = None, **selectors: Any) -> list[Obj]:
        return list(self.pods.values())

    def merge(self, kind: str, name: str, patch: Obj) -> None:
        self.merged.append((name, patch))


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def commands(tmp_path: Path, objects: Objects) -> ClientCommands:
    (tmp_path / "two.yaml").write_text(TWO)
    plugin = tmp_path / "kubectl-podgroup"
    plugin.write_text('#!/bin/sh\necho "asked: $*"\nexit 3\n')
    plugin.chmod(0o755)
    environment = CommandEnvironment(tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    return ClientCommands(environment, cast(ApiObjects, objects))


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("kubectl apply -f a.yaml -f b.yaml", "client: apply a.yaml b.yaml"),
        ("kubectl apply --server-side -f a.yaml | tail -1", "client: apply a.yaml"),
        ("kubectl get pods -n a -o custom-columns='A:.b'", "client: get pods -n a -o custom-columns='A:.b'"),
        ("kubectl elasticquota get -A -o wide", "$ kubectl-elasticquota get -A -o wide"),
    ],
    ids=["files", "the last line of them", "columns", "a plugin is a program that can be run"],
)
def test_the_line_says_what_is_done(commands: ClientCommands, command: str, line: str) -> None:
    assert commands.line(command) == line


@pytest.mark.parametrize(
    "command",
    [
        "kubectl describe pod a | sed -n 1p",
        "sed s/a/b/ two.yaml | kubectl apply -f -",
        "kubectl explain pods",
        "kubectl get pods -o yaml",
        "kubectl apply --prune -f two.yaml",
        "kubectl",
    ],
    ids=["a pipeline", "another program", "a verb", "a format", "a flag", "no verb"],
)
def test_what_needs_kubectl_is_refused_before_anything_is_done(
    commands: ClientCommands, objects: Objects, command: str
) -> None:
    for attempt in (commands.line, commands.run):
        with pytest.raises(NeedsKubectl) as caught:
            attempt(command)
        assert caught.value.command == command
    assert objects.pods == {}


def test_objects_are_applied_waited_for_and_deleted(commands: ClientCommands, objects: Objects) -> None:
    assert commands.run("kubectl apply -f two.yaml") == Outcome(0, "pod/a created\npod/b created\n")
    assert commands.run("kubectl apply -f two.yaml | tail -1") == Outcome(0, "pod/b configured\n")
    objects.pods["a"]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    ready = "kubectl wait -n x --for=condition=Ready pod"
    assert commands.run(f"{ready}/a --timeout=20s") == Outcome(0, "pod/a condition met\n")
    assert commands.run("kubectl delete pod a -n x") == Outcome(0, "pod/a deleted\n")
    assert commands.run("kubectl delete pod --all -n x") == Outcome(0, "pod/b deleted\n")
    assert objects.pods == {}


def test_what_does_not_become_ready_ends_the_wait(
    commands: ClientCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WITHIN_SECONDS", 0.1)
    commands.run("kubectl apply -f two.yaml")
    with pytest.raises(CommandTooSlow):
        commands.run("kubectl wait -n x --for=condition=Ready pod --all")


def test_a_refusal_reads_as_kubectl_prints_it(commands: ClientCommands) -> None:
    said = "Error from server (Forbidden): denied the request\n"
    assert commands.run("kubectl replace -f two.yaml") == Outcome(1, said)


def test_nodes_are_cordoned(commands: ClientCommands, objects: Objects) -> None:
    assert commands.run("kubectl cordon n1") == Outcome(0, "node/n1 cordoned\n")
    assert commands.run("kubectl uncordon n1") == Outcome(0, "node/n1 uncordoned\n")
    assert [patch["spec"]["unschedulable"] for _, patch in objects.merged] == [True, False]


def test_a_plugin_runs_as_a_program(commands: ClientCommands) -> None:
    assert commands.run("kubectl podgroup rank a") == Outcome(3, "asked: rank a\n")
