"""`kubectl elasticquota snapshot`, whole, against a small server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scheduler_core.simulate import load_scenarios, run_scenario
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """team-a uses 1 of 4 CPUs, and asks for 3 more; team-b waits for its own."""
    api.objects["nodes"] = [
        {"metadata": {"name": "n1", "uid": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
    ]
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"cpu": "4"}, max={"cpu": "8"}),
        quota_object("team-b", "hidden", min={"cpu": "4"}, max={"cpu": "8"}),
    ]
    api.objects["pods"] = [
        pod_object("team-a", "old", "n1", cpu="1"),
        pod_object("team-a", "fits", "", "Pending", cpu="2"),
        pod_object("team-b", "stranger", "n1", cpu="1"),
    ]
    for pod in api.objects["pods"]:
        pod["spec"]["schedulerName"] = "muster-scheduler"
        pod["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hunter2"}]
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"


def test_the_file_plays_and_the_same_cluster_gives_the_same_objects(eq: Command) -> None:
    done = eq("snapshot", "-A")
    assert done.code == 0
    (scenario,) = load_scenarios(done.out)
    (step,) = run_scenario(scenario)["steps"]
    assert step["bound"] == {"team-a/old": "n1", "team-a/fits": "n1", "team-b/stranger": "n1"}
    assert "hunter2" not in done.out
    again = yaml.safe_load(eq("snapshot", "-A").out)
    assert again["objects"] == yaml.safe_load(done.out)["objects"]


def test_json_has_the_same_objects(eq: Command) -> None:
    found = [eq("snapshot", "-A", "-o", form).out for form in ("json", "yaml")]
    assert json.loads(found[0])["objects"] == yaml.safe_load(found[1])["objects"]


@pytest.mark.parametrize("rights", ["all", "one namespace"])
def test_no_byte_of_another_tenant_is_in_the_snapshot_of_a_namespace(
    eq: Command, api: Api, rights: str
) -> None:
    if rights == "one namespace":
        api.forbidden |= {(plural, "") for plural in ("pods", "elasticquotas", "resourcequotas", "nodes")}
    done = eq("snapshot", "-n", "team-a")
    assert done.code == 0
    assert not [word for word in ("team-b", "stranger", "hidden") if word in done.out + done.err]
    head = [line for line in done.out.splitlines() if line.startswith("#")]
    if rights == "all":
        assert "sum-on-n1" in done.out
        assert not [line for line in head if "Not read" in line]
    else:
        unread = "Not read, as the user may not list them: pods outside the namespace team-a"
        assert f"# {unread}" in head
        assert "note: you may not list pods outside the namespace team-a" in done.err


def test_pseudonyms_depend_on_the_key_alone(eq: Command, api: Api, tmp_path: Path) -> None:
    api.forbidden.add(("resourcequotas", ""))
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    flags = ("snapshot", "-A", "--anonymize")
    keyed = [eq(*flags, "--key-file", str(tmp_path / "key")).out for _ in range(2)]
    done = eq(*flags)
    objects = [yaml.safe_load(text)["objects"] for text in (*keyed, done.out)]
    assert objects[0] == objects[1] != objects[2]
    assert "note: the pseudonyms are random" in done.err
    assert not [word for word in ("team-a", "fits", "hunter2", "n1\n") if word in done.out]


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        pytest.param(("--key-file", "k"), 2, "--key-file needs --anonymize", id="a key without names"),
        pytest.param(
            ("--anonymize", "--key-file", "missing"), 1, "missing: no such file or directory", id="no file"
        ),
        pytest.param(
            ("--anonymize", "--key-file", "short"), 1, "short: has 3 bytes; a key needs 16", id="short"
        ),
        pytest.param(("--config", "missing"), 1, "missing: no such file or directory", id="no configuration"),
    ],
)
def test_what_is_wrong_is_one_line(
    eq: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_bytes(b"abc")
    done = eq("snapshot", *flags)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"error: {words}")
    assert done.err.count("\n") == 1
