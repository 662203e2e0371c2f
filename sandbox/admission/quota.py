"""ResourceQuota admission: the last check before an object is stored."""

from __future__ import annotations

from sandbox import errors
from sandbox.admission.quota_ledger import QuotaAccount, QuotaLedger, change_for
from sandbox.admission.quota_usage import missing_values, refusal_of
from sandbox.admit import AdmissionRequest

_CHARGING_SUBRESOURCES = ("", "resize")


class ResourceQuotaCheck:
    """Refuses what does not fit. It never awaits: the ledger charges in the same step as the store."""

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger

    def validate(self, req: AdmissionRequest) -> None:
        """Raises StatusError (Forbidden) with the native plugin's message."""
        if req.obj is None or req.operation not in ("CREATE", "UPDATE"):
            return
        if not req.kind.namespaced or req.subresource not in _CHARGING_SUBRESOURCES:
            return
        accounts = [a for a in self._ledger.accounts(req.namespace) if _concerns(a, req)]
        for account in accounts:
            self._require_values(account, req)
        for account in accounts:
            self._require_room(account, req)

    def _require_values(self, account: QuotaAccount, req: AdmissionRequest) -> None:
        if req.kind.storage != "pods" or req.obj is None or req.operation != "CREATE":
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


def _concerns(account: QuotaAccount, req: AdmissionRequest) -> bool:
    # A quota may always be changed, also one that counts quotas and is full.
    return bool(account.hard) and not (req.kind.storage == "resourcequotas" and req.operation == "UPDATE")


def _name(req: AdmissionRequest) -> str:
    return req.name or str((req.obj or {}).get("metadata", {}).get("name", ""))
