"""Node rules of a profile: which of the filters on a node's own properties the profile has."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.model.pods.affinity import PodNodeAffinity


class NodeRules(msgspec.Struct, frozen=True):
    """Whether a profile filters by `taints`, `cordons` and `affinity`.

    `added` is the affinity that the profile requires of the nodes of all of its pods.
    """

    taints: bool = True
    cordons: bool = True
    affinity: bool = True
    added: PodNodeAffinity = PodNodeAffinity()


# For pods of unknown profiles.
ALL_RULES: Final = NodeRules()
