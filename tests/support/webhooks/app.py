"""The webhook's application with a small cluster behind it, for any WSGI server."""

from __future__ import annotations

from flask import Flask

from tests.unit.webhook.http.reviews import namespace, node, quota, synced
from webhook.http.app import create_app
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher


def make() -> Flask:
    """One node of 8 CPUs, namespace `a`, and namespace `b` with a quota."""
    cache = synced(node(cpu="8"), namespace("a"), quota(namespace="b"))
    return create_app(ReviewDispatcher(cache), WebhookMetrics())
