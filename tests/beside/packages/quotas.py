"""Random requests in a namespace with ResourceQuotas: what each counts, and what is refused."""

from __future__ import annotations

import copy
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sandbox.admission.quota_evaluators import Amounts, hard_of
from sandbox.admission.resource_quota import QuotaAccount, ResourceQuotaCheck, change_for
from sandbox.errors import StatusError
from sandbox.kinds import builtin
from sandbox.store.requests import AdmissionRequest
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.pods.use import parse_pod_use
from scheduler_core.model.quantity import parse_quantity
from scheduler_core.model.quotas.reservation_ledger import ReservationLedger
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.quota.reservations.usage import NamespaceUsage, counts_groups
from tests.beside.minors import resize_rule
from tests.beside.packages import pods
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
_KINDS: Final = {
    "pods": builtin.PODS,
    "persistentvolumeclaims": builtin.PERSISTENT_VOLUME_CLAIMS,
    "services": builtin.SERVICES,
}
# Kinds of differences that are meant.
FORMS: Final = "the form of amounts in a refusal"
OVERDUE: Final = "what quotas count of overdue pods"
# Kinds of differences of the sandbox, and of reservations.
REFUSED: Final = "what quotas refuse"
USED: Final = "what a ResourceQuota counts"
THEN: Final = "what a ResourceQuota counts then"
RESERVED: Final = "what reservations count"
COUNTS: Final = frozenset((REFUSED, USED, THEN))
_AMOUNT: Final = re.compile(r"=([0-9][-+0-9A-Za-z.]*)")
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"
_HARD: Final = {
    "pods": {
        "pods": ("1", "2", "3", "10"),
        "count/pods": ("1", "2", "4"),
        "cpu": ("1", "2500m", "6", "20"),
        "requests.cpu": ("500m", "3", "8"),
        "limits.cpu": ("1", "4", "12"),
        "memory": ("1Gi", "3G", "8Gi"),
        "requests.memory": ("512Mi", "2Gi", "4Ti"),
        "limits.memory": ("1Gi", "4Gi", "5Ti"),
        "requests.ephemeral-storage": ("1Gi", "10G"),
        "limits.ephemeral-storage": ("2Gi", "20G"),
        "ephemeral-storage": ("3G", "20Gi"),
        "hugepages-2Mi": ("4Mi", "128Mi"),
        "requests.hugepages-2Mi": ("64Mi", "66Mi"),
        "requests.example.com/gpu": ("0", "2", "8"),
    },
    "persistentvolumeclaims": {
        "persistentvolumeclaims": ("1", "2", "5"),
        "count/persistentvolumeclaims": ("2", "3"),
        "requests.storage": ("1Gi", "5G", "20Gi"),
        f"fast{_OF_CLASS}requests.storage": ("1G", "10Gi"),
        f"fast{_OF_CLASS}persistentvolumeclaims": ("0", "1", "3"),
    },
    "services": {
        "services": ("1", "2", "3"),
        "count/services": ("1", "2"),
        "services.nodeports": ("0", "2", "5"),
        "services.loadbalancers": ("0", "1", "2"),
    },
}
_SIZES: Final = ("500M", "1Gi", "1.5Gi", "2500m", "10G")
_CLASSES: Final = ("low", "high")


def question(dice: random.Random) -> Raw:
    """A request to create or change an object beside others, and up to three quotas."""
    storage = dice.choice(("pods", "pods", "pods", "persistentvolumeclaims", "services"))
    make = {"pods": _pod, "persistentvolumeclaims": _claim, "services": _service}[storage]
    existing = [_named(make(dice), f"o{i}") for i in range(dice.choice((0, 1, 1, 2, 3)))]
    found: Raw = {
        "storage": storage,
        "operation": "CREATE",
        "subresource": "",
        "object": _named(make(dice), "p"),
        "old": None,
        "existing": existing,
        "quotas": [_quota(dice, storage, f"q{i}") for i in range(dice.choice((1, 1, 2, 3)))],
        "now": NOW.isoformat().replace("+00:00", "Z"),
    }
    if dice.random() < 0.4:
        _changed(dice, found)
    return found


def _named(obj: Raw, name: str) -> Raw:
    obj["metadata"] = {**obj["metadata"], "name": name, "namespace": "t", "uid": name, "resourceVersion": "1"}
    return obj


def _changed(dice: random.Random, found: Raw) -> None:
    """The object is one of those that are there, and changes in a way that it can."""
    new = found["object"]
    if found["storage"] == "pods" and (dice.random() < 0.3 or "resources" in new["spec"]):
        old = copy.deepcopy(new)
        new["spec"]["activeDeadlineSeconds"] = 60
    elif found["storage"] == "pods":
        old = copy.deepcopy(new)
        for container in new["spec"]["containers"]:
            container["resources"] = _resized(dice, container["resources"])
        found["subresource"] = "resize"
    else:
        make = {"persistentvolumeclaims": _claim, "services": _service}[found["storage"]]
        old = _named(make(dice), "p")
        if found["storage"] == "persistentvolumeclaims":
            old["spec"] = {**new["spec"], "resources": old["spec"]["resources"]}
    found |= {"operation": "UPDATE", "old": old, "existing": [*found["existing"], old]}


