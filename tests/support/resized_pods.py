"""Pods that are being resized, as an API server stores them, and a quota for them."""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.kube.client import Client
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.writes import Create, Patch
from tests.support.builders import make_pod

Raw = dict[str, Any]
# Of each container the CPUs that are asked for, allocated and actuated; empty: the node does not say.
Containers = tuple[tuple[str, str, str], ...]

# The largest sum is that of all moments, 4 CPUs; the sum of what is largest for each container is 6.
MOVED: Final[Containers] = (("1", "3", "3"), ("3", "1", "1"))
RESIZES: Final[dict[str, Containers]] = {
    "moved": MOVED,
    "half-done": (("1", "3", "1"), ("3", "1", "3")),
    "grows": (("3", "1", "1"), ("2", "2", "2")),
    "shrinks": (("1", "3", "3"), ("1", "1", "1")),
    "not-actuated": (("1", "3", ""), ("1", "1", "")),
    "not-allocated": (("1", "", "3"), ("2", "", "1")),
    "at-rest": (("1", "1", "1"), ("2", "2", "2")),
    "not-started": (("1", "", ""),),
}


def resized_pod(key: str, containers: Containers, group: str = "") -> Raw:
    """A pod on the node `n` that runs."""
    made = make_pod(key).on("n")
    pod = (made.group(group) if group else made).dict()
    named = {f"c{number}": amounts for number, amounts in enumerate(containers)}
    pod["spec"]["containers"] = [
        {"name": name, "image": "i", "resources": {"requests": {"cpu": asked}}}
        for name, (asked, _, _) in named.items()
    ]
    told: list[Raw] = []
    for name, (_, allocated, actuated) in named.items():
        told.append({"name": name})
        if allocated:
            told[-1]["allocatedResources"] = {"cpu": allocated}
        if actuated:
            told[-1]["resources"] = {"requests": {"cpu": actuated}}
    pod["status"] = {"phase": "Running", "containerStatuses": told}
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def quota(namespace: str = "default", low: int = 8, used: str = "0") -> Raw:
    """A quota on CPUs whose pods may use as many as they want. `used` is what its status tells."""
    return {
        "apiVersion": ELASTIC_QUOTAS.api_version,
        "kind": ELASTIC_QUOTAS.kind,
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": low}, "max": {"cpu": 1000}},
        "status": {"used": {"cpu": used}},
    }


def put(client: Client, obj: Raw) -> None:
    """Create an object with its status."""
    meta = obj["metadata"]
    kind = PODS if obj["kind"] == PODS.kind else ELASTIC_QUOTAS
    head = {name: meta[name] for name in ("name", "namespace", "labels", "annotations") if name in meta}
    client.create(Create(kind, meta["namespace"], {**obj, "metadata": head}))
    body = {"status": obj["status"]}
    client.patch(Patch(kind, meta["namespace"], meta["name"], body, subresource="status"))
