"""Topology and group ConfigMaps, and constraints on PodGroups: can they be read, and can they ever hold?

A group is refused only for what no cluster of this topology could meet: free room is the scheduler's
question (scheduler_core.topology.admission). Where nobody says which topologies there are, only the text is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import GROUP, ConfigMap, parse_config_map
from scheduler_core.model.gang import Gang, parse_gang, parse_native_gang, parse_x_gang
from scheduler_core.model.kinds import CONFIG_MAPS, NATIVE_POD_GROUPS, POD_GROUPS, X_POD_GROUPS
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.model.topology import parse_constraints
from scheduler_core.topology.admission import Wish, refusals
from webhook.verdict import ALLOW, FORBIDDEN, Cause, Verdict, refuse_malformed

CONFIG_MAP: Final = (CONFIG_MAPS.group, CONFIG_MAPS.kind)
_PARSERS: Final[dict[str, Callable[[msgspec.Raw], Gang]]] = {
    POD_GROUPS.group: parse_gang,
    X_POD_GROUPS.group: parse_x_gang,
    NATIVE_POD_GROUPS.group: parse_native_gang,
}
_ANNOTATION: Final = f"metadata.annotations[{TOPOLOGY_CONSTRAINTS_ANNOTATION}]"

# The topology ConfigMaps of the cluster, asked for only where constraints have to be held against them; None
# where the API server does not answer.
Topologies = Callable[[], Sequence[ConfigMap] | None]
# The keys of the labels that the cluster's nodes have.
Labels = Callable[[], Collection[str]]


def judge_config_map(
    raw: msgspec.Raw, old: msgspec.Raw | None, topologies: Topologies, labels: Labels = frozenset
) -> Verdict:
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
    wish = Wish(spec.constraints, spec.size, "data.constraints")
    return _judge(f"ConfigMap {found.key}", wish, topologies, labels)


def judge_pod_group(
    raw: msgspec.Raw,
    group: str,
    topologies: Topologies,
    old: msgspec.Raw | None = None,
    labels: Labels = frozenset,
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
    return _judge(subject, Wish(wishes, gang.min_members, _ANNOTATION), topologies, labels)


def is_pod_group(kind: tuple[str, str]) -> bool:
    """Whether a (group, kind) is one of the PodGroups that may carry constraints."""
    return kind[0] in _PARSERS and kind[1] == POD_GROUPS.kind


def _judge(subject: str, wish: Wish, topologies: Topologies, labels: Labels) -> Verdict:
    if not wish.constraints:
        return ALLOW
    known = topologies()
    if known is None:
        return ALLOW
    found = refusals(wish, [(topology.key, topology.content) for topology in known], labels)
    if not found:
        return ALLOW
    return Verdict(
        allowed=False,
        code=FORBIDDEN,
        message=f"{subject}: {wish.field}: {'; '.join(found)}",
        causes=tuple(Cause("FieldValueForbidden", text, wish.field) for text in found),
        rules=("topology",),
    )


def _asks(gang: Gang) -> tuple[str, int]:
    return gang.constraints, gang.min_members


def _same(new: ConfigMap, old: ConfigMap) -> bool:
    """Whether an update leaves what users say of the group alone."""
    fields = ("name", "size", "priority", "constraints")
    return old.role == GROUP and all(new.data.get(name) == old.data.get(name) for name in fields)
