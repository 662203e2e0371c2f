"""Turns the filter bits of an attempt without a node into a Diagnosis: the reasons that users read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import FilterPlugin
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.obstacles import NOMINATED_PODS
from scheduler_core.framework.status import Bits, Diagnosis, Rejection, Status


def _counts(plugin: FilterPlugin, cycle: Cycle, bits: Bits) -> list[Rejection]:
    """Rejections of one plugin over the nodes it refused first; equal texts count once per node."""
    combined: dict[str, NDArray[np.uint64]] = {}
    union = int(np.bitwise_or.reduce(bits)) if len(bits) else 0
    for bit, reason in enumerate(plugin.reasons(cycle)):
        if union >> bit & 1:
            hit = bits >> np.uint64(bit) & np.uint64(1)
            combined[reason.text] = combined.get(reason.text, np.uint64(0)) | hit
    return [Rejection(plugin.name, text, int(hit.sum())) for text, hit in combined.items()]


def diagnose(
    profile: Profile,
    cycle: Cycle,
    bits: Mapping[str, Bits],
    alive: Bool,
    status: Status | None = None,
    refused_by: Iterable[str] = (),
) -> Diagnosis:
    """The Diagnosis of an attempt without a node. A node counts for the first filter that refuses it.

    `bits`: uint64 [N] per filter in the profile's order. `alive`: bool [N]. `status`: the first refusal of a
    PreFilter plugin. `refused_by`: all PreFilter plugins that refused.
    """
    total = int(alive.sum())
    if status is not None and not status.ok:
        return Diagnosis(total, status, plugins=frozenset({status.plugin, *refused_by}))
    left = alive.copy()
    rejections: list[Rejection] = []
    for plugin in profile.filter:
        own = bits.get(plugin.name)
        if own is None:
            continue
        refused = left & (own != 0)
        if refused.any():
            rejections.extend(_counts(plugin, cycle, own[refused]))
            left &= ~refused
    plugins = {rejection.plugin for rejection in rejections}
    if left.any() or not rejections:
        # No filter refused: there is no node, or the free room belongs to nominated pods. Any event that a
        # plugin listens to is then worth another attempt.
        plugins = {plugin.name for plugin in profile.plugins} | {NOMINATED_PODS}
        if left.any():
            rejections.append(Rejection("", "node(s) kept for nominated pods", int(left.sum())))
    return Diagnosis(
        total, None, tuple(rejections), frozenset(plugins), lasting=_lasting(profile, cycle, bits, alive)
    )


def unresolvable_nodes(profile: Profile, cycle: Cycle, bits: Mapping[str, Bits], alive: Bool) -> Bool:
    """bool [N]: nodes that no eviction can make fit, because of a reason that is not resolvable."""
    found = ~alive
    for _, refused in _unresolvable(profile, cycle, bits):
        found |= refused
    return found


def _lasting(profile: Profile, cycle: Cycle, bits: Mapping[str, Bits], alive: Bool) -> frozenset[str]:
    """The filters that refuse nodes for such reasons, if each node is refused so; else none."""
    found, names = ~alive, set()
    for name, refused in _unresolvable(profile, cycle, bits):
        if (refused & alive).any():
            names.add(name)
            found |= refused
    return frozenset(names) if found.all() else frozenset()


def _unresolvable(profile: Profile, cycle: Cycle, bits: Mapping[str, Bits]) -> Iterator[tuple[str, Bool]]:
    """For each filter that has reasons which are not resolvable: bool [N], the nodes that it refuses so."""
    for plugin in profile.filter:
        if plugin.name in bits:
            reasons = enumerate(plugin.reasons(cycle))
            mask = sum(1 << bit for bit, reason in reasons if not reason.resolvable)
            if mask:
                yield plugin.name, (bits[plugin.name] & np.uint64(mask)) != 0


def reason_texts(plugin: FilterPlugin, cycle: Cycle, bits: int) -> str:
    """The reasons of one node's bits, joined; `pass` where no bit is set."""
    texts = [reason.text for bit, reason in enumerate(plugin.reasons(cycle)) if bits >> bit & 1]
    return ", ".join(dict.fromkeys(texts)) or "pass"
