"""The groups that Muster made, as the watch shows them, in the order in which they are looked at."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.kinds import POD_GROUPS
from webhook.owner_gangs.made_groups import StoredGroup
from webhook.view.owners import is_possible


class AutomaticGroups:
    """Kept by the watch, so that a round costs what it looks at, however many groups there are. Thread-safe.

    The namespaces take turns, and in each the group that was looked at longest ago is next; a new one is
    first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: OrderedDict[str, OrderedDict[str, StoredGroup]] = OrderedDict()

    def sink(self, event: Event) -> None:
        """Take one change of a PodGroup; other events are passed over."""
        if event.resource != POD_GROUPS or not event.key:
            return
        namespace, _, name = event.key.partition("/")
        group: PodGroup | None = event.obj
        with self._lock:
            known = self._groups.get(namespace)
            if group is None or not group.automatic:
                if known is not None and known.pop(name, None) is not None and not known:
                    del self._groups[namespace]
                return
            known = self._groups.setdefault(namespace, OrderedDict())
            old = known.get(name)
            known[name] = _stored(group)
            if old is None or old.uid != group.uid:
                known.move_to_end(name, last=False)

    def put_first(self, keys: Iterable[str]) -> None:
        """Let these groups (`namespace/name`) be the next ones of their namespaces."""
        with self._lock:
            for key in keys:
                namespace, _, name = key.partition("/")
                known = self._groups.get(namespace)
                if known is not None and name in known:
                    known.move_to_end(name, last=False)

    def turn(self, asks: Callable[[str], bool]) -> TurnOfGroups:
        """A turn over all groups of namespaces for which `asks` is true."""
        with self._lock:
            wanted = [namespace for namespace in self._groups if asks(namespace)]
        return TurnOfGroups(self, wanted)

    def take(self, namespace: str, passed: set[str]) -> StoredGroup | None:
        """The next group of a namespace; None if there is none that is not among those passed (uids)."""
        with self._lock:
            known = self._groups.get(namespace)
            if known is None:
                return None
            name, group = next(iter(known.items()))
            if group.uid in passed:
                return None
            known.move_to_end(name)
            self._groups.move_to_end(namespace)
            return group


class TurnOfGroups:
    """Each group once at most, the namespaces in turn."""

    def __init__(self, groups: AutomaticGroups, namespaces: list[str]) -> None:
        self._groups = groups
        self._waiting = OrderedDict.fromkeys(namespaces)
        self._passed: set[str] = set()

    def next(self) -> StoredGroup | None:
        """The next group; None once all were looked at."""
        while self._waiting:
            namespace, _ = self._waiting.popitem(last=False)
            group = self._groups.take(namespace, self._passed)
            if group is not None:
                self._waiting[namespace] = None
                self._passed.add(group.uid)
                return group
        return None


def _stored(group: PodGroup) -> StoredGroup:
    return StoredGroup(
        group.namespace,
        group.name,
        group.uid,
        group.resource_version,
        group.ending,
        group.min_members,
        group.automatic,
        group.source,
        tuple(filter(is_possible, group.owners)),
    )
