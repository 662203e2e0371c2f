"""Whatever strangers write into names, labels and messages, no output drives the terminal that shows it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml

from kubectl_plugin.elasticquota import elasticquota
from kubectl_plugin.podgroup import podgroup
from scheduler_core.model.printable import visible, visible_lines
from tests.unit.kubectl_plugin.plugin_api import (
    Api,
    Command,
    Done,
    pod_object,
    quota_object,
    resource_quota_object,
)

# Colours, an 8-bit CSI, the clipboard, line ends of every kind, direction, and what CSV, Markdown, HTML and a
# shell would obey.
EVIL = (
    "x\x1b[31mred\x9b0m\x1b]52;c;aGk=\x07\r\n\x85\u2028forged\u202ertl\u2066\u200f\x7f\x00\x08"
    "=cmd|'/c calc'!A0,`$(id)`|[a](b)</title><script>alert(1)</script>&amp;\"'"
)
EVIL_TREE = f"unit{EVIL}"
# More than any row may have. The API lets four times as much through, which each command would read again.
HUGE = "w" * 65_536
GROUP = "scheduling.k8s.io/group-name"


def metadata(name: str, **more: Any) -> dict[str, Any]:
    return {
        "namespace": "team-a",
        "name": name,
        "uid": f"u-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"team": EVIL, EVIL: "x"},
        "annotations": {"note": EVIL + HUGE, EVIL: EVIL},
        **more,
    }


def pod_group(name: str, message: str, **total: str) -> dict[str, Any]:
    condition = {"type": "Unschedulable", "status": "True", "reason": EVIL, "message": message}
    kept = {"type": "NodesKept", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    kept |= {"message": f"{message}; until {EVIL} at the latest"}
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": metadata(name),
        "spec": {"minMembers": 3, "totalResources": total or {"cpu": "8"}},
        "status": {"phase": EVIL, "conditions": [condition, kept]},
    }


def member(name: str, node: str, group: str, message: str, **labels: str) -> dict[str, Any]:
    pod = pod_object("team-a", name, node, "Running" if node else "Pending", cpu="2")
    pod["metadata"] = metadata(
        name, annotations={GROUP: group, "note": EVIL}, labels={"team": EVIL, **labels}
    )
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod["spec"] |= {"hostname": EVIL, "subdomain": EVIL}
    pod["status"] |= {"conditions": [told], "podIP": EVIL}
    pod["status"] |= {} if node else {"nominatedNodeName": EVIL}
    owner = {"kind": EVIL, "name": EVIL, "uid": EVIL, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """Every text that the API lets through, and many that it does not: servers other than ours exist."""
    room = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    api.objects["nodes"] = [
        {"metadata": metadata(name), "status": {"allocatable": room, "capacity": room}}
        for name in ("n1", EVIL_TREE, f"lost{EVIL}")
    ]
    quotas = [
        quota_object("team-a", EVIL, min={"cpu": "9"}, max={"cpu": "8"}),
        quota_object(f"b{EVIL}", min={"cpu": "1"}, max={"cpu": "8"}),
        quota_object("unreadable", EVIL, min={f"example.com/{EVIL}": EVIL}),
    ]
    for quota in quotas:
        quota["metadata"] |= {"annotations": {"note": EVIL}, "labels": {"team": EVIL}}
    api.objects["elasticquotas"] = quotas
    api.objects["resourcequotas"] = [resource_quota_object("team-a", EVIL, requests_cpu="1")]
    api.objects["podgroups"] = [
        pod_group("train", EVIL),
        pod_group(EVIL, EVIL + HUGE),
        pod_group("unreadable", "", **{f"example.com/{EVIL}": EVIL}),
    ]
    api.objects["pods"] = [
        member("train-0", "n1", "train", EVIL),
        member(f"train-1{EVIL}", "", "train", EVIL + HUGE),
        member("lone", "", EVIL, HUGE + EVIL),
        member(f"g-0{EVIL}", EVIL_TREE, "", EVIL, **{"sakkara.group.name": "g"}),
        pod_object(f"b{EVIL}", f"p{EVIL}", "n1", cpu="3"),
    ]
    levels = json.dumps(["rack" + EVIL, "node"])
    tree = {"rack" + EVIL: {EVIL_TREE: {}, "n1": {}, f"absent{EVIL}": {}}}
    topology = {
        "name": EVIL,
        "level-names": levels,
        "resource-names": json.dumps(["cpu"]),
        "tree": json.dumps(tree),
    }
    group = {"name": "g", "size": "1", "reason": EVIL + HUGE}
    api.objects["configmaps"] = [
        {
            "metadata": metadata("tree", namespace="sakkara", labels={"sakkara.topology": ""}),
            "data": topology,
        },
        {"metadata": metadata("g", labels={"sakkara.group": ""}), "data": group},
    ]
    api.objects["events"] = [
        {
            "metadata": metadata("told"),
            "type": EVIL,
            "reason": EVIL,
            "note": EVIL + HUGE,
            "reportingController": EVIL,
            "regarding": {"kind": "PodGroup", "name": "train", "uid": "u-train"},
        }
    ]
    hold = {"group": "train", "uid": "u-train", "minMembers": 3, "totalResources": {"cpu": "8"}}
    api.objects["reservationledgers"] = [{"metadata": metadata("reservations"), "spec": {"holds": [hold]}}]


COLUMNS = f"custom-columns={EVIL.replace(',', '')}:.metadata.labels.team,NOTE:.metadata.annotations.note"
QUOTA = [
    *(("get", "-A", "-o", form) for form in ("table", "wide", "json", "yaml", "name", COLUMNS)),
    ("get", "-A", "--show-labels"),
    ("get", "-A", "-L", "team"),
    ("get", "-A", "-L", EVIL.replace(",", "")),
    *(("tree", "-A", "-o", form) for form in ("table", "json", "yaml")),
    *(("describe", "-A", "-o", form) for form in ("text", "json", "yaml")),
    ("describe", EVIL),
    ("lending", "-A", "--sort-by", EVIL),
    ("get", EVIL.replace("/", "").replace("%", "")),
    ("get", EVIL),
    *(("lending", "-A", "-o", form) for form in ("table", "json", "yaml")),
    *(("lint", "-A", "-o", form) for form in ("text", "json")),
    ("simulate", "--scenario", f"/no/such{EVIL}".replace("\x00", "")),
    (EVIL,),
    ("get", f"--{EVIL}"),
    ("__complete", "get", ""),
    ("__complete", "get", "-n", ""),
]
GROUPS = [
    *(("get", "-A", "-o", form) for form in ("table", "wide", "json", "yaml", "name", COLUMNS)),
    *(("status", "-A", "-o", form) for form in ("table", "wide", "json", "yaml", "name")),
    *(("describe", "-A", "-o", form) for form in ("text", "json", "yaml")),
    ("describe", "train", "g"),
    ("status", "-A", "--sort-by", ".reason"),
    ("status", "train"),
    ("status", "g"),
    ("status", "lone"),
    *(("rank", name, "-o", form) for name in ("g", "train") for form in ("table", "json", "yaml")),
    *(("rank", "g", "-o", form) for form in ("hostfile", "torchrun")),
    ("topology",),
    ("topology", "g"),
    ("topology", "train", "-o", "svg"),
    ("topology", "g", "-o", "svg"),
    ("__complete", "get", ""),
]
CASES: list[tuple[click.Command, tuple[str, ...]]] = [
    *((elasticquota, words) for words in QUOTA),
    *((podgroup, words) for words in GROUPS),
]


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("plugin", "words"), CASES, ids=[f"{p.name} {visible(' '.join(w))}"[:60] for p, w in CASES]
)
def test_no_control_character_reaches_the_terminal(
    eq: Command, plugin: click.Command, words: tuple[str, ...]
) -> None:
    done: Done = eq(*words, plugin=plugin)
    assert done.out or done.err
    assert harmless(done.out), [line for line in done.out.split("\n") if not line.isprintable()][:3]
    assert harmless(done.err), done.err[:500]
    assert "internal error" not in done.err
    assert "forged" not in [line[:6] for line in (done.out + done.err).split("\n")]


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_a_scenario_with_hostile_text_is_harmless_too(eq: Command, tmp_path: Path, form: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": EVIL}, "spec": {}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": EVIL}}
    expect = {"boundOn": {f"a/{EVIL}": f"other {EVIL}"}}
    steps = [{"create": [pod], "expect": expect}]
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps({"name": EVIL, "objects": [node], "steps": steps}))
    done = eq("simulate", "--scenario", str(file), "-o", form)
    assert done.code == 1
    # As text escapes it, as JSON does, and as YAML does.
    escaped = (visible(EVIL)[:20], json.dumps(EVIL)[1:10], EVIL[:6].replace("\x1b", "\\e"))
    assert any(text in done.out for text in escaped)
    assert harmless(done.out + done.err)


def test_data_says_what_was_meant(eq: Command) -> None:
    for form, read in (("json", json.loads), ("yaml", partial(yaml.load, Loader=yaml.CSafeLoader))):
        for words in (("get", "-A"), ("lending", "-A"), ("lint", "-A")):
            if words[0] != "lint" or form == "json":
                read(eq(*words, "-o", form).out)
        found = read(eq("get", "-A", "-o", form, plugin=podgroup).out)
        assert found["items"][0]["metadata"]["annotations"] == {"note": EVIL + HUGE, EVIL: EVIL}


def test_the_drawing_stays_xml_and_shows_the_names_as_text(eq: Command) -> None:
    root = ElementTree.fromstring(eq("topology", "g", "-o", "svg", plugin=podgroup).out)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        "svg",
        "g",
        "title",
        "text",
        "rect",
    }
    units = [element.get("data-unit") for element in root.iter() if element.get("data-unit")]
    assert visible(EVIL_TREE) in units


def test_a_huge_text_does_not_make_every_row_huge(eq: Command) -> None:
    for words in (("get", "-A"), ("status", "-A")):
        # The reason of a group is shown whole, in its own row.
        rows = sorted(map(len, eq(*words, plugin=podgroup).out.splitlines()))
        assert sum(rows[:-1]) < 20_000
        assert rows[-1] < 40_000
    first, *rest = eq(
        "get", "-A", "-o", "custom-columns=NOTE:.metadata.annotations.note,N:.metadata.uid", plugin=podgroup
    ).out.splitlines()
    assert len(first) < 1000
    assert any(HUGE in line for line in rest), "what was asked for is shown whole"


def test_jsonpath_is_raw_for_programs_and_harmless_for_people(
    eq: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("get", "-A", "-o", 'jsonpath={range .items[*]}{.metadata.labels.team}{"\\t"}{"\\n"}{end}')
    assert EVIL in eq(*words).out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = eq(*words).out
    assert harmless(shown.replace("\t", ""))
    assert "\t\n" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a b\tc\nd", "a b\tc\nd", id="tabs and line ends stay"),
        pytest.param("a\x1b[0m\n\u202eb\r\n", "a\\x1b[0m\n\\u202eb\\r\n", id="all else does not"),
    ],
)
def test_lines_keep_their_ends(text: str, shown: str) -> None:
    assert visible_lines(text) == shown
