"""Objects that try to break a page: whatever the cluster holds, each page is well-formed HTML."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from kubectl_plugin.console.access.viewer import Viewer
from scheduler_core.errors import ModelError
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.console_scene import Raw, Scene
from tests.support.searches import cases

VOID = frozenset({"meta", "link", "input", "br", "wbr", "option"})
SCRIPT = "</title></style><script>alert(1)</script>"
# Strings where the API server does not look: annotations, data, statuses, messages, names of resources.
HOSTILE = (
    *(SCRIPT, '"><svg onload=x>', "'--><!--", "{{ 7 * 7 }}{% raw %}", "]]>", "&#0;&amp;&lt;"),
    *("\x00\x08\x1b[31m", "\u202egnp", "\ud83d\ude00", "\ufeff\u200b", "a" * 70_000, "../../etc", "", " "),
    *("1e400", "-5", "9" * 400, "1e-400", "0x10", "NaN", "Infinity", "9223372036854775807", "1Ei", "1." * 9),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2027-02-30T00:00:00Z", "null", "[" * 5000, "{}"),
    *("mine", "treasure/x", "PodGroup mine/train", "node-0", "muster-scheduler"),
)
# In a short run a few of all kinds.
PLAYED = HOSTILE[:: len(HOSTILE) // cases(len(HOSTILE))]
ODD = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=20),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
    st.booleans(),
    st.just([]),
    st.just({}),
)
VIEWERS = (
    Viewer("boss"),
    Viewer("tenant", frozenset({"mine"}), nodes=False),
    Viewer("\u202e<b>", frozenset()),
)
PAGES = (
    *("/now", "/lending", "/queue", "/gangs", "/topology?show=load", "/topology?show=kept", "/what-if"),
    *("/history", "/gangs/mine/incubator.train", "/gangs/mine/configmap.ring"),
)


class Balanced(HTMLParser):
    """Notes what is not closed, and what runs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"{tag} is not closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._look(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)

    def _look(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"{tag} has an attribute twice: {names}")
        self.problems += [f"{tag} has {name}" for name in names if name.startswith("on") or name == "style"]
        if tag == "script" and dict(attrs).get("src") != "/static/console.js":
            self.problems.append("a script that is not ours")
        for name, value in attrs:
            if name in ("href", "src", "action") and value and not value.startswith(("/", "?", "#")):
                self.problems.append(f"{name} leads to {value[:40]}")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.problems.append(f"{tag} closes nothing")


