"""`kubectl elasticquota describe` and `kubectl podgroup describe`, whole, against a small server."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kubectl_plugin.podgroup import podgroup
from scheduler_core.model.names import GROUP_NAME_ANNOTATION
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

GPU = "nvidia.com/gpu"


def event(kind: str, name: str, uid: str, note: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team-a", "name": f"{name}.{note[:3]}", "resourceVersion": "1"},
        "type": "Normal",
        "reason": "Told",
        "note": note,
        "regarding": {"kind": kind, "namespace": "team-a", "name": name, "uid": uid},
        "reportingController": "muster-scheduler",
        "eventTime": "2026-01-01T01:00:00.000000Z",
        **more,
    }


def member(name: str, node: str) -> dict[str, Any]:
    pod = pod_object("team-a", name, node, "Running" if node else "Pending", **{GPU: "6", "memory": "1536Mi"})
    pod["metadata"]["annotations"] = {GROUP_NAME_ANNOTATION: "train"}
    return pod


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    quota = quota_object("team-a", min={GPU: "4", "memory": "8Gi"}, max={GPU: "8"})
    quota["metadata"] |= {
        "labels": {"team": "a", "tier": "gold"},
        "annotations": {"note": "x" * 200, "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    quota["status"]["lastReclaim"] = {
        "time": "2026-01-01T00:05:00Z",
        "byQuota": "team-b/quota",
        "by": "PodGroup team-b/t",
        "resources": {GPU: "2"},
        "pods": 1,
    }
    api.objects["elasticquotas"] = [quota, quota_object("team-b", min={GPU: "8"}, max={GPU: "16"})]
    condition = {"type": "Unschedulable", "status": "True", "reason": "TooFew", "message": "one is short"}
    api.objects["podgroups"] = [
        {
            "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"namespace": "team-a", "name": "train", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMembers": 2},
            "status": {"phase": "Unschedulable", "conditions": [condition]},
        }
    ]
    api.objects["pods"] = [member("train-0", "n1"), member("train-1", "")]
    series = {"count": 5, "lastObservedTime": "2026-01-01T02:00:00.000000Z"}
    api.objects["events"] = [
        event("ElasticQuota", "quota", "team-a-quota", "seen often", series=series),
        event("ElasticQuota", "quota", "an-older-one", "of an earlier quota of this name"),
        event("ElasticQuota", "quota", "team-a-quota", "at first"),
        event("PodGroup", "train", "g", "one pod is short"),
    ]


def block(text: str, title: str) -> list[list[str]]:
    """The rows below `title:`, without header and rule."""
    lines = text.splitlines()
    start = lines.index(f"{title}:") + 1
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("  ")), len(lines))
    return [line.split() for line in lines[start + 2 : end]]


def fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if line[:1].strip())
    return {title: value.strip() for title, _, value in pairs}


def test_a_quota_is_described_with_its_use_in_exact_amounts(eq: Command) -> None:
    done = eq("describe", "quota")
    assert (done.code, done.err) == (0, "")
    told = fields(done.out)
    assert (told["Name"], told["Namespace"], told["Labels"]) == ("quota", "team-a", "team=a")
    assert told["State"] == f"borrows {GPU}=2"
    assert told["Pods"] == "2 pods unfinished, 1 running"
    assert told["Last reclaim"] == (
        f"{GPU}=2 of 1 pod at 2026-01-01T00:05:00Z, by PodGroup team-b/t for ElasticQuota team-b/quota"
    )
    assert block(done.out, "Use") == [
        ["memory", "1536Mi", "8Gi", "-", "-", "0", "0", "0", "1536Mi", "0", "3Gi"],
        [GPU, "6", "4", "8", "-", "2", "0", "0", "6", "0.167", "8"],
    ]
    (group,) = block(done.out, "Used by")
    assert group[:2] == ["PodGroup/train", f"memory=1536Mi,{GPU}=6"]
    assert block(done.out, "Conditions") == [["Enforced", "True", "Oldest", "-", "-"]]


def test_labels_and_annotations_are_listed_and_long_ones_cut_as_in_kubectl(eq: Command) -> None:
    lines = eq("describe", "quota").out.splitlines()
    labels = next(i for i, line in enumerate(lines) if line.startswith("Labels:"))
    assert lines[labels + 1].strip() == "tier=gold"
    assert lines[labels + 2].split() == ["Annotations:", "note:", "x" * 134 + "..."]
    assert "last-applied" not in "".join(lines)


def test_events_are_those_of_this_object_the_newest_last(eq: Command) -> None:
    rows = block(eq("describe", "quota").out, "Events")
    assert [" ".join(row[-2:]) for row in rows] == ["at first", "seen often"]
    assert "(x5 over" in " ".join(rows[1])


def test_a_group_is_described_with_its_members(eq: Command) -> None:
    done = eq("describe", "train", plugin=podgroup)
    assert (done.code, done.err) == (0, "")
    told = fields(done.out)
    assert (told["Name"], told["Dialect"], told["Phase"]) == ("train", "incubator", "Scheduling")
    assert told["Labels"] == "<none>"
    assert [row[:3] for row in block(done.out, "Members")] == [
        ["train-0", "n1", "Running"],
        ["train-1", "-", "Pending"],
    ]
    assert block(done.out, "Conditions") == [["Unschedulable", "True", "TooFew", "-", "one", "is", "short"]]
    assert block(done.out, "Events")[0][-4:] == ["one", "pod", "is", "short"]


def test_without_a_name_all_are_described(eq: Command) -> None:
    out = eq("describe", "-A").out
    assert [line.split()[1] for line in out.splitlines() if line.startswith("Namespace:")] == [
        "team-a",
        "team-b",
    ]
    assert "\n\n\nName:" in out
    assert "Events:  <none>" in out
    assert fields(eq("describe", "-A", plugin=podgroup).out)["Name"] == "train"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_hold_every_field(eq: Command, form: str) -> None:
    read = json.loads if form == "json" else yaml.safe_load
    (found,) = read(eq("describe", "quota", "-o", form).out)["descriptions"]
    assert found["kind"] == "ElasticQuota"
    assert found["annotations"]["note"] == "x" * 200
    assert found["use"][1]["borrowed"] == "2"
    assert found["facts"]["pods"] == "2 pods unfinished, 1 running"
    assert [item["message"] for item in found["events"]] == ["at first", "seen often"]
    (group,) = read(eq("describe", "train", "-o", form, plugin=podgroup).out)["descriptions"]
    assert [item["name"] for item in group["members"]] == ["train-0", "train-1"]


def test_what_may_not_be_read_is_named(api: Api, eq: Command) -> None:
    api.forbidden = {("elasticquotas", ""), ("events", "team-a"), ("resourcequotas", "team-a")}
    done = eq("describe", "quota")
    assert done.code == 0
    assert "Events:  not known: you may not list events" in done.out
    assert "note: HARD is not known: you may not list resourcequotas" in done.err
    assert "note: LENT is not known" in done.err
    assert block(done.out, "Use")[1][4:7] == ["?", "2", "?"]
    assert "team-b" not in done.err
    (found,) = json.loads(eq("describe", "quota", "-o", "json").out)["descriptions"]
    assert found["events"] is None


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["describe", "none"], 1, 'elasticquotas.scheduling.x-k8s.io "none" not found'),
        (["describe", "a/b"], 1, "invalid resource name 'a/b'"),
        (["describe", ""], 2, "a resource name may not be empty"),
        (["describe", "quota", "-A"], 2, "a resource cannot be retrieved by name across all namespaces"),
        (["describe", "-o", "wide"], 2, "'wide' is not one of"),
        (["describe", "-n", "empty"], 0, "No resources found in empty namespace."),
    ],
)
def test_bad_input_is_one_line(eq: Command, argv: list[str], code: int, said: str) -> None:
    done = eq(*argv)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err


def test_a_group_that_does_not_exist_is_one_line(eq: Command) -> None:
    done = eq("describe", "none", plugin=podgroup)
    assert (done.code, done.out) == (1, "")
    assert done.err == 'error: no PodGroup and no group ConfigMap "none" in team-a namespace\n'
