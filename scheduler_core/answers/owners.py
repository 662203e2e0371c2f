"""Owners of pods and the pods that their controllers would make: from a manifest, or for another scale."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from scheduler_core.answers.draft import Draft, Object
from scheduler_core.answers.fixes.group import with_minimum
from scheduler_core.answers.suppositions import waiting_twin
from scheduler_core.errors import ConfigError
from scheduler_core.model.groups.gang import Gang, group_key
from scheduler_core.model.names import DEFAULT_SCHEDULER, JOB_COMPLETION_INDEX, MUSTER_SCHEDULER
from scheduler_core.model.pods.pod import Pod
from scheduler_core.printing.counts import counted

# The field with the number of pods that each kind runs at once.
COUNTS: Final = {
    "Job": "parallelism",
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "ReplicationController": "replicas",
}
# More pods of one owner are refused: nobody reads the answer.
_MOST: Final = 10_000


def pods_of_manifest(draft: Draft, owner: Object) -> Iterator[Object]:
    """The pods that the controller of an owner would make first. Raises ConfigError for a malformed one."""
    kind, meta = str(owner["kind"]), owner["metadata"]
    namespace, name = str(meta.get("namespace") or "default"), str(meta.get("name"))
    spec = owner.get("spec") or {}
    template = spec.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise ConfigError(f"{kind} {namespace}/{name}", "spec.template.spec is required")
    if not isinstance(template.get("metadata") or {}, dict):
        raise ConfigError(f"{kind} {namespace}/{name}", "spec.template.metadata must be a mapping")
    count = spec.get(COUNTS[kind], 1)
    if kind == "Job" and isinstance(spec.get("completions"), int):
        count = min(count, spec["completions"])
    if not isinstance(count, int) or not 0 <= count <= _MOST:
        raise ConfigError(
            f"{kind} {namespace}/{name}", f"spec.{COUNTS[kind]}={count} is not a number from 0 to {_MOST}"
        )
    indexed = spec.get("completionMode") == "Indexed" or kind == "StatefulSet"
    for index in range(count):
        yield _pod(draft, kind, namespace, name, template, index, indexed=indexed)


def _pod(
    draft: Draft,
    kind: str,
    namespace: str,
    name: str,
    template: dict[str, Any],
    index: int,
    *,
    indexed: bool,
) -> Object:
    pod = copy.deepcopy(template)
    meta = pod.setdefault("metadata", {}) or {}
    pod["metadata"] = meta
    meta["namespace"], meta["name"] = namespace, f"{name}-{index}"
    if indexed and kind == "Job":
        for field in ("labels", "annotations"):
            meta[field] = {**(meta.get(field) or {}), JOB_COMPLETION_INDEX: str(index)}
    owner = {"kind": kind, "name": name, "uid": f"{kind}/{namespace}/{name}", "controller": True}
    meta["ownerReferences"] = [owner]
    pod["apiVersion"], pod["kind"] = "v1", "Pod"
    return as_admitted(draft, pod)


def as_admitted(draft: Draft, pod: Object) -> Object:
    """A new pod as the webhook admits it: pods of namespaces with a quota are Muster's.

    Without a schedulerName it has that of Kubernetes' own scheduler otherwise.
    """
    spec = pod.setdefault("spec", {})
    named = spec.get("schedulerName") or DEFAULT_SCHEDULER
    namespace = str(pod["metadata"].get("namespace") or "default")
    if named == DEFAULT_SCHEDULER and draft.quota_of(namespace) is not None:
        named = MUSTER_SCHEDULER
    spec["schedulerName"] = named
    return pod


def scale(draft: Draft, kind: str, namespace: str, name: str, count: int) -> None:
    """The pods of an owner as they are with another number of them.

    New pods are like its first one. Of too many pods, waiting ones go first, then the youngest. A PodGroup of
    them whose minimum is their number follows. Raises ConfigError.
    """
    path = f"scale {kind.lower()}/{name}"
    if not 0 <= count <= _MOST:
        raise ConfigError(path, f"{count} is not a number from 0 to {_MOST}")
    pods = [pod for pod in draft.pods_of(kind, namespace, name) if not pod.finished]
    if not pods:
        raise ConfigError(path, f"{kind} {namespace}/{name} has no pods that could be scaled")
    order = sorted(pods, key=lambda pod: (pod.assigned, -pod.created, pod.name))
    for obj in draft.raw_pods(order[: max(len(pods) - count, 0)]):
        draft.remove(obj)
    model = min(pods, key=lambda pod: (pod.created, pod.name))
    _add_like(draft, model, count - len(pods))
    group = _follow(draft, model, len(pods), count)
    draft.tell(f"{kind} {namespace}/{name} has {counted(count, 'pod')} instead of {len(pods)}{group}")


def _add_like(draft: Draft, model: Pod, count: int) -> None:
    stored = draft.get("Pod", model.namespace, model.name)
    for number in range(1, count + 1):
        if stored is not None:
            draft.put(waiting_twin(stored, f"{model.name}-more-{number}"))


def _follow(draft: Draft, model: Pod, before: int, count: int) -> str:
    """Give the group of the pods its new minimum, if it was their number; the text about it."""
    key = group_key(model)
    gang: Gang | None = draft.base.state.gangs.gangs.get(key) if key else None
    if gang is None or gang.min_members != before or count < 1:
        return ""
    changed = with_minimum(draft.base, gang, count)
    if changed is None:
        return ""
    for obj in changed.update:
        draft.put(dict(obj))
    return f", and {gang.ref} needs {count}"
