"""The second port: whoever floods it takes no worker of the reviews."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from contextlib import ExitStack, closing, suppress
from urllib.parse import urlsplit

from scheduler_core.certificates import issue_serving, make_authority
from tests.support.eventually import eventually
from tests.support.webhooks.clients import Asker
from tests.unit.webhook.http.reviews import envelope, node, quota, synced
from webhook.http.app import create_app
from webhook.http.health import health_server
from webhook.http.server import WebhookServer
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher

REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()
FLOODERS = 8


def test_a_flood_of_the_second_port_fails_no_review() -> None:
    now, cache, metrics = time.time(), synced(node(cpu="8")), WebhookMetrics()
    authority = make_authority(now)
    pair = issue_serving(authority, ("localhost", "127.0.0.1"), now)
    server = WebhookServer(create_app(ReviewDispatcher(cache), metrics), ("127.0.0.1", 0), pair)
    door = health_server(("127.0.0.1", 0), cache, metrics, problem=server.problem)
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    place, stopped = urlsplit(door.url), threading.Event()
    busiest = []

    def flood() -> None:
        while not stopped.is_set():
            link = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
            with closing(link), suppress(OSError, http.client.HTTPException):
                link.request("GET", "/metrics")
                link.getresponse().read()
            busiest.append(len(server.http_server.active))

    with ExitStack() as opened:
        server.start()
        opened.callback(server.stop)
        door.start()
        opened.callback(door.stop)
        asker = Asker(
            lambda: http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60),
            REVIEW,
        )
        threads = [threading.Thread(target=flood) for _ in range(FLOODERS)]
        for thread in (*threads, asker):
            thread.start()
        try:
            eventually(lambda: asker.answered >= 200 and len(busiest) >= 500, timeout=60)
        finally:
            stopped.set()
            asker.stop()
            for thread in threads:
                thread.join(30)
    assert (asker.failures, asker.repeated) == ([], 0)
    assert max(busiest) <= 1, "the asker's own worker, and none for the flood"