def _resized(dice: random.Random, resources: Raw) -> Raw:
    """Other amounts of cpu under the names that are set."""
    amounts = sorted(
        dice.sample(("100m", "1", "3", "1500m"), 2), key=lambda text: float(text.replace("m", "e-3"))
    )
    found = copy.deepcopy(resources)
    for part, amount in zip(("requests", "limits"), amounts, strict=True):
        if "cpu" in found.get(part, {}):
            found[part]["cpu"] = amount
    return found


def _pod(dice: random.Random) -> Raw:
    pod = pods.question(dice)
    spec = pod["spec"]
    if dice.random() < 0.3:
        spec["activeDeadlineSeconds"] = dice.choice((0, 60))
    if dice.random() < 0.5:
        spec["priorityClassName"] = dice.choice(_CLASSES)
    if dice.random() < 0.3:
        spec["affinity"] = _affinity(dice)
    if dice.random() < 0.1:
        gone = NOW - timedelta(seconds=dice.choice((-10, 20, 90)))
        pod["metadata"] |= {
            "deletionTimestamp": gone.isoformat().replace("+00:00", "Z"),
            "deletionGracePeriodSeconds": 30,
        }
    return pod


def _affinity(dice: random.Random) -> Raw:
    term: Raw = {"topologyKey": "zone", "labelSelector": {}}
    if dice.random() < 0.6:
        term |= dice.choice(
            (
                {"namespaces": ["a"]},
                {"namespaces": []},
                {"namespaceSelector": {}},
                {"namespaceSelector": None},
            )
        )
    rules = dice.choice(
        (
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
        )
    )
    return {dice.choice(("podAffinity", "podAntiAffinity")): rules}


def _claim(dice: random.Random) -> Raw:
    requests = {"storage": dice.choice(_SIZES)} if dice.random() < 0.9 else {}
    claim: Raw = {"metadata": {}, "spec": {"resources": {"requests": requests}}, "status": {}}
    if dice.random() < 0.5:
        claim["spec"]["storageClassName"] = dice.choice(("fast", "slow", ""))
    if dice.random() < 0.15:
        annotation = {"volume.beta.kubernetes.io/storage-class": dice.choice(("fast", ""))}
        claim["metadata"] = {"annotations": annotation}
    if dice.random() < 0.3:
        claim["status"]["allocatedResources"] = {"storage": dice.choice(_SIZES)}
    if dice.random() < 0.2:
        claim["spec"]["volumeAttributesClassName"] = dice.choice(_CLASSES)
    if dice.random() < 0.2:
        claim["status"]["currentVolumeAttributesClassName"] = dice.choice(_CLASSES)
    if dice.random() < 0.1:
        claim["status"]["modifyVolumeStatus"] = {
            "targetVolumeAttributesClassName": dice.choice(_CLASSES),
            "status": "InProgress",
        }
    return claim


def _service(dice: random.Random) -> Raw:
    ports = [{"port": 80 + i, "name": f"p{i}"} for i in range(dice.choice((0, 1, 2, 3)))]
    for port in ports:
        if dice.random() < 0.3:
            port["nodePort"] = 30000 + int(port["port"])
    spec: Raw = {"ports": ports}
    if dice.random() < 0.8:
        spec["type"] = dice.choice(("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName"))
    if spec.get("type") == "LoadBalancer" and dice.random() < 0.6:
        spec["allocateLoadBalancerNodePorts"] = dice.random() < 0.3
    return {"metadata": {}, "spec": spec, "status": {}}


def _quota(dice: random.Random, storage: str, name: str) -> Raw:
    known = _HARD[storage]
    chosen = dice.sample(tuple(known), min(len(known), dice.choice((1, 2, 3, 4))))
    hard = {key: dice.choice(known[key]) for key in chosen}
    if dice.random() < 0.15:
        hard["configmaps"] = "1"
    spec: Raw = {"hard": hard}
    if storage == "pods" and dice.random() < 0.45:
        scopes = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
        spec["scopes"] = dice.sample(scopes, dice.choice((1, 1, 2)))
    if storage != "services" and dice.random() < 0.3:
        scope = "PriorityClass" if storage == "pods" else "VolumeAttributesClass"
        spec["scopeSelector"] = {"matchExpressions": [_expression(dice, scope)]}
    return {"metadata": {"name": name, "namespace": "t", "uid": name}, "spec": spec}


def _expression(dice: random.Random, scope: str) -> Raw:
    operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = dice.sample(_CLASSES, dice.choice((1, 2))) if operator in ("In", "NotIn") else []
    return {"scopeName": scope, "operator": operator, **({"values": values} if values else {})}


class _Accounts:
    """The accounts of one namespace, as the check asks for them."""

    def __init__(self, found: list[QuotaAccount]) -> None:
        self._found = found

    def accounts(self, namespace: str) -> list[QuotaAccount]:
        """All of them."""
        return self._found


