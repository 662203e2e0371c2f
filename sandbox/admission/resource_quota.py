"""ResourceQuota plugin: current use of every ResourceQuota, and the last check before storage.

The store calls its subscribers synchronously, so an object is charged in the step in which it is stored. The
check runs directly before storage without an await. Check and charge are therefore one step of the event
loop, and two requests cannot both take the last unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox import errors
from sandbox.admission.quota_evaluators import (
    Amounts,
    difference,
    hard_of,
    is_finished,
    missing_values,
    refusal_of,
    resize_state,
    scopes_match,
    usage_of,
)
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.kinds.builtin import RESOURCE_QUOTAS
from sandbox.objects import Obj
from sandbox.store.object_store import EventType, ObjectStore
from sandbox.store.requests import AdmissionRequest
from scheduler_core.errors import ModelError
from scheduler_core.model.resources import to_strings


@dataclass(slots=True)
class QuotaAccount:
    """One quota: its object, its limits `hard`, and the current use of the resources in `hard`."""

    obj: Obj
    hard: Amounts
    used: Amounts = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        meta = self.obj["metadata"]
        return meta["namespace"], meta["name"]


class QuotaAccounts:
    """All accounts by namespace. `listeners` are called with (namespace, name) when an account may change."""

    def __init__(self, store: ObjectStore, kinds: KindTable) -> None:
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
        """The account of one quota; None if the quota does not exist."""
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
            self._notify(meta["namespace"], meta["name"])
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
            return  # a new quota is counted when its account is opened
        after = None if event == "DELETED" else obj
        before = None if event == "ADDED" else old or obj
        for name, account in accounts.items():
            change = change_for(account.obj, kind, after, before)
            if _add(account, change):
                self._notify(namespace, name)

    def _notify(self, namespace: str, name: str) -> None:
        for listener in self.listeners:
            listener(namespace, name)


def change_for(quota: Obj, kind: ApiKind, new: Obj | None, old: Obj | None) -> Amounts:
    """Change of a quota's use if `new` replaces `old`; None means no object."""
    if new is not None and old is not None and _costs_the_same(kind, new, old):
        return {}
    return difference(_counted(quota, kind.storage, new), _counted(quota, kind.storage, old))


def _hard(quota: Obj) -> Amounts:
    try:
        return hard_of(quota)
    except ModelError:
        return {}  # admission refuses such a quota; the listener of the store must not raise


def _costs_the_same(kind: ApiKind, new: Obj, old: Obj) -> bool:
    if kind.storage == "persistentvolumeclaims":
        return False  # what they cost is in spec, status and an annotation, and is quickly found
    # Usage depends on spec, phase and resize status of an object; most updates change none of them.
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


class ResourceQuotaCheck:
    """Refuses requests that exceed a quota. It never awaits: see the module's docstring."""

    def __init__(self, ledger: QuotaAccounts) -> None:
        self._ledger = ledger

    def validate(self, req: AdmissionRequest) -> None:
        """Raises StatusError (Forbidden) with kube-apiserver's message."""
        if req.obj is None or req.operation not in ("CREATE", "UPDATE"):
            return
        if not req.kind.namespaced or not _charges(req):
            return
        accounts = [a for a in self._ledger.accounts(req.namespace) if _concerns(a, req)]
        for account in accounts:
            self._require_values(account, req)
        for account in accounts:
            self._require_room(account, req)

    def _require_values(self, account: QuotaAccount, req: AdmissionRequest) -> None:
        if req.kind.storage != "pods" or req.obj is None:
            return
        if not change_for(account.obj, req.kind, req.obj, None):
            return
        missing = missing_values(account.hard, req.obj.get("spec", {}))
        if missing:
            text = "; ".join(f"{name} for: {','.join(where)}" for name, where in sorted(missing.items()))
            raise errors.forbidden(
                req.kind, _name(req), f"failed quota: {account.key[1]}: must specify {text}"
            )

    def _require_room(self, account: QuotaAccount, req: AdmissionRequest) -> None:
        change = change_for(account.obj, req.kind, req.obj, req.old)
        why = refusal_of(account.key[1], account.hard, account.used, change)
        if why:
            raise errors.forbidden(req.kind, _name(req), why)


def _charges(req: AdmissionRequest) -> bool:
    """Whether quotas judge a request: of pods, only one that creates, resizes or gives a first deadline."""
    if req.kind.storage != "pods" or req.operation == "CREATE":
        return req.subresource == ""
    if req.subresource:
        return req.subresource == "resize"
    return _has_deadline(req.obj) != _has_deadline(req.old)


def _has_deadline(pod: Obj | None) -> bool:
    return ((pod or {}).get("spec") or {}).get("activeDeadlineSeconds") is not None


def _concerns(account: QuotaAccount, req: AdmissionRequest) -> bool:
    # Updates of a ResourceQuota are always allowed, even if a full quota counts ResourceQuotas.
    return bool(account.hard) and not (req.kind.storage == "resourcequotas" and req.operation == "UPDATE")


def _name(req: AdmissionRequest) -> str:
    return req.name or str((req.obj or {}).get("metadata", {}).get("name", ""))
