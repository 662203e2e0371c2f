"""`get -o go-template`: what kubectl is asked for, and what becomes of its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubectl_plugin.podgroup import podgroup
from tests.unit.kubectl_plugin.plugin_api import Api, Command

TEMPLATE = "{{range .items}}{{.metadata.name}}{{end}}"


def put_kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubectl that prints its arguments, one a line."""
    put_kubectl(tmp_path, monkeypatch, 'printf "%s\\n" "$@"')


@pytest.mark.usefixtures("asked")
def test_kubectl_gets_the_same_flags(eq: Command) -> None:
    flags = ["-n", "team-a", "-l", "a=b", "--sort-by=.metadata.name", "--as=bob", "--as-group=dev", "-v=3"]
    done = eq("get", "-o", f"go-template={TEMPLATE}", *flags)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "get",
        "--namespace=team-a",
        "--as=bob",
        "--as-group=dev",
        "--v=3",
        "--selector=a=b",
        "--sort-by=.metadata.name",
        "--chunk-size=500",
        f"--output=go-template={TEMPLATE}",
        "--",
        "elasticquotas.scheduling.x-k8s.io",
    ]


@pytest.mark.usefixtures("asked")
def test_names_and_all_namespaces(eq: Command) -> None:
    named = eq("get", "quota", "-o", "go-template-file=/a/file").out.splitlines()
    assert named[-4:] == [
        "--output=go-template-file=/a/file",
        "--",
        "elasticquotas.scheduling.x-k8s.io",
        "quota",
    ]
    assert "-A" in eq("get", "-A", "-o", "go-template=x").out.splitlines()


def group(version: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "metadata": {"namespace": "team-a", "name": name}}


@pytest.mark.usefixtures("asked")
def test_groups_are_asked_for_by_the_kinds_in_which_they_exist(api: Api, eq: Command) -> None:
    labels = {"sakkara.group": ""}
    config_map = {"metadata": {"namespace": "team-a", "name": "cm", "labels": labels}}
    api.objects["configmaps"] = [config_map | {"data": {"name": "ring", "size": "2"}}]
    api.objects["podgroups"] = [
        group("incubator.scheduling.k8s.io/v1alpha1", "one"),
        group("scheduling.k8s.io/v1beta1", "one"),
    ]
    done = eq("get", "-o", "go-template=x", plugin=podgroup)
    assert done.out.splitlines()[-1] == "podgroups.incubator.scheduling.k8s.io,podgroups.scheduling.k8s.io"
    assert done.err == "note: Go templates leave out group ConfigMaps that are not named: 1\n"
    done = eq("get", "one", "ring", "-o", "go-template=x", plugin=podgroup)
    assert done.out.splitlines()[-3:] == [
        "podgroups.incubator.scheduling.k8s.io/one",
        "podgroups.scheduling.k8s.io/one",
        "configmaps/cm",
    ]


def test_an_error_of_kubectl_is_passed_on(
    eq: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_kubectl(tmp_path, monkeypatch, "echo error: no template >&2; exit 3")
    done = eq("get", "-o", "go-template={{")
    assert (done.code, done.out, done.err) == (1, "", "error: no template\n")


def test_without_kubectl_the_message_names_what_does_without(
    eq: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = eq("get", "-o", "go-template=x")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "-o go-template needs kubectl, which is not on PATH; -o jsonpath" in done.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-o", "go-template"], "go-template needs a template: -o go-template=..."),
        (["-o", "go-template=x", "-w"], "-o go-template cannot be used with --watch."),
        (["-L", "a,,b"], "the key of a label may not be empty"),
    ],
)
def test_wrong_usage_is_one_line(eq: Command, flags: list[str], said: str) -> None:
    done = eq("get", *flags)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
