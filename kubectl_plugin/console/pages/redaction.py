"""Texts without the names that the viewer may not see.

Texts of Muster name an object as `namespace/name`. Such a path is shown only where the namespace is one of
the viewer's: what is not known to be theirs is hidden, also the names of namespaces that are gone. Names that
stand alone are looked up: those of other namespaces, and of nodes where the viewer may not list them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kubectl_plugin.console.access.viewer import Namespaces, Viewer
from kubectl_plugin.console.cluster.live_cluster import LiveCluster

# What stands for a name that the viewer may not see.
HIDDEN: Final = "(another namespace)"
HIDDEN_NODE: Final = "(a node)"
HIDDEN_GROUP: Final = "QuotaGroup (another group)"
_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9._]*[A-Za-z0-9])?"
# Groups of quotas are objects of the cluster; names, and paths of them: `team-b`, `team-b/train-0`.
_NAMES: Final = re.compile(rf"QuotaGroup {_NAME}|{_NAME}(?:/{_NAME})*")
# Arguments of commands name the kind first: `quota/team-b`, `pod/team-b/train-0`.
_KINDS: Final = frozenset({"quota", "pod", "podgroup"})


class Redactor:
    """Hides names. `seen`: the namespaces of the viewer, None: all, so that no namespace is hidden.

    `foreign` and `nodes` are the names of other namespaces and of nodes to hide where they stand alone.
    """

    def __init__(
        self, seen: Namespaces, foreign: frozenset[str] = frozenset(), nodes: frozenset[str] = frozenset()
    ) -> None:
        self._seen = seen
        self._foreign = foreign
        self._nodes = nodes

    @classmethod
    def of(cls, viewer: Viewer, cluster: LiveCluster) -> Redactor:
        """The redactor for a viewer."""
        if viewer.whole:
            return cls(None)
        with cluster.lock:
            nodes = frozenset() if viewer.nodes else cluster.node_names()
            foreign = frozenset() if viewer.namespaces is None else cluster.namespaces() - viewer.namespaces
        return cls(viewer.namespaces, foreign, nodes)

    def text(self, words: str) -> str:
        """The text with HIDDEN, HIDDEN_NODE and HIDDEN_GROUP in place of names."""
        if self._seen is None and not self._nodes:
            return words
        return _NAMES.sub(self._shown, words)

    def clean(self, words: str) -> str:
        """The text if it names nothing hidden, else nothing."""
        return words if self.text(words) == words else ""

    def own(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names that the viewer may see."""
        return tuple(name for name in names if self.text(name) == name)

    def _shown(self, found: re.Match[str]) -> str:
        whole = found[0]
        if whole in self._nodes:
            return HIDDEN_NODE
        if self._seen is None:
            return whole
        if whole.startswith("QuotaGroup "):
            return HIDDEN_GROUP
        first, slash, rest = whole.partition("/")
        if not slash:
            return HIDDEN if self._foreign.intersection((first, *re.split("[._]", first))) else whole
        if first in _KINDS and first not in self._foreign:
            first = rest.partition("/")[0]
        if first in self._seen:
            return whole
        # No namespace has a dot: that is a resource. A number is one of two, unless a namespace is called so.
        plain = "." in first or first.isdecimal()
        return whole if plain and first not in self._foreign else HIDDEN
