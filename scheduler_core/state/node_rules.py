"""Which of the rules about a node itself hold for pods: those whose filters their profile has."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.model.affinity import NodeAffinity


class NodeRules(msgspec.Struct, frozen=True):
    """`taints`, `cordons` and `affinity` say whether a profile filters by them.

    `added` is the affinity that the profile requires of the nodes of all of its pods.
    """

    taints: bool = True
    cordons: bool = True
    affinity: bool = True
    added: NodeAffinity = NodeAffinity()


# Of a profile that nobody knows.
ALL_RULES: Final = NodeRules()