def objects() -> list[Raw]:
    """One object of each kind that pages are made of."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    moment = "2027-01-15T08:00:00Z"
    node = make_node("node-0").allocatable(cpu=8, memory="8Gi", pods=20).dict()
    quota = make_quota("mine/quota").min(cpu=2, gpu=1).max(cpu=30).dict()
    reclaim = {"time": moment, "byQuota": "treasure/q", "by": "Pod treasure/x", "resources": {"cpu": "1"}}
    quota["status"] = {"lastReclaim": {**reclaim, "pods": 1}, "used": {"cpu": "1"}}
    group = make_group("mine/train").needs(2).totals(cpu=4).annotation("muster.dev/hold-quota", "1h").dict()
    results = '{"hopCost": "3", "bestHopCost": "1"}'
    group["metadata"]["annotations"]["scheduling.k8s.io/topology-results"] = results
    kinds = ("QuotaHeld", "NodesKept", "Elsewhere", "DisruptionTarget")
    told = {"status": "True", "reason": "R", "message": "cpu=4; until later", "lastTransitionTime": moment}
    group["status"] = {"phase": "Pending", "conditions": [{"type": kind, **told} for kind in kinds]}
    waiting = make_pod("mine/train-0").group("train").requests(cpu=6, gpu=1).nominated("node-0").dict()
    waiting["status"]["conditions"] = [{**condition, "lastTransitionTime": moment}]
    placed = make_pod("mine/train-1").group("train").requests(cpu=2).on("node-0").started(1.8e9).dict()
    tree = {"rack-0": {"node-0": {}}}
    metric = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "node-0"},
    }
    usage = {"nodeUsage": {"resources": {"cpu": "3", "memory": "1Gi"}}}
    hard = {"spec": {"hard": {"requests.cpu": "40"}}, "status": {"hard": {"requests.cpu": "40"}}}
    ledger = {"apiVersion": "muster.dev/v1alpha1", "kind": "ReservationLedger"}
    held = {"name": "train", "total": {"cpu": "4"}, "used": {"cpu": "2"}, "held": {"cpu": "2"}}
    return [
        node,
        quota,
        make_quota("treasure/q").min(cpu=6).max(cpu=9).dict(),
        group,
        waiting,
        placed,
        config_map(
            "topology", {"level-names": '["rack", "node"]', "tree": msgspec.json.encode(tree).decode()}
        ),
        config_map("ring", {"name": "ring", "size": "2", "constraints": '{"rack": {"type": "pack"}}'}),
        {**metric, "spec": {}, "status": {"updateTime": moment, "nodeMetric": usage}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "r", "namespace": "mine"}, **hard},
        {**ledger, "metadata": {"name": "ledger", "namespace": "mine"}, "spec": {"reservations": [held]}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "mine"},
            "status": {},
        },
    ]


def config_map(name: str, data: dict[str, str]) -> Raw:
    label = "sakkara.topology" if "tree" in data else "sakkara.group"
    meta = {"name": name, "namespace": "mine", "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"name": name, **data}}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values below, without those that the API server checks strictly."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        if (*path, key) in {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")}:
            if key == "metadata":
                yield from places(below, (key,))
            continue
        if (*path, key) == ("metadata", "namespace"):
            continue
        yield (*path, key)
        yield from places(below, (*path, key))


# An example is small as it is; to make it smaller takes longer than a test may.
QUICK = (Phase.explicit, Phase.generate)
PLAIN = objects()
PLACES = [(number, path) for number, obj in enumerate(PLAIN) for path in places(obj)]


def broken(changes: list[tuple[tuple[int, tuple[Any, ...]], Any, bool]]) -> list[Raw]:
    """The objects with other values, or other keys, in some places."""
    found = copy.deepcopy(PLAIN)
    for (number, path), value, as_key in changes:
        at: Any = found[number]
        try:
            for key in path[:-1]:
                at = at[key]
            if as_key and isinstance(at, dict) and isinstance(value, str):
                at[value] = at.pop(path[-1])
            else:
                at[path[-1]] = value
        except (LookupError, TypeError):
            continue
    return found


def scene_of(found: list[Raw]) -> Scene:
    """A console over those of the objects that can be read, as a watch passes them on."""
    scene = Scene()
    for obj in found:
        try:
            scene.watch.put(obj)
        except (ModelError, msgspec.MsgspecError, UnicodeEncodeError):
            continue
    return scene


def look(scene: Scene) -> None:
    """Every page, of everybody."""
    for viewer in VIEWERS:
        with scene.as_viewer(viewer) as client:
            for page in PAGES:
                reply = client.get(page)
                # A group that could not be read is not there.
                assert reply.status_code in ((200, 404) if page.startswith("/gangs/") else (200,)), page
                assert len(reply.text) < 2_000_000, page
                # One object must not take the queue and the checks from everybody.
                assert "ended with status" not in reply.text, page
                assert Balanced(reply.text).problems == [], page
                mark = "&" if "?" in page else "?"
                document = client.get(f"{page}{mark}format=json")
                assert document.status_code == reply.status_code, page
                msgspec.json.decode(document.data)


def test_objects_as_they_should_be() -> None:
    look(scene_of(PLAIN))
    with scene_of(PLAIN).as_viewer(VIEWERS[0]) as client:
        assert client.get(PAGES[-1]).status_code == client.get(PAGES[-2]).status_code == 200
        assert "hop" in client.get(PAGES[-2]).text.lower()


def test_a_tenant_cannot_make_the_pages_of_others_huge() -> None:
    """A ConfigMap holds a megabyte, and everybody who sees it asks for the list every five seconds."""
    names = [f"ring-{number}" for number in range(30)]
    groups = [config_map(name, {"size": "1", "reason": "word " * 60_000}) for name in names]
    pods = [
        make_pod(f"mine/{name}").label("sakkara.group.name", name).requests(cpu=1).dict() for name in names
    ]
    for pod in pods:
        told = {"type": "PodScheduled", "status": "False", "reason": "U", "message": "word " * 6_000}
        pod["status"] = {"conditions": [told]}
    scene = scene_of([*groups, *pods])
    with scene.as_viewer(VIEWERS[0]) as client:
        for page in ("/gangs", "/queue"):
            assert len(client.get(page).text) < 250_000, page
        assert client.get("/gangs").text.count("word") > 1000


def test_the_check_can_fail() -> None:
    assert Balanced("<p><b></p>").problems
    assert Balanced('<p onclick="x">x</p>').problems
    assert Balanced('<a href="javascript:x">x</a>').problems
    assert Balanced(SCRIPT).problems


@pytest.mark.parametrize("value", PLAYED, ids=lambda value: ascii(value[:12]))
def test_one_text_in_all_places_of_an_object(value: str) -> None:
    """Without those places where it makes the object unreadable."""
    kept, probe = [], Scene()
    for obj in PLAIN:
        made = copy.deepcopy(obj)
        for path in places(obj):
            tried = copy.deepcopy(made)
            at: Any = tried
            try:
                for key in path[:-1]:
                    at = at[key]
                at[path[-1]] = value
                probe.watch.put(tried)
            except (LookupError, TypeError, ModelError, msgspec.MsgspecError, UnicodeEncodeError):
                continue
            made = tried
        kept.append(made)
    look(scene_of(kept))


@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD, st.booleans()), min_size=1, max_size=6))
@settings(max_examples=cases(20), deadline=None, suppress_health_check=list(HealthCheck), phases=QUICK)
@example([((6, ("metadata", "labels")), 0.87, False)])
def test_random_values_in_random_places(changes: list[tuple[tuple[int, tuple[Any, ...]], Any, bool]]) -> None:
    look(scene_of(broken(changes)))
