"""Every object that the chart renders is one that a real kube-apiserver takes, pods included."""

from __future__ import annotations

import json

import pytest

from tests.chart.live.installation import Plane
from tests.chart.rendering import CASES, NAMESPACE, Obj, objects, of_kind, succeed

# The first test starts the control plane.
pytestmark = pytest.mark.timeout(300)

DRY_RUN = ("apply", "--dry-run=server", "-f", "-")


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_accepted_without_a_warning(plane: Plane, case: str) -> None:
    # The namespace is there already, and its own labels stay as they are.
    wanted = [item for item in objects(case) if item["kind"] != "Namespace"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted})
    done = plane.cluster.kubectl(*DRY_RUN, "-o", "name", input=text)
    assert len(done.stdout.splitlines()) == len(wanted)
    assert done.stderr == ""


def test_the_namespace_that_the_chart_makes_is_accepted(plane: Plane) -> None:
    (found,) = of_kind(objects("everything", "another"), "Namespace")
    plane.cluster.kubectl(*DRY_RUN, input=json.dumps(found))


@pytest.mark.parametrize("case", CASES)
def test_pods_are_admitted_where_the_restricted_standard_is_enforced(plane: Plane, case: str) -> None:
    found = list(of_kind(objects(case), "Deployment"))
    for deployment in found:
        plane.cluster.kubectl(*DRY_RUN, input=json.dumps(pod_of(deployment)))
    assert len(found) == (3 if case == "everything" else 2)


def test_the_standard_is_in_force(plane: Plane) -> None:
    """Otherwise the test above proves nothing."""
    pod = pod_of(next(of_kind(objects("default"), "Deployment")))
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    done = plane.cluster.kubectl(*DRY_RUN, input=json.dumps(pod), check=False)
    assert done.returncode == 1
    assert 'violates PodSecurity "restricted' in done.stderr


def test_plain_manifests_hold_the_crds_and_the_namespace(plane: Plane) -> None:
    text = succeed(
        "template",
        "muster",
        "charts/muster",
        "--include-crds",
        "-n",
        NAMESPACE,
        "--set",
        "namespace.create=true",
        "--kube-version",
        plane.cluster.request("GET", "/version")["gitVersion"],
    )
    for kind in ("CustomResourceDefinition", "Namespace", "Deployment"):
        assert f"\nkind: {kind}\n" in text


def pod_of(deployment: Obj) -> Obj:
    template = deployment["spec"]["template"]
    spec = dict(template["spec"])
    # The chart's class is not installed here.
    spec.pop("priorityClassName", None)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": deployment["metadata"]["name"], "namespace": NAMESPACE},
        "spec": spec,
    }
