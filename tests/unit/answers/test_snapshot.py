"""A snapshot decides as the cluster does, tells no name under pseudonyms, and nothing of others in sums."""

from __future__ import annotations

import copy
import re
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec
import pytest
import yaml

from scheduler_core.answers.snapshot.anonymous import Pseudonyms, anonymous
from scheduler_core.answers.snapshot.document import SnapshotOptions, scenario_document
from scheduler_core.answers.snapshot.plain import plain
from scheduler_core.model.writes import Evict
from scheduler_core.simulate import Simulation, load_scenarios, run_scenario
from tests.support.every import every_seed
from tests.support.searches import cases
from tests.support.situations import GPU, cluster, node, pod, quota
from tests.support.worlds.generate import live

KEY = b"k" * 32
WORLDS = cases(32, "MUSTER_SNAPSHOT_WORLDS", least=4)


def world(seed: int) -> Simulation:
    """A world at the end of its story, whose objects have uids as a server gives them."""
    _, player = live(seed, judged=False)
    base = Simulation(player.config, player.now)
    for key in player.objects.keys():  # noqa: SIM118  the store is no dict
        obj = copy.deepcopy(player.objects.get(key))
        assert obj is not None
        for named in (obj["metadata"], *(obj["metadata"].get("ownerReferences") or ())):
            if named.get("uid"):
                named["uid"] = str(uuid5(NAMESPACE_OID, named["uid"]))
        base.create(obj)
    return base


def as_yaml(document: dict[str, Any]) -> str:
    return str(yaml.dump(document, Dumper=yaml.CSafeDumper))


def played(document: dict[str, Any], config: Any) -> dict[str, str]:
    """Where pods are after the scenario was played as a file."""
    (scenario,) = load_scenarios(as_yaml(document))
    step = run_scenario(msgspec.structs.replace(scenario, config=config), None)["steps"][0]
    return dict(step["bound"])


def bound(simulation: Simulation) -> dict[str, str]:
    simulation.run()
    return {pod.key: pod.node_name for pod in simulation.state.pods.values() if pod.assigned}


@every_seed(range(WORLDS), each=8)
def test_a_snapshot_decides_as_the_cluster(seed: int) -> None:
    base = world(seed)
    document = scenario_document(base, "", SnapshotOptions())
    assert played(document, base.config) == bound(base.copy())


@every_seed(range(WORLDS), each=8)
def test_a_snapshot_under_pseudonyms_decides_as_the_cluster_and_tells_no_name(seed: int) -> None:
    base = world(seed)
    document = scenario_document(base, "", SnapshotOptions(key=KEY))
    assert told_names(base, document) <= {"default"}
    names = pseudonyms(base)
    before = {names.text(pod): names.text(node) for pod, node in bound(base.copy()).items()}
    assert played(document, base.config) == before


def pseudonyms(base: Simulation) -> Pseudonyms:
    objects = [plain(obj) for key in base.objects.keys() if (obj := base.objects.get(key))]  # noqa: SIM118
    return anonymous(objects, None, KEY, base.scheduler.profiles)[2]