def compare(asked: Raw, theirs: dict[str, Any], minor: str) -> list[Difference]:
    """What differs for the sandbox's quotas, and for the use that reservations see."""
    if "error" in theirs:
        return [Difference("a request under quotas is refused", asked, theirs["error"], "taken")]
    rule = resize_rule(minor)
    found = _compared(asked, theirs, rule)
    if not any(map(_differs, found)) or not _overdue(theirs):
        return found
    left = _compared(asked, _ended(theirs), rule)
    others = {(one.kind, one.question.get("quota")) for one in left}
    overdue = [one for one in found if (one.kind, one.question.get("quota")) not in others]
    return [*left, *(Difference(OVERDUE, asked, one.theirs, one.ours) for one in overdue)]


def _differs(found: Difference) -> bool:
    return found.kind != FORMS


def _overdue(theirs: dict[str, Any]) -> list[Raw]:
    """The pods whose grace period is over: for Kubernetes' quotas they have ended."""
    return [obj for obj in objects_of(theirs) if _is_late(obj["metadata"])]


def objects_of(found: Raw) -> list[Raw]:
    """The objects of a question, or of its answer."""
    return [obj for obj in (*found["existing"], found["object"], found["old"]) if obj is not None]


def _is_late(meta: Raw) -> bool:
    end, seconds = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    if end is None or seconds is None:
        return False
    return datetime.fromisoformat(end) + timedelta(seconds=seconds) < NOW


def _ended(theirs: dict[str, Any]) -> dict[str, Any]:
    """The same with these pods as ones that have failed."""
    found = copy.deepcopy(theirs)
    for pod in _overdue(found):
        pod["status"]["phase"] = "Failed"
    return found


def _compared(asked: Raw, theirs: dict[str, Any], rule: ResizeRule) -> list[Difference]:
    kind = _KINDS[asked["storage"]]
    accounts = [QuotaAccount(quota, hard_of(quota)) for quota in asked["quotas"]]
    for account in accounts:
        for obj in theirs["existing"]:
            _count(account, change_for(account.obj, kind, obj, None))
    found = _of_reservations(asked, theirs, rule) if asked["storage"] == "pods" else []
    other = _differing(USED, asked, theirs["used"], [account.used for account in accounts])
    if other:
        return [*found, *other]
    request = AdmissionRequest(
        asked["operation"], kind, "t", "p", theirs["object"], theirs["old"], subresource=asked["subresource"]
    )
    refused = _refusal(accounts, request)
    if refused != theirs["refused"]:
        same = _in_one_form(refused) == _in_one_form(theirs["refused"])
        found.append(Difference(FORMS if same else REFUSED, asked, theirs["refused"], refused))
    if not refused:
        for account in accounts:
            change = change_for(account.obj, kind, theirs["object"], theirs["old"])
            _count(account, {name: amount for name, amount in change.items() if amount > 0})
        after = [account.used for account in accounts]
        found += _differing(THEN, asked, theirs["after"], after)
    return found


def _in_one_form(text: str) -> str:
    """A refusal whose amounts are plain numbers."""
    return _AMOUNT.sub(lambda found: f"={parse_quantity(found[1], scale=3)}", text)


def _count(account: QuotaAccount, change: Amounts) -> None:
    for name in change.keys() & account.hard.keys():
        account.used[name] = account.used.get(name, 0) + change[name]


def _refusal(accounts: list[QuotaAccount], request: AdmissionRequest) -> str:
    try:
        ResourceQuotaCheck(_Accounts(accounts)).validate(request)  # type: ignore[arg-type]
    except StatusError as error:
        return error.message
    return ""


def _differing(kind: str, asked: Raw, theirs: list[Amounts], ours: list[Amounts]) -> list[Difference]:
    return [
        Difference(kind, {**asked, "quota": quota["metadata"]["name"]}, str(_set(one)), str(_set(other)))
        for quota, one, other in zip(asked["quotas"], theirs, ours, strict=True)
        if _set(one) != _set(other)
    ]


def _set(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in sorted(amounts.items()) if amount}


def _of_reservations(asked: Raw, theirs: dict[str, Any], rule: ResizeRule) -> list[Difference]:
    """What the webhook takes for the use of the quotas in which groups can reserve."""
    uses = {use.uid: use for use in (parse_pod_use(pod, rule) for pod in theirs["existing"])}
    usage = NamespaceUsage(ReservationLedger("t"), uses)
    found = []
    for raw, used in zip(asked["quotas"], theirs["used"], strict=True):
        quota = parse_resource_quota(raw)
        if not counts_groups(quota):
            continue
        keys = {name: key for name, (key, _) in quota.hard_of_requests().items()}
        ours = usage.used_not_best_effort if quota.scoped else usage.used
        counted = {key: ours.get(name, 0) for name, key in keys.items()}
        known = {key: used.get(key, 0) for key in counted}
        found += _differing(RESERVED, {**asked, "quotas": [raw]}, [known], [counted])
    return found
