"""Current use of every ResourceQuota, kept exact by listening to the store.

The store calls back synchronously with each change, so an object is charged in the same step in which it is
stored. Admission checks right before the store, with nothing awaited in between; together that makes
check-and-charge one step of the event loop, and no two requests can both take the last unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.admission.quota_usage import (
    Amounts,
    Obj,
    difference,
    hard_of,
    is_finished,
    resize_state,
    scopes_match,
    usage_of,
)
from sandbox.builtin import RESOURCE_QUOTAS
from sandbox.kinds import ApiKind, KindTable
from sandbox.store import EventType, Store
from scheduler_core.errors import ModelError
from scheduler_core.model.resources import to_strings


@dataclass(slots=True)
class QuotaAccount:
    """One quota: its object, its limits, and what is used now (only resources named in `hard`)."""

    obj: Obj
    hard: Amounts
    used: Amounts = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        meta = self.obj["metadata"]
        return meta["namespace"], meta["name"]


class QuotaLedger:
    """All accounts by namespace. `listeners` hear (namespace, name) whenever an account may have changed."""

    def __init__(self, store: Store, kinds: KindTable) -> None:
        self._store = store
        self._kinds = kinds
        self._accounts: dict[str, dict[str, QuotaAccount]] = {}
        self.listeners: list[Callable[[str, str], None]] = []
        for quota in store.iterate(RESOURCE_QUOTAS):
            self._open(quota)
        store.subscribe(RESOURCE_QUOTAS, self._on_quota)
        store.subscribe(None, self._on_object)

    def accounts(self, namespace: str) -> list[QuotaAccount]:
        """The namespace's accounts in name order."""
        found = self._accounts.get(namespace)
        return [found[name] for name in sorted(found)] if found else []

    def account(self, namespace: str, name: str) -> QuotaAccount | None:
        """One account."""
        return self._accounts.get(namespace, {}).get(name)

    def _on_quota(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        meta = obj["metadata"]
        if event == "DELETED":
            by_name = self._accounts.get(meta["namespace"], {})
            by_name.pop(meta["name"], None)
            if not by_name:
                self._accounts.pop(meta["namespace"], None)
        elif old is None or old.get("spec") != obj.get("spec"):
            self._open(obj)
            self._tell(meta["namespace"], meta["name"])
        else:
            self._accounts[meta["namespace"]][meta["name"]].obj = obj

    def _open(self, quota: Obj) -> None:
        meta = quota["metadata"]
        account = QuotaAccount(quota, _hard(quota))
        account.used = dict.fromkeys(account.hard, 0)
        for storage, obj in self._contents(meta["namespace"]):
            if scopes_match(quota, storage, obj):
                _add(account, _usage(storage, obj))
        self._accounts.setdefault(meta["namespace"], {})[meta["name"]] = account

    def _contents(self, namespace: str) -> Iterator[tuple[str, Obj]]:
        seen: set[str] = set()
        for kind in self._kinds:
            if kind.namespaced and kind.storage not in seen:
                seen.add(kind.storage)
                for obj in self._store.iterate(kind, namespace):
                    yield kind.storage, obj

    def _on_object(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        namespace = obj["metadata"].get("namespace", "")
        accounts = self._accounts.get(namespace)
        if not accounts:
            return
        kind = self._kinds.of(obj)
        if kind is None or (kind is RESOURCE_QUOTAS and event == "ADDED"):
            return  # a new quota counts itself when its account is opened
        after = None if event == "DELETED" else obj
        before = None if event == "ADDED" else old or obj
        for name, account in accounts.items():
            change = change_for(account.obj, kind, after, before)
            if _add(account, change):
                self._tell(namespace, name)

    def _tell(self, namespace: str, name: str) -> None:
        for listener in self.listeners:
            listener(namespace, name)


def change_for(quota: Obj, kind: ApiKind, new: Obj | None, old: Obj | None) -> Amounts:
    """What replacing `old` by `new` changes in a quota's use; None stands for no object."""
    if new is not None and old is not None and _costs_the_same(kind, new, old):
        return {}
    return difference(_counted(quota, kind.storage, new), _counted(quota, kind.storage, old))


def _hard(quota: Obj) -> Amounts:
    try:
        return hard_of(quota)
    except ModelError:
        return {}  # admission refuses such a quota; the listener of the store must not raise


def _costs_the_same(kind: ApiKind, new: Obj, old: Obj) -> bool:
    # What an object costs depends on its spec, on whether it has finished and on how far a resize of a pod
    # has come; most updates change none of them.
    same = new.get("spec") == old.get("spec") and is_finished(new) == is_finished(old)
    return same and (kind.storage != "pods" or resize_state(new) == resize_state(old))


def _counted(quota: Obj, storage: str, obj: Obj | None) -> Amounts:
    return _usage(storage, obj) if obj is not None and scopes_match(quota, storage, obj) else {}


def _usage(storage: str, obj: Obj) -> Amounts:
    try:
        return usage_of(storage, obj)
    except ModelError:
        return {f"count/{storage}": 1}  # an object with a malformed quantity is still one object


def _add(account: QuotaAccount, change: Amounts) -> bool:
    touched = False
    for name, amount in change.items():
        if name in account.hard and amount:
            account.used[name] = account.used.get(name, 0) + amount
            touched = True
    return touched


def status_of(account: QuotaAccount) -> dict[str, Any]:
    """`status` of the quota as the API shows it."""
    hard = account.obj.get("spec", {}).get("hard") or {}
    return {"hard": dict(hard), "used": to_strings(account.used)}
