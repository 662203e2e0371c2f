"""What the scheduler changes of objects of others is what `account_writes` says, all of it and nothing else.

The chart's policies are made of that list: a write beyond it would be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler_core.app.failures.rejections import PodRejection, rejection_patch
from scheduler_core.model.account_writes import ADOPTED_POD_CHANGES, SCHEDULER_CHANGES, OwnChanges
from scheduler_core.model.account_writes import Path as FieldPath
from scheduler_core.model.pods.adoption import joining, release
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.writes import Evict, Patch, Write
from scheduler_core.simulate import load_scenarios, run_scenario
from scheduler_core.simulate.objects import Objects

FOLDER: Final = Path(__file__).parents[1] / "scenarios"
PLAYED: Final = sorted(
    [
        *(FOLDER / "topology").glob("*.yaml"),
        *(FOLDER / "topology-results").glob("*.yaml"),
        *(FOLDER / "native-topology").glob("*.yaml"),
        FOLDER / "coscheduling" / "disruption-budget-of-a-gang.yaml",
        FOLDER / "right" / "volumes-that-are-read-before-their-nodes.yaml",
    ]
)
PROVISIONED: Final = """
name: a volume is provisioned for the chosen node, and a pod has no node
objects:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "1", pods: "10"}}}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: made}
  provisioner: example.com/disks
  volumeBindingMode: WaitForFirstConsumer
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: claim, namespace: a}
  spec: {accessModes: [ReadWriteOnce], storageClassName: made, resources: {requests: {storage: 1Gi}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p, namespace: a}
  spec: {schedulerName: muster-scheduler, volumes: [{name: v, persistentVolumeClaim: {claimName: claim}}]}
steps: [{}]
"""
Changed = set[tuple[str, str, FieldPath]]


def leaves(body: Any, at: FieldPath, ends: set[FieldPath]) -> Iterator[FieldPath]:
    """The paths that a patch writes, down to those that the list names."""
    if isinstance(body, dict) and at not in ends:
        for key, value in body.items():
            yield from leaves(value, (*at, key), ends)
    else:
        yield at


def changed(write: Write, changes: tuple[OwnChanges, ...]) -> Changed:
    """What a write changes, by resource and subresource; nothing if it is none of those of the list."""
    if not isinstance(write, Patch):
        return set()
    target = write.resource.plural, write.subresource
    ends = {path for each in changes for path in each.paths}
    known = {(kind.plural, each.subresource) for each in changes for kind in each.resources}
    assert isinstance(write.body, dict)
    return {(*target, path) for path in leaves(write.body, (), ends)} if target in known else set()


@pytest.fixture(scope="module")
def written() -> list[Write]:
    """All writes of engine and controllers in these scenarios, and of the process about a waiting pod."""
    found: list[Write] = []
    carry_out = Objects.write

    def record(objects: Objects, write: Write) -> Any:
        found.append(write)
        return carry_out(objects, write)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(Objects, "write", record)
        for text in (PROVISIONED, *(file.read_text(encoding="utf-8") for file in PLAYED)):
            for scenario in load_scenarios(text, "played"):
                run_scenario(scenario)
    waiting = parse_pod({"metadata": {"namespace": "a", "name": "p", "uid": "1"}, "spec": {}})
    rejected = rejection_patch(waiting, PodRejection("Unschedulable", "no node", "n1"), 0.0)
    assert rejected is not None
    return [*found, rejected]


def test_it_changes_all_that_the_list_names_and_nothing_else(written: list[Write]) -> None:
    allowed = {
        (kind.plural, each.subresource, path)
        for each in SCHEDULER_CHANGES
        for kind in each.resources
        for path in each.paths
    }
    found: Changed = set().union(*(changed(write, SCHEDULER_CHANGES) for write in written))
    assert (sorted(found - allowed), sorted(allowed - found)) == ([], [])


def test_conditions_of_pods_are_of_the_types_that_the_list_names(written: list[Write]) -> None:
    types = {
        item["type"]
        for write in written
        if isinstance(write, Patch) and (write.resource.plural, write.subresource) == ("pods", "status")
        for item in dict(write.body).get("status", {}).get("conditions", ())
    }
    # Whoever carries out an eviction says so first.
    types |= {item["type"] for write in written if isinstance(write, Evict) for item in write.conditions(0.0)}
    assert types == {kind for each in SCHEDULER_CHANGES for kind in each.conditions}


def test_adoption_changes_all_that_the_list_names_and_nothing_else() -> None:
    allowed = set(ADOPTED_POD_CHANGES.paths)
    bodies = (release("group"), joining("group"))
    assert {path for body in bodies for path in leaves(body, (), allowed)} == allowed
