"""Node rules of a profile: which of the filters on nodes the profile has, for decisions outside of them."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.model.pods.affinity import PodNodeAffinity


class NodeRules(msgspec.Struct, frozen=True):
    """Whether a profile filters by `taints`, `cordons`, `affinity` and topology `spread` constraints.

    `added` is the affinity that the profile requires of the nodes of all of its pods.
    """

    taints: bool = True
    cordons: bool = True
    affinity: bool = True
    spread: bool = True
    added: PodNodeAffinity = PodNodeAffinity()


# For pods of unknown profiles.
ALL_RULES: Final = NodeRules()
