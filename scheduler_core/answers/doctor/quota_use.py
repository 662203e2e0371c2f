"""Compares the use in the status of quotas with that of their pods, and names the pods between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from scheduler_core.answers.doctor.findings import DoctorRepair, HealthFinding, some
from scheduler_core.controllers.quota_status import status_of_use
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.names import HUGEPAGES_PREFIX, LIMITS_PREFIX, PODS, REQUESTS_PREFIX
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.model.writes import Patch
from scheduler_core.quota.flavors import NONE, OnNode, charged_on
from scheduler_core.quota.ledger import QuotaLedger, charged
from scheduler_core.quota.policy import borrowed

_COMPUTED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_WRITTEN_AGAIN: Final = "the scheduler writes it anew when it is at work; --fix repairs it"
_RESYNC: Final = "kube-controller-manager writes it anew when it is at work"
# Whether a pod counts in a quota with a scope.
_NO_FLAVORS: Final[Mapping[str, OnNode]] = {}
_SCOPES: Final[dict[str, Callable[[Pod], bool]]] = {
    "BestEffort": lambda pod: pod.best_effort,
    "NotBestEffort": lambda pod: not pod.best_effort,
    "Terminating": lambda pod: pod.lasts is not None,
    "NotTerminating": lambda pod: pod.lasts is None,
}


def check_elastic_use(
    quotas: Iterable[ElasticQuota], pods: Iterable[Pod], flavors: Mapping[str, OnNode] = _NO_FLAVORS
) -> list[HealthFinding]:
    """Quotas whose `status.used` is not the sum of the pods that count; of a shadowed quota it is 0.

    `flavors` are those of the nodes, by name.
    """
    ledger = QuotaLedger()
    for quota in (quotas := list(quotas)):
        ledger.put_quota(quota)
    by_namespace: dict[str, list[Pod]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.namespace, []).append(pod)
        if pod.counts:
            charge = charged_on(pod.requests, flavors.get(pod.node_name, NONE))
            ledger.charge(pod.namespace, pod.uid, charge)
    found = (_elastic(ledger, quota, by_namespace.get(quota.namespace, [])) for quota in quotas)
    return [finding for finding in found if finding is not None]


def _elastic(ledger: QuotaLedger, quota: ElasticQuota, pods: list[Pod]) -> HealthFinding | None:
    right = ledger.status_used(quota)
    binds = ledger.quota_of(quota.namespace) is quota
    if not binds:
        right = dict.fromkeys(right, 0)
    wrong = _wrong(quota.status_used, right)
    if not wrong:
        return None
    counting = [pod for pod in pods if pod.counts] if binds else []
    return HealthFinding(
        "error",
        f"ElasticQuota {quota.key}",
        _difference(quota.status_used, wrong, counting, [pod for pod in pods if not pod.counts]),
        _WRITTEN_AGAIN,
        _repair(ledger, quota, right),
        evidence=_evidence(quota.resource_version, quota.status_used, wrong),
    )


def _evidence(version: str, said: ResourceList, wrong: Mapping[str, int]) -> tuple[str, ...]:
    """The version of a quota and the difference: while pods come and go, both change from look to look."""
    difference = ",".join(f"{name}={value - said.get(name, 0)}" for name, value in wrong.items())
    return (f"version {version}", f"difference {difference}")


def _repair(ledger: QuotaLedger, quota: ElasticQuota, used: dict[str, int]) -> DoctorRepair:
    binds = ledger.quota_of(quota.namespace) is quota
    write = Patch(
        ELASTIC_QUOTAS,
        quota.namespace,
        quota.name,
        {"status": status_of_use(quota, used, borrowed(ledger, quota) if binds else {})},
        subresource="status",
        uid=quota.uid,
        resource_version=quota.resource_version,
    )
    return DoctorRepair(ELASTIC_QUOTAS, quota.namespace, quota.name, write)


def check_native_use(
    natives: Iterable[ResourceQuota], pods: Iterable[Pod], now: float
) -> list[HealthFinding]:
    """ResourceQuotas whose `status.used` of pods is not the sum of the pods that count.

    A pod whose deletion is overdue may count or not. Other things than pods are not compared; neither are
    quotas that count pods by priority class or by affinity.
    """
    by_namespace: dict[str, list[Pod]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.namespace, []).append(pod)
    found = (_native(native, by_namespace.get(native.namespace, []), now) for native in natives)
    return [finding for finding in found if finding is not None]


def is_computed(native: ResourceQuota) -> bool:
    """Whether the pods that a ResourceQuota counts can be told."""
    return all(scope.name in _SCOPES for scope in native.scopes)


def _native(native: ResourceQuota, pods: list[Pod], now: float) -> HealthFinding | None:
    # A quota without status is new: kube-controller-manager has not seen it.
    if not native.used or not is_computed(native):
        return None
    scoped = [pod for pod in pods if all(_SCOPES[scope.name](pod) for scope in native.scopes)]
    live = [pod for pod in scoped if not pod.finished]
    surely = [pod for pod in live if pod.deleted is None or pod.deleted > now]
    right = _native_sum(native, live)
    wrong = _wrong({key: native.used.get(key, 0) for key in right}, right)
    if not wrong or not _wrong({key: native.used.get(key, 0) for key in right}, _native_sum(native, surely)):
        return None
    ended = [pod for pod in scoped if pod.finished]
    problem = _difference(native.used, wrong, live, ended, lambda pod, key: native_amount(pod, key) or 0)
    evidence = _evidence(native.resource_version, native.used, wrong)
    return HealthFinding("warning", f"ResourceQuota {native.key}", problem, _RESYNC, evidence=evidence)


def _native_sum(native: ResourceQuota, pods: Iterable[Pod]) -> dict[str, int]:
    total: dict[str, int] = {}
    pods = list(pods)
    for key in native.hard:
        if native_amount(None, key) is not None:
            total[key] = sum(native_amount(pod, key) or 0 for pod in pods)
    return total


def native_amount(pod: Pod | None, key: str) -> int | None:
    """What a pod counts under a key of a ResourceQuota; None for a key that does not count pods."""
    if key in (PODS, f"count/{PODS}"):
        return 1 if pod is not None else 0
    limits = key.startswith(LIMITS_PREFIX)
    bare = key.removeprefix(LIMITS_PREFIX if limits else REQUESTS_PREFIX)
    extended = key.startswith(REQUESTS_PREFIX) and "/" in bare and ".storageclass." not in bare
    if not (bare in _COMPUTED or bare.startswith(HUGEPAGES_PREFIX) or extended):
        return None
    if pod is None:
        return 0
    return (pod.limits if limits else pod.requests).get(bare, 0)


def _wrong(said: ResourceList, right: ResourceList) -> dict[str, int]:
    """The right amounts of the resources of which something else is said."""
    return {
        name: right.get(name, 0)
        for name in sorted({*said, *right})
        if said.get(name, 0) != right.get(name, 0)
    }


def _charge(pod: Pod, name: str) -> int:
    return charged(pod.requests).get(name, 0)


def _difference(
    said: ResourceList,
    wrong: Mapping[str, int],
    counting: Sequence[Pod],
    others: Sequence[Pod],
    amount: Callable[[Pod, str], int] = _charge,
) -> str:
    """What is said, what is right, and the pods that make the difference."""

    def text(name: str, value: int) -> str:
        return format_resource(name.removeprefix(REQUESTS_PREFIX).removeprefix(LIMITS_PREFIX), value)

    figures = ", ".join(
        f"status.used[{name}]={text(name, said.get(name, 0))} instead of {text(name, value)}"
        for name, value in wrong.items()
    )
    uses = f"{len(counting)} pods count" if len(counting) != 1 else "1 pod counts"
    missing = {name: value - said.get(name, 0) for name, value in wrong.items()}
    cause = _cause(missing, counting, "not counted", amount)
    cause = cause or _cause(
        {name: -value for name, value in missing.items()}, others, "still counted", amount
    )
    if not cause and counting:
        cause = f"no pods make exactly this difference; those that count are {_names(counting)}"
    return f"{figures} ({uses})" + (f": {cause}" if cause else "")


def _cause(
    missing: Mapping[str, int], pods: Sequence[Pod], said: str, amount: Callable[[Pod, str], int]
) -> str:
    found = explaining(missing, pods, amount)
    return f"{_names(found)} {'is' if len(found) == 1 else 'are'} {said}" if found else ""


def _names(pods: Sequence[Pod]) -> str:
    return some(sorted(pod.name for pod in pods))


def explaining(
    missing: Mapping[str, int], pods: Sequence[Pod], amount: Callable[[Pod, str], int] = _charge
) -> list[Pod]:
    """The pods whose amounts are exactly what is missing: one pod, else the youngest ones together.

    Empty if there are none. `amount` gives what a pod counts of a resource.
    """
    youngest = sorted(pods, key=lambda pod: (-(pod.start_time or pod.created), pod.name))
    shares = [(pod, {name: amount(pod, name) for name in missing}) for pod in youngest]
    for pod, share in shares:
        if share == missing:
            return [pod]
    chosen: list[Pod] = []
    total = dict.fromkeys(missing, 0)
    for pod, share in shares:
        if any(share.values()):
            chosen.append(pod)
            total = {name: value + share[name] for name, value in total.items()}
            if total == missing:
                return chosen
    return []
