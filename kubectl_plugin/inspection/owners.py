"""The controllers above the pods of a namespace, as far as the user may read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubectl_plugin.cluster.reading import ListClient, ListScope, list_if_served
from scheduler_core.model.kinds import JOBS, REPLICA_SETS, Resource
from scheduler_core.model.meta import OwnerReference, identity_of
from scheduler_core.model.pods.pod import Pod

# Controllers that are often controlled themselves: by a Deployment, a CronJob, a JobSet.
_CONTROLLED: Final[dict[str, Resource]] = {"ReplicaSet": REPLICA_SETS, "Job": JOBS}

# Controllers above a pod that are followed: a longer chain is nobody's workload.
_MOST: Final = 8

# By the uid of the controlled object.
Parents = Mapping[str, OwnerReference]


def read_parents(
    client: ListClient, namespace: str, pods: Iterable[Pod]
) -> tuple[dict[str, OwnerReference], list[str]]:
    """The controllers of the ReplicaSets and Jobs that control pods, and the kinds that may not be listed.

    A controller of a kind that may not be listed counts as the top one.
    """
    kinds = {pod.controller.kind for pod in pods if pod.controller is not None}
    found: dict[str, OwnerReference] = {}
    refused = []
    for kind in sorted(kinds & _CONTROLLED.keys()):
        resource = _CONTROLLED[kind]
        listed = list_if_served(client, resource, ListScope(namespace))
        if listed is None:
            refused.append(resource.plural)
        for raw in listed or ():
            meta = identity_of(raw)
            if meta.controller is not None:
                found[meta.uid] = meta.controller
    return found, refused


def chain_of(pod: Pod, parents: Parents) -> tuple[OwnerReference, ...]:
    """The known controllers of a pod, at most _MOST, the top one first; none for a pod of its own."""
    chain: list[OwnerReference] = []
    seen: set[str] = set()
    above = pod.controller
    while above is not None and above.uid not in seen and len(chain) < _MOST:
        seen.add(above.uid)
        chain.append(above)
        above = parents.get(above.uid)
    return tuple(reversed(chain))
