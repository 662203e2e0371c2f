"""Typed arguments of PodTopologySpread: default constraints for pods without constraints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import structs

from scheduler_core.config.args.kubernetes import LIST_DEFAULTING, SYSTEM_DEFAULTING
from scheduler_core.config.decode import Int32
from scheduler_core.config.problems import (
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from scheduler_core.config.qualified import qualified_name_problem
from scheduler_core.config.schema import PluginArgs
from scheduler_core.errors import ConfigError

WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")


class DefaultSpreadConstraint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A topology spread constraint of a pod, without a selector: that is deduced per pod."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: Any = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodTopologySpreadArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """`System` means Kubernetes' own constraints (host 3, zone 5), `List` those of `default_constraints`."""

    default_constraints: tuple[DefaultSpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM_DEFAULTING

    def filled(self) -> PodTopologySpreadArgs:
        return structs.replace(self, defaulting_type=self.defaulting_type or SYSTEM_DEFAULTING)

    def problems(self, path: str) -> Iterator[ConfigError]:
        kinds = (SYSTEM_DEFAULTING, LIST_DEFAULTING)
        if self.defaulting_type not in kinds:
            yield not_supported(child(path, "defaultingType"), self.defaulting_type, kinds)
        elif self.defaulting_type == SYSTEM_DEFAULTING and self.default_constraints:
            rule = "when .defaultConstraints are not empty"
            yield invalid(child(path, "defaultingType"), self.defaulting_type, rule)
        seen: set[tuple[str, str]] = set()
        for i, constraint in enumerate(self.default_constraints):
            place = index(child(path, "defaultConstraints"), i)
            yield from _constraint_problems(place, constraint)
            same = (constraint.topology_key, constraint.when_unsatisfiable)
            if same in seen:
                yield duplicate(place, f"{{{same[0]}, {same[1]}}}")
            seen.add(same)


def _constraint_problems(path: str, constraint: DefaultSpreadConstraint) -> Iterator[ConfigError]:
    if constraint.max_skew <= 0:
        yield invalid(child(path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    key = constraint.topology_key
    key_problem = qualified_name_problem(key) if key else None
    if not key:
        yield required(child(path, "topologyKey"), "can not be empty")
    elif key_problem:
        yield invalid(child(path, "topologyKey"), key, key_problem)
    action = constraint.when_unsatisfiable
    if not action:
        yield required(child(path, "whenUnsatisfiable"), "can not be empty")
    elif action not in WHEN_UNSATISFIABLE:
        yield not_supported(child(path, "whenUnsatisfiable"), action, WHEN_UNSATISFIABLE)
    if constraint.label_selector is not None:
        rule = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(child(path, "labelSelector"), rule)