def told_names(base: Simulation, document: dict[str, Any]) -> set[str]:
    """The names of objects that the text of a document has."""
    words = set(re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*", as_yaml(document)))
    told = {
        part
        for kind, namespace, name in base.objects.keys()  # noqa: SIM118  the store is no dict
        for part in (namespace, name)
        if part and not part.isdigit() and kind != "Namespace"
    }
    return told & words


def test_names_in_texts_keys_and_trees_are_replaced() -> None:
    objects = [
        node("gpu-7", labels={"acme.com/team": "apollo", "rack": "r9"}),
        pod("apollo", "secret-0", 1, nodeSelector={"acme.com/team": "apollo"}),
        {
            "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "t", "labels": {"sakkara.topology": ""}},
            "data": {"name": "t", "level-names": '["rack", "node"]', "tree": '{"r9": {"gpu-7": {}}}'},
        },
    ]
    objects[1]["metadata"]["annotations"] = {"acme.com/owner": "armstrong"}
    objects[1]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hunter2"}]
    objects[1]["spec"]["containers"][0]["command"] = ["launch"]
    base = cluster(*objects)
    document = scenario_document(base, "", SnapshotOptions(key=b"k" * 32))
    text = as_yaml(document)
    for word in (
        "gpu-7",
        "acme",
        "apollo",
        "r9",
        "secret",
        "moon",
        "armstrong",
        "hunter2",
        "launch",
        "TOKEN",
    ):
        assert word not in text
    assert played(document, base.config)  # the selector still meets the label
    again = scenario_document(base, "", SnapshotOptions(key=b"k" * 32))
    other = scenario_document(base, "", SnapshotOptions(key=b"o" * 32))
    assert again == document != other


def test_others_are_sums_without_a_name() -> None:
    base = cluster(
        node("n1"), quota("a", 4, 8), quota("vips", 6, 8), quota("spies", 2, 8),
        pod("vips", "limo", 2, at="n1", priority=7), pod("spies", "bug", 1, at="n1", priority=9),
        pod("free", "bird", 1, at="n1"), pod("a", "mine", 4),
    )  # fmt: skip
    document = scenario_document(base, "", SnapshotOptions(namespace="a"))
    text = as_yaml(document)
    for word in ("vips", "limo", "spies", "bug", "bird"):
        assert word not in text
    named = [(obj["metadata"], obj) for obj in document["objects"]]
    by_name = {f"{meta.get('namespace')}/{meta['name']}": obj for meta, obj in named}
    with_quota, free = by_name["others/sum-on-n1"], by_name["others-without-quota/sum-on-n1"]
    assert with_quota["spec"]["containers"][0]["resources"]["requests"] == {GPU: "3"}
    assert (with_quota["spec"]["priority"], free["spec"]["priority"]) == (9, 0)
    assert by_name["others/sum"]["spec"] == {"min": {GPU: "8"}, "max": {GPU: "16"}}
    # Three pods became two: the node has a slot less.
    assert by_name["None/n1"]["status"]["allocatable"]["pods"] == "109"
    assert played(document, base.config)["a/mine"] == "n1"


def test_what_no_decision_reads_is_left_out() -> None:
    obj = pod("a", "p", 1)
    obj |= {"apiVersion": "v1", "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": []}}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    obj["metadata"] |= {"managedFields": [{}], "annotations": applied}
    obj["spec"]["containers"][0] |= {"env": [{"name": "A", "value": "b"}], "args": ["x"], "volumeMounts": []}
    obj["spec"]["volumes"] = [{"name": "s", "secret": {"secretName": "s"}}]
    kept = plain(obj)
    assert kept["metadata"] == {"name": "p", "namespace": "a"}
    assert set(kept["spec"]["containers"][0]) == {"name", "image", "resources"}
    assert kept["status"] == {"phase": "Running"}
    assert "volumes" not in kept["spec"]


@pytest.mark.parametrize("typed", [True, False], ids=["as it is written now", "by an older sentence"])
def test_a_pod_that_is_evicted_for_others_does_not_name_them(typed: bool) -> None:
    base = cluster(node("n1"), quota("a", 4, 8))
    for name, preemptor in (("mine", "a/urgent"), ("theirs", "spies/bug")):
        leaving = pod("a", name, 2, at="n1")
        message = f"preempted by {preemptor} (priority 0) for node n1"
        write = Evict("a", name, "", "PreemptionByScheduler", message, None, (preemptor,) if typed else ())
        leaving["status"] = {"phase": "Running", "conditions": write.conditions(0.0)}
        base.create(leaving)
    text = as_yaml(scenario_document(base, "", SnapshotOptions(namespace="a")))
    assert "a/urgent" in text
    assert "spies" not in text


def test_the_claim_of_an_ephemeral_volume_is_still_that_of_its_pod() -> None:
    volumes = [{"name": "scratch", "ephemeral": {}}, {"name": "plain", "emptyDir": {}}]
    made = pod("team", "worker", 1, volumes=volumes) | {"apiVersion": "v1"}
    claims = [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "team", "name": name}}
        for name in ("worker-scratch", "worker-plain")
    ]
    (worker, *found), _, _ = anonymous([made, *claims], None, KEY)
    name, (scratch, plain_one) = (
        worker["metadata"]["name"],
        (each["name"] for each in worker["spec"]["volumes"]),
    )
    assert "worker" not in name
    assert found[0]["metadata"]["name"] == f"{name}-{scratch}"
    assert found[1]["metadata"]["name"] != f"{name}-{plain_one}"


def test_the_budget_of_a_group_keeps_its_prefix_before_the_name_of_its_group() -> None:
    kinds = (("PodGroup", "train"), *(("PodDisruptionBudget", f"podgroup-{name}") for name in ("train", "")))
    made = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "team", "name": name}}
        for kind, name in kinds
    ]
    (group, budget, other), _, _ = anonymous(made, None, KEY)
    assert group["metadata"]["name"] != "train"
    assert budget["metadata"]["name"] == f"podgroup-{group['metadata']['name']}"
    assert not other["metadata"]["name"].startswith("podgroup-p")


def test_an_object_without_spec_and_status_is_kept() -> None:
    for kind in ("Node", "Pod", "ElasticQuota", "PersistentVolume"):
        obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}}
        assert plain(obj)["metadata"]["name"] == "x"
        assert plain({**obj, "spec": None, "status": None}) == plain(obj)
