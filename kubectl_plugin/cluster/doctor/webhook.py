"""Checks the webhook: registered as defined, certificates, endpoints, and a request that it must refuse."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping
from typing import Any, Final

from kubectl_plugin.cluster.doctor.reads import NotChecked, Reads
from scheduler_core.answers.doctor.callers import check_callers
from scheduler_core.answers.doctor.findings import CheckResult, HealthFinding
from scheduler_core.answers.doctor.webhooks import (
    bundle_of,
    check_bundles,
    check_registration,
    check_serving,
    days_left,
    our_entries,
)
from scheduler_core.decoding import decode_deep, decoder
from scheduler_core.kube.errors import ApiError, Forbidden, Invalid, NotFound
from scheduler_core.model.admission_webhooks import (
    CONFIGURATIONS,
    NAME,
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from scheduler_core.model.kinds import DEPLOYMENTS, ELASTIC_QUOTAS, ENDPOINTS, NETWORK_POLICIES, SECRETS
from scheduler_core.model.meta import identity_of
from scheduler_core.model.writes import Create

# The Secret in which the webhook and the chart keep the certificate.
SECRET: Final = "muster-webhook-certificate"
# No resource has such a name: the webhook refuses the quota, and without the webhook it would be accepted.
PROBE: Final = "muster-doctor-probe"
NO_RESOURCE: Final = "no resource"
_manifest: Final = decoder(dict[str, Any])
_ASKED: Final = 'admission webhook "elasticquotas.validate.muster.dev" denied the request'


def check_webhook(reads: Reads) -> CheckResult:
    """Both configurations are registered as this version defines them, and not everybody may ask."""
    nobody = WebhookEndpoint(b"")
    findings: list[HealthFinding] = []
    count, summary = 0, ""
    services: set[tuple[str, str]] = set()
    for resource, wanted in zip(
        CONFIGURATIONS, (mutating_configuration(nobody), validating_configuration(nobody)), strict=True
    ):
        stored = reads.one(resource, "", NAME)
        findings += check_registration(stored, wanted)
        entries = list(our_entries(stored or {}))
        count += len(entries)
        services |= _services(entries)
    for namespace, name in sorted(services):
        more, clause = _callers(reads, namespace, name)
        findings += more
        summary += clause
    summary = f"{count} webhooks are registered as this version defines{summary}"
    return CheckResult("webhook", tuple(findings), summary)


def _services(entries: list[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Namespace and name of the Services that API servers call."""
    return {
        (str(found.get("namespace", "")), str(found.get("name", "")))
        for entry in entries
        if (found := (entry.get("clientConfig") or {}).get("service"))
    }


def _callers(reads: Reads, namespace: str, name: str) -> tuple[list[HealthFinding], str]:
    """Findings on who may send reviews, and a clause for the summary; Deployment and Service share a name."""
    try:
        deployment = reads.one(DEPLOYMENTS, namespace, name)
        if deployment is None:
            return [], ""
        listed = reads.raw(NETWORK_POLICIES, namespace)
    except NotChecked as unread:
        return [], f"; who may send reviews is not checked: {unread}"
    policies: list[dict[str, Any]] = [decode_deep(_manifest, raw) for raw in listed]
    return check_callers(deployment, policies), ""


def check_certificates(reads: Reads) -> CheckResult:
    """The CA bundles, the serving certificate in its Secret, and the endpoints of the Service."""
    stored = [found for resource in CONFIGURATIONS if (found := reads.one(resource, "", NAME)) is not None]
    if not stored:
        raise NotChecked("no webhook is registered")
    now = time.time()
    findings = [finding for each in stored for finding in check_bundles(each, now)]
    entries = [entry for each in stored for entry in our_entries(each)]
    services = _services(entries)
    summary = f"{len(entries)} CA bundles are valid"
    for namespace, name in sorted(services):
        findings += _endpoints(reads, namespace, name)
        bundles = [bundle_of(entry) for entry in entries]
        more, clause = _serving(reads, namespace, name, bundles, now)
        findings += more
        summary += clause
    return CheckResult("certificates", tuple(findings), summary)


def _endpoints(reads: Reads, namespace: str, name: str) -> list[HealthFinding]:
    try:
        endpoints = reads.one(ENDPOINTS, namespace, name)
    except NotChecked:
        # The request that the webhook must refuse shows more than endpoints do.
        return []
    ready = sum(len(subset.get("addresses") or ()) for subset in (endpoints or {}).get("subsets") or ())
    if ready:
        return []
    return [
        HealthFinding("error", f"Service {namespace}/{name}", "has no ready endpoint", "start the webhook")
    ]


def _serving(
    reads: Reads, namespace: str, name: str, bundles: list[bytes], now: float
) -> tuple[list[HealthFinding], str]:
    """Findings on the certificate in the Secret, and a clause for the summary."""
    subject = f"Secret {namespace}/{SECRET}"
    try:
        secret = reads.one(SECRETS, namespace, SECRET)
    except NotChecked as unread:
        return [], f"; tls.crt is not checked: {unread}"
    certificate = _data(secret or {}, "tls.crt")
    if not certificate:
        return [
            HealthFinding("error", subject, "has no tls.crt", "start the webhook: it fills the Secret")
        ], ""
    found = check_serving(certificate, bundles, f"{name}.{namespace}.svc", subject, now)
    return found, f"; tls.crt has {days_left(certificate, now)} days left"


def _data(secret: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(str((secret.get("data") or {}).get(key) or ""), validate=True)
    except (binascii.Error, ValueError):
        return b""


def check_answer(reads: Reads) -> CheckResult:
    """The webhook refuses an illegal ElasticQuota: a dry run, which stores nothing."""
    namespace = _probed(reads)
    body = {
        "apiVersion": ELASTIC_QUOTAS.api_version,
        "kind": ELASTIC_QUOTAS.kind,
        "metadata": {"namespace": namespace, "name": PROBE},
        "spec": {"max": {NO_RESOURCE: "1"}},
    }
    subject = "webhook"
    try:
        reads.client.create(Create(ELASTIC_QUOTAS, namespace, body), dry_run=True)
    except ApiError as error:
        if _ASKED in error.message:
            return CheckResult("answer", (), "the webhook refused an illegal ElasticQuota in a dry run")
        if isinstance(error, NotFound | Invalid):
            raise NotChecked(f"the server answered without the webhook: {error.message}") from None
        if isinstance(error, Forbidden):
            raise NotChecked(f"you may not create elasticquotas in namespace {namespace}") from None
        helps = "look at the webhook's log, its Service and its network policy"
        return CheckResult(
            "answer", (HealthFinding("error", subject, f"does not answer: {error.message}", helps),)
        )
    problem = f"was not asked: a dry run of an illegal ElasticQuota in namespace {namespace} was accepted"
    helps = "it is not registered, or not for this namespace"
    return CheckResult("answer", (HealthFinding("error", subject, problem, helps),))


def _probed(reads: Reads) -> str:
    """The namespace of the dry run: that of the command, else one that has a quota."""
    if reads.namespace:
        found = [reads.namespace]
    else:
        found = [identity_of(raw).namespace for raw in reads.raw(ELASTIC_QUOTAS)] or ["default"]
    reviewed = sorted(set(found) - reads.exempt_namespaces())
    if not reviewed:
        raise NotChecked(f"the webhook reviews nothing in namespace {found[0]}")
    return reviewed[0]
