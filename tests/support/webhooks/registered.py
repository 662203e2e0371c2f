"""A webhook that an API server asks, and whose answer it awaits."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.model.admission_webhooks import WebhookEndpoint
from tests.support.clusters.cluster import Cluster
from webhook.certs.registration import register

CONFIGURATIONS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/muster-webhook"
    for kind in ("validating", "mutating")
)
PATIENCE_SECONDS: Final = 30


def register_patiently(cluster: Cluster, endpoint: WebhookEndpoint) -> None:
    """Register the webhook with the longest limits that Kubernetes allows.

    By the limits of the product, an API server lets pass what is not answered within two seconds: on a busy
    machine that is no fault of a rule.
    """
    client, _ = connect(Overrides(kubeconfig=str(cluster.kubeconfig)))
    with closing(client.session):
        register(client, endpoint)
    for path in CONFIGURATIONS:
        configuration = cluster.request("GET", path)
        for entry in configuration["webhooks"]:
            entry["timeoutSeconds"] = PATIENCE_SECONDS
        cluster.request("PUT", path, configuration)
