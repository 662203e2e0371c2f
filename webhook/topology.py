"""Topology and group ConfigMaps, and constraints on PodGroups: can they be read, and can they ever hold?

A group is refused only for what no cluster of this topology could meet: free room is the scheduler's
question. Where the cluster has several topologies one that fits is enough; where it has none, only the text
is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import GROUP, ConfigMap, parse_config_map
from scheduler_core.model.gang import Gang, parse_gang, parse_native_gang, parse_x_gang
from scheduler_core.model.kinds import CONFIG_MAPS, NATIVE_POD_GROUPS, POD_GROUPS, X_POD_GROUPS
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.model.topology import LevelConstraint, TopologySpec, parse_constraints
from scheduler_core.topology.constraints import resolve
from scheduler_core.topology.feasibility import check
from scheduler_core.topology.tree import Tree, build
from webhook.verdict import ALLOW, FORBIDDEN, Cause, Verdict, refuse_malformed

CONFIG_MAP: Final = (CONFIG_MAPS.group, CONFIG_MAPS.kind)
_PARSERS: Final[dict[str, Callable[[msgspec.Raw], Gang]]] = {
    POD_GROUPS.group: parse_gang,
    X_POD_GROUPS.group: parse_x_gang,
    NATIVE_POD_GROUPS.group: parse_native_gang,
}
_ANNOTATION: Final = f"metadata.annotations[{TOPOLOGY_CONSTRAINTS_ANNOTATION}]"

# The topology ConfigMaps of the cluster, asked for only where constraints have to be held against them.
Topologies = Callable[[], Sequence[ConfigMap]]


def judge_config_map(raw: msgspec.Raw, old: msgspec.Raw | None, topologies: Topologies) -> Verdict:
    """The verdict on a ConfigMap that is new or was changed; results that are written back pass at once."""
    try:
        found = parse_config_map(raw)
        before = parse_config_map(old) if old is not None and found.role == GROUP else None
    except ModelError as error:
        return refuse_malformed(error)
    if before is not None and _same(found, before):
        return ALLOW
    if found.fault is not None:
        return refuse_malformed(found.fault)
    if found.role != GROUP:
        return ALLOW
    spec = found.content.group
    subject = f"ConfigMap {found.key}"
    return _judge(subject, "data.constraints", spec.constraints, spec.size, topologies)


def judge_pod_group(
    raw: msgspec.Raw, group: str, topologies: Topologies, old: msgspec.Raw | None = None
) -> Verdict:
    """The verdict on the constraints of a PodGroup of one API group; one without any passes.

    So does an update that leaves constraints and size alone, such as results that are written back.
    """
    try:
        gang = _PARSERS[group](raw)
        if old is not None and _asks(gang) == _asks(_PARSERS[group](old)):
            return ALLOW
        wishes = parse_constraints(gang.constraints, _ANNOTATION)
    except ModelError as error:
        return refuse_malformed(error)
    subject = f"PodGroup {gang.ref.namespace}/{gang.ref.name}"
    return _judge(subject, _ANNOTATION, wishes, gang.min_members, topologies)


def is_pod_group(kind: tuple[str, str]) -> bool:
    """Whether a (group, kind) is one of the PodGroups that may carry constraints."""
    return kind[0] in _PARSERS and kind[1] == POD_GROUPS.kind


def _judge(
    subject: str, field: str, wishes: Sequence[LevelConstraint], size: int, topologies: Topologies
) -> Verdict:
    if not wishes:
        return ALLOW
    refusals: list[str] = []
    for topology in topologies():
        text = _conflict(topology.content, wishes, size, field)
        if not text:
            return ALLOW
        refusals.append(f"{text}, on the topology of ConfigMap {topology.key}")
    if not refusals:
        return ALLOW
    return Verdict(
        allowed=False,
        code=FORBIDDEN,
        message=f"{subject}: {field}: {'; '.join(refusals)}",
        causes=tuple(Cause("FieldValueForbidden", text, field) for text in refusals),
        rules=("topology",),
    )


def _conflict(spec: TopologySpec, wishes: Sequence[LevelConstraint], size: int, field: str) -> str:
    """Why the wishes can never hold on a tree, or empty."""
    try:
        rules = resolve(spec.levels, wishes, field)
    except ModelError as error:
        return f"{error.path.removeprefix(f'{field}.')} {error.problem}"
    conflicts = check(_tree(spec.levels, spec.paths), rules, size)
    return "; ".join(conflict.text for conflict in conflicts)


@lru_cache(maxsize=4)
def _tree(levels: tuple[str, ...], paths: tuple[tuple[str, ...], ...]) -> Tree:
    """A tree is the same for every group that is held against it, and takes longer to build than to ask."""
    return build(levels, paths)


def _asks(gang: Gang) -> tuple[str, int]:
    return gang.constraints, gang.min_members


def _same(new: ConfigMap, old: ConfigMap) -> bool:
    """Whether an update leaves what users say of the group alone."""
    fields = ("name", "size", "priority", "constraints")
    return old.role == GROUP and all(new.data.get(name) == old.data.get(name) for name in fields)
