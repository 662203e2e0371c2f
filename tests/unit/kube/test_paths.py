"""URL paths of API resources."""

from __future__ import annotations

import pytest

from scheduler_core.kube.paths import resource_path, with_query
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NODES, PODS

PATHS = [
    ("all pods", resource_path(PODS), "/api/v1/pods"),
    ("pods of a namespace", resource_path(PODS, "a"), "/api/v1/namespaces/a/pods"),
    ("a subresource", resource_path(PODS, "a", "p", "status"), "/api/v1/namespaces/a/pods/p/status"),
    ("a node, whatever the namespace", resource_path(NODES, "a", "n"), "/api/v1/nodes/n"),
    ("a group", resource_path(ELASTIC_QUOTAS), "/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas"),
    ("a hostile name stays one segment", resource_path(NODES, "", "../x?y"), "/api/v1/nodes/..%2Fx%3Fy"),
    ("a query without the unset", with_query("/x", {"a": "", "b": None, "c": True, "d": 5}), "/x?c=true&d=5"),
    ("a query is escaped", with_query("/x", {"labelSelector": "a=b,c"}), "/x?labelSelector=a%3Db%2Cc"),
    ("no query at all", with_query("/x", {"watch": False}), "/x"),
]


@pytest.mark.parametrize(("made", "path"), [p[1:] for p in PATHS], ids=[p[0] for p in PATHS])
def test_paths(made: str, path: str) -> None:
    assert made == path


def test_a_namespaced_object_without_namespace_has_no_path() -> None:
    with pytest.raises(ValueError, match="Pod p: a namespaced object needs a namespace"):
        resource_path(PODS, "", "p")
