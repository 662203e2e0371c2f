"""Policies in ConfigMaps: which one is read, and every way in which it cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.config import ConfigErrors, effective_plugins, load_config, plugin_args
from scheduler_core.config.convert import convert_document
from scheduler_core.config.old.policy_source import POLICY_KEY, PolicyReaders
from scheduler_core.errors import MusterError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n"
MOST = json.dumps({"kind": "Policy", "priorities": [{"name": "MostRequestedPriority", "weight": 6}]})


class Cluster:
    """ConfigMaps by namespace and name; notes what was asked."""

    def __init__(self, maps: Mapping[tuple[str, str], Mapping[str, str]]) -> None:
        self.maps = maps
        self.asked: list[tuple[str, str, str]] = []

    def read(self, namespace: str, name: str, kubeconfig: str) -> Mapping[str, str] | None:
        self.asked.append((namespace, name, kubeconfig))
        return self.maps.get((namespace, name))


def source(policy: str, more: str = "") -> str:
    return HEAD + f"algorithmSource: {{policy: {{{policy}}}}}\n" + more


PLACES = [
    ("configMap: {name: p}", "", ("kube-system", "p", "")),
    ("configMap: {namespace: '', name: p}", "", ("kube-system", "p", "")),
    (
        "configMap: {namespace: team, name: q}",
        "clientConnection: {kubeconfig: /c}\n",
        ("team", "q", "/c"),
    ),
]


@pytest.mark.parametrize(("policy", "more", "asked"), PLACES)
def test_the_policy_of_a_config_map_runs(policy: str, more: str, asked: tuple[str, str, str]) -> None:
    cluster = Cluster({asked[:2]: {POLICY_KEY: MOST, "other": "{"}})
    text = source(policy, more)
    (profile,) = load_config(text, read_config_map=cluster.read).profiles
    fit: Any = plugin_args(profile, "NodeResourcesFit")
    assert fit.strategy.type == "MostAllocated"
    assert [tuple(ref) for ref in effective_plugins(profile)["score"]] == [("NodeResourcesFit", 6)]
    assert cluster.asked == [asked]
    document, _ = convert_document(text, "v1", PolicyReaders(config_map=cluster.read))
    assert document["profiles"][0]["plugins"]["score"] == {
        "enabled": [{"name": "NodeResourcesFit", "weight": 6}]
    }


def test_a_file_goes_before_a_config_map() -> None:
    cluster = Cluster({})
    both = source("file: {path: f}, configMap: {name: p}")
    load_config(both, read_file=lambda name: MOST, read_config_map=cluster.read)
    assert cluster.asked == []


def unreachable(namespace: str, name: str, kubeconfig: str) -> Mapping[str, str]:
    raise MusterError("no route")


PATH = "algorithmSource.policy.configMap: "
REFUSED: dict[str, tuple[str, Any, str]] = {
    "no ConfigMap": ("configMap: {name: p}", Cluster({}).read, "ConfigMap kube-system/p does not exist"),
    "no key": (
        "configMap: {name: p}",
        Cluster({("kube-system", "p"): {"policy": MOST}}).read,
        "Required value: ConfigMap kube-system/p has no key policy.cfg",
    ),
    "no policy": (
        "configMap: {name: p}",
        Cluster({("kube-system", "p"): {POLICY_KEY: '{"priorities": [{"name": "Mine", "weight": 1}]}'}}).read,
        'ConfigMap kube-system/p: policy.cfg: priorities[0].name: Unsupported value: "Mine": supported',
    ),
    "no YAML": (
        "configMap: {name: p}",
        Cluster({("kube-system", "p"): {POLICY_KEY: "{"}}).read,
        "ConfigMap kube-system/p: policy.cfg: cannot read YAML or JSON: line 1",
    ),
    "no answer": (
        "configMap: {name: p}",
        unreachable,
        'Invalid value: "kube-system/p": cannot be read: no route',
    ),
    "no cluster": ("configMap: {name: p}", None, "Forbidden: ConfigMap kube-system/p is in a cluster, "),
}


@pytest.mark.parametrize(("policy", "read", "problem"), REFUSED.values(), ids=REFUSED.keys())
def test_a_policy_that_cannot_be_had_is_one_line(policy: str, read: Any, problem: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load_config(source(policy), "file.yaml", read_config_map=read)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"file.yaml: {PATH}{problem}")


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("configMap: {namespace: a}", "algorithmSource.policy.configMap.name: Required value"),
        ("", "algorithmSource.policy: Required value: a policy must be given as file.path or configMap"),
    ],
)
def test_a_source_that_names_nothing_is_refused(policy: str, problem: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load_config(source(policy), read_config_map=Cluster({}).read)
    assert str(caught.value) == problem


def test_a_policy_file_that_is_no_text_is_one_line() -> None:
    with pytest.raises(ConfigErrors, match=r"policy\.file\.path: Invalid value: \"f\": is not a text"):
        load_config(source("file: {path: f}"), read_file=lambda name: b"\xff".decode())


@pytest.mark.parametrize("name", ["\0", "a\0b"])
def test_a_path_that_no_file_has_is_one_line(tmp_path: Path, name: str) -> None:
    text = source(f"file: {{path: {json.dumps(name)}}}")
    with pytest.raises(ConfigErrors, match=r"policy\.file\.path: Invalid value: .*null byte"):
        load_config(text, read_file=lambda path: (tmp_path / path).read_text())
