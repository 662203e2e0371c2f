"""What stands beside the company: the installation, recorded days, and objects that are broken."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler_core.certificates import issue_serving, make_authority
from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from scheduler_core.model.names import MUSTER_NAMESPACE, SERVES_ANNOTATION
from scheduler_core.model.quotas.quota_history import (
    HOURS,
    QuotaEviction,
    QuotaHistoryDay,
    day_of,
    encode_day,
    name_of,
)
from scheduler_core.model.timestamps import format_micro_time
from tests.approved.company import CONFIG, GPU, H100, NOW, thing
from tests.support.builders import make_node, make_pod, make_quota

Raw = dict[str, Any]
CHART: Final = Path(__file__).parents[2] / "charts" / "muster" / "crds"
HOST: Final = "muster-webhook.muster-system.svc"


def installation() -> list[Raw]:
    """Configuration, leader, webhooks, certificate and CRDs, all in order."""
    endpoint = WebhookEndpoint(_authority().certificate, namespace=MUSTER_NAMESPACE, service="muster-webhook")
    return [
        *_definitions(),
        _configuration(CONFIG),
        lease("muster-scheduler", NOW - 2),
        mutating_configuration(endpoint),
        validating_configuration(endpoint),
        _placed("v1", "Endpoints", "muster-webhook", subsets=[{"addresses": [{"ip": "10.0.0.1"}]}]),
        _certificate(HOST),
    ]


def _definitions() -> Iterator[Raw]:
    for file in sorted(CHART.glob("*.yaml")):
        yield from yaml.load_all(file.read_text(), yaml.CSafeLoader)


@cache
def _authority() -> Any:
    return make_authority(NOW)


def _placed(version: str, kind: str, name: str, **fields: Any) -> Raw:
    """An object in the namespace of Muster."""
    meta = {"namespace": MUSTER_NAMESPACE, "name": name, "labels": {"app.kubernetes.io/name": "muster"}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **fields}


def _configuration(text: str) -> Raw:
    return _placed("v1", "ConfigMap", "muster-scheduler", data={"config.yaml": text})


def _certificate(host: str) -> Raw:
    serving = issue_serving(_authority(), [host], NOW).certificate
    data = {"tls.crt": base64.b64encode(serving).decode()}
    return _placed("v1", "Secret", "muster-webhook-certificate", data=data)


def lease(name: str, renewed: float, serves: str = "muster-scheduler,muster-batch") -> Raw:
    """The Lease of a leader."""
    spec = {
        "holderIdentity": f"{name}-1",
        "renewTime": format_micro_time(renewed),
        "leaseDurationSeconds": 15,
    }
    found = _placed("coordination.k8s.io/v1", "Lease", name, spec=spec)
    found["metadata"]["annotations"] = {SERVES_ANNOTATION: serves}
    return found


def days() -> list[QuotaHistoryDay]:
    """Three days of use, with evictions on the last one."""
    return [_day(back) for back in (2, 1, 0)]


def _day(back: int) -> QuotaHistoryDay:
    day = day_of(NOW) - timedelta(days=back)
    hours = 12 if back == 0 else HOURS
    taken = QuotaEviction(
        int(NOW) - 1800,
        "study",
        "study/quota",
        "PodGroup serving/embed",
        "serving/treasure",
        {GPU: 2, "cpu": 4000},
        ("notebook-1", "notebook-4"),
        2,
    )
    forced = QuotaEviction(int(NOW) - 5400, "batch", "", "Pod batch/tight", "", {"cpu": 3000}, ("old",), 1)
    quotas = {
        "research": {
            "cpu": _columns(hours, 30_000, 0, 2_000, 4_000, 32_000, 96_000),
            GPU: _columns(hours, 12, 1, 0, 6, 12, 20),
            H100: _columns(hours, 12, 0, 0, 6, 12, 14),
        },
        "study": {
            GPU: _columns(hours, 8, 2, 0, 4, 6, 0),
            "cpu": _columns(hours, 20_000, 12_000, 0, 0, 8_000, 0),
        },
        "serving": {GPU: _columns(hours, 2, 0, 8, 8, 10, 16)},
    }
    evictions = (taken, forced) if back == 0 else ()
    return QuotaHistoryDay(day, int(NOW) if back == 0 else 0, "muster-scheduler-1", quotas, evictions, back)


def _columns(
    hours: int, used: int, borrowed: int, lent: int, waiting: int, low: int, high: int
) -> dict[str, list[int]]:
    """Sums of each hour; what is used grows over the day, and one hour was not measured."""
    at = list(range(hours))
    seconds = [0 if hour == 5 else 3600 for hour in at]

    def sums(amount: int) -> list[int]:
        return [amount * second for second in seconds]

    return {
        "measured": seconds,
        "used": [used * second * (hour + 1) // hours for hour, second in zip(at, seconds, strict=True)],
        "borrowed": sums(borrowed),
        "lent": sums(lent),
        "waiting": sums(waiting),
        "min": sums(low),
        **({"max": sums(high)} if high else {"unlimited": seconds}),
    }


def recorded() -> list[Raw]:
    """The days as ConfigMaps."""
    found = []
    for day in days():
        payload = encode_day(day)
        obj = _placed("v1", "ConfigMap", name_of(day.day), data={"day.json": payload.text})
        if payload.binary:
            obj["binaryData"] = {"day.json.gz": payload.binary}
        found.append(obj)
    return found


def broken() -> list[Raw]:
    """Objects that cannot be read, or that contradict each other."""
    odd = make_quota("odd/quota").min(cpu=1).dict()
    odd["spec"]["min"] = {"cpu": "many"}
    above = make_quota("above/quota").min(gpu=9).max(gpu=4).dict()
    pod = make_pod("odd/pod").dict()
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "a lot"}}
    node = make_node("odd-node").dict()
    node["status"] = {"allocatable": {"cpu": "-x"}}
    meta = {"namespace": "odd", "name": "racks", "labels": {"sakkara.topology": ""}}
    ring = {"namespace": "odd", "name": "ring", "labels": {"sakkara.group": ""}}
    used = make_quota("drift/quota").min(cpu=4).dict()
    used["status"] = {"used": {"cpu": "7"}}
    return [
        odd,
        above,
        pod,
        node,
        used,
        thing("incubator.scheduling.k8s.io/v1alpha1", "PodGroup", "odd/group", {"minMembers": -1}),
        thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", "drift/foreign", {"minMember": 2}),
        thing("muster.dev/v1alpha1", "QuotaGroup", "loop-a", {"parent": "loop-b", "min": {"cpu": "1"}}),
        thing("muster.dev/v1alpha1", "QuotaGroup", "loop-b", {"parent": "loop-a"}),
        thing("muster.dev/v1alpha1", "QuotaFlavor", "empty", {"resource": "", "nodeSelector": {}}),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {"name": "x", "level-names": "[]"},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": ring, "data": {"name": "ring", "size": "none"}},
        make_pod("drift/p-0").requests(cpu=2).on("h100-0").annotation("muster.dev/hold-quota", "soon").dict(),
        make_pod("drift/p-1").requests(cpu=1).on("gone").annotation("muster.dev/holdquota", "1h").dict(),
        make_pod("drift/p-2").requests(cpu=1).scheduler("default-scheduler").dict(),
        thing(
            "muster.dev/v1alpha1",
            "ReservationLedger",
            "drift/reservations",
            {
                "holds": [
                    {"group": "gone", "uid": "u-gone", "minMembers": 2, "totalResources": {"cpu": "2"}},
                    {
                        "group": "done",
                        "uid": "u-done",
                        "minMembers": 2,
                        "totalResources": {"cpu": "1"},
                        "ended": True,
                    },
                ],
                "charges": [{"uid": "u-p", "pod": "lost", "usage": {"cpu": "500m", "pods": "1"}}],
            },
        )
        | {"status": {"held": {"cpu": "1"}}},
    ]
