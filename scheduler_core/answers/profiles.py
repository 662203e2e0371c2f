"""The waiting pods of a cluster under another profile of its scheduler."""

from __future__ import annotations

import copy

import msgspec

from scheduler_core.answers.changes import Changes
from scheduler_core.errors import ConfigError
from scheduler_core.simulate.world import Simulation


def with_profile(base: Simulation, changes: Changes, name: str, instead: str = "") -> Changes:
    """The changes, with every waiting pod of Muster and every new pod under the profile with a name.

    `instead` is the profile that the result is compared with. Raises ConfigError if no profile has the name.
    """
    profiles = {profile.scheduler_name for profile in (changes.config or base.config).profiles}
    if name not in profiles:
        known = ", ".join(sorted(profiles))
        raise ConfigError("compare-profiles", f'no profile has the name "{name}" (there are {known})')
    other = f" instead of {instead}" if instead else ""
    create = tuple(_under(dict(obj), name) for obj in changes.create)
    update = {_key(obj): _under(dict(obj), name) for obj in changes.update}
    gone = {_key(obj) for obj in changes.delete}
    ours = profiles | base.scheduler.profiles.keys()
    for pod in base.state.pods.values():
        waits = not (pod.assigned or pod.finished or pod.terminating)
        key = ("Pod", pod.namespace, pod.name)
        if waits and pod.scheduler_name in ours and key not in update and key not in gone:
            obj = base.get(*key)
            if obj is not None:
                update[key] = _under(obj, name)
    return msgspec.structs.replace(
        changes,
        create=create,
        update=tuple(update.values()),
        texts=(*changes.texts, f"waiting pods are under profile {name}{other}"),
    )


def _key(obj: object) -> tuple[str, str, str]:
    meta = obj["metadata"] if isinstance(obj, dict) else {}
    kind = str(obj.get("kind")) if isinstance(obj, dict) else ""
    return kind, str(meta.get("namespace") or ""), str(meta.get("name"))


def _under(obj: dict[str, object], name: str) -> dict[str, object]:
    if obj.get("kind") != "Pod":
        return obj
    twin = copy.deepcopy(obj)
    spec = twin["spec"]
    if isinstance(spec, dict) and not spec.get("nodeName"):
        spec["schedulerName"] = name
    return twin
