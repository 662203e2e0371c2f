"""Affinity, tolerations and spread constraints of a pod: API forms and their typed, hashable values."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler_core.decoding import convert
from scheduler_core.errors import ModelError
from scheduler_core.model.selectors import (
    IN,
    LabelSelectorWire,
    NodeSelectorWire,
    NodeTerm,
    NodeTermWire,
    Requirement,
    Selector,
    parse_node_selector,
    parse_node_term,
    parse_selector,
)

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_FIELDS: Final = {"required": REQUIRED, "preferred": PREFERRED}


class Taint(msgspec.Struct, frozen=True, rename="camel"):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class Toleration(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's toleration. An empty key with Exists tolerates every taint; an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            # An empty key is only valid with Exists.
            return bool(self.key) and self.value == taint.value
        return self.operator == "Exists"


class PreferredNodeTerm(msgspec.Struct, frozen=True):
    """A preferred node selector term and its weight (1..100)."""

    weight: int
    term: NodeTerm


class PodNodeAffinity(msgspec.Struct, frozen=True):
    """Required terms (any one suffices; None: no requirement) and preferred terms."""

    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[PreferredNodeTerm, ...] = ()


class PodTerm(msgspec.Struct, frozen=True):
    """One pod (anti-)affinity term. No namespaces and no namespace selector: the pod's own namespace."""

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None
    weight: int = 0
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(msgspec.Struct, frozen=True):
    """Required and preferred terms of affinity or anti-affinity."""

    required: tuple[PodTerm, ...] = ()
    preferred: tuple[PodTerm, ...] = ()


class SpreadConstraint(msgspec.Struct, frozen=True):
    """A topology spread constraint with its policies resolved to their defaults."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: Selector
    min_domains: int = 1
    node_affinity_honored: bool = True
    node_taints_honored: bool = False
    match_label_keys: tuple[str, ...] = ()


class PreferredNodeTermWire(msgspec.Struct, frozen=True, rename="camel"):
    weight: int
    preference: NodeTermWire


class NodeAffinityWire(msgspec.Struct, frozen=True, rename=_FIELDS):
    required: NodeSelectorWire | None = None
    preferred: tuple[PreferredNodeTermWire, ...] | None = None


class PodTermWire(msgspec.Struct, frozen=True, rename="camel"):
    topology_key: str
    label_selector: LabelSelectorWire | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelectorWire | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodTermWire(msgspec.Struct, frozen=True, rename="camel"):
    weight: int
    pod_affinity_term: PodTermWire


class PodAffinityWire(msgspec.Struct, frozen=True, rename=_FIELDS):
    required: tuple[PodTermWire, ...] | None = None
    preferred: tuple[WeightedPodTermWire, ...] | None = None


class AffinityWire(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: NodeAffinityWire | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


class SpreadWire(msgspec.Struct, frozen=True, rename="camel"):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelectorWire | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


def parse_node_affinity(wire: NodeAffinityWire | None, path: str) -> PodNodeAffinity:
    """Typed node affinity; ModelError names the broken term. What weighs nothing is not read."""
    if wire is None:
        return PodNodeAffinity()
    required = parse_node_selector(wire.required, f"{path}.{REQUIRED}")
    base = f"{path}.{PREFERRED}"
    preferred = tuple(
        PreferredNodeTerm(item.weight, parse_node_term(item.preference, f"{base}[{i}].preference"))
        for i, item in enumerate(wire.preferred or ())
        if item.weight
    )
    return PodNodeAffinity(required, preferred)


def read_node_affinity(raw: Any) -> PodNodeAffinity:
    """Typed node affinity of plain data in the API's form (None: no affinity), as a configuration has it."""
    wire = convert(raw, NodeAffinityWire) if raw is not None else None
    return parse_node_affinity(wire, "addedAffinity")


def _keyed(selector: Selector, keys: tuple[str, ...], labels: dict[str, str], operator: str) -> Selector:
    """matchLabelKeys and mismatchLabelKeys: the pod's own values join the selector."""
    if not keys or selector.nothing:
        return selector
    extra = tuple(Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return Selector(selector.requirements + extra)


def _parse_pod_term(wire: PodTermWire, path: str, labels: dict[str, str], weight: int = 0) -> PodTerm:
    if not wire.topology_key:
        raise ModelError(f"{path}.topologyKey", "must not be empty")
    selector = parse_selector(wire.label_selector, f"{path}.labelSelector")
    match_keys, mismatch_keys = wire.match_label_keys or (), wire.mismatch_label_keys or ()
    selector = _keyed(selector, match_keys, labels, IN)
    selector = _keyed(selector, mismatch_keys, labels, "NotIn")
    namespace_selector = None
    if wire.namespace_selector is not None:
        namespace_selector = parse_selector(wire.namespace_selector, f"{path}.namespaceSelector")
    return PodTerm(
        topology_key=wire.topology_key,
        selector=selector,
        namespaces=tuple(sorted(wire.namespaces or ())),
        namespace_selector=namespace_selector,
        weight=weight,
        match_label_keys=match_keys,
        mismatch_label_keys=mismatch_keys,
    )


def parse_pod_affinity(wire: PodAffinityWire | None, path: str, labels: dict[str, str]) -> PodAffinity:
    """Typed pod (anti-)affinity; `labels` are the pod's own, for matchLabelKeys (KEP-3633)."""
    if wire is None:
        return PodAffinity()
    base = f"{path}.{REQUIRED}"
    required = tuple(
        _parse_pod_term(term, f"{base}[{i}]", labels) for i, term in enumerate(wire.required or ())
    )
    base = f"{path}.{PREFERRED}"
    preferred = tuple(
        _parse_pod_term(item.pod_affinity_term, f"{base}[{i}].podAffinityTerm", labels, item.weight)
        for i, item in enumerate(wire.preferred or ())
    )
    return PodAffinity(required, preferred)


def parse_spread(wire: SpreadWire, path: str, labels: dict[str, str]) -> SpreadConstraint:
    """Typed spread constraint; matchLabelKeys take the pod's own values (KEP-3243)."""
    if wire.max_skew < 1:
        raise ModelError(f"{path}.maxSkew", f"{wire.max_skew} must be greater than zero")
    if not wire.topology_key:
        raise ModelError(f"{path}.topologyKey", "must not be empty")
    if wire.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
        raise ModelError(
            f"{path}.whenUnsatisfiable",
            f"{wire.when_unsatisfiable!r} must be DoNotSchedule or ScheduleAnyway",
        )
    selector = parse_selector(wire.label_selector, f"{path}.labelSelector")
    keys = wire.match_label_keys or ()
    return SpreadConstraint(
        max_skew=wire.max_skew,
        topology_key=wire.topology_key,
        hard=wire.when_unsatisfiable == "DoNotSchedule",
        selector=_keyed(selector, keys, labels, IN),
        min_domains=wire.min_domains or 1,
        node_affinity_honored=wire.node_affinity_policy != "Ignore",
        node_taints_honored=wire.node_taints_policy == "Honor",
        match_label_keys=keys,
    )
