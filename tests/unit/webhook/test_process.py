"""The process around certificates and repairs: what goes wrong is told and tried again, never the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_core.certificates import CertificateError, KeyPair
from scheduler_core.kube.errors import Forbidden
from tests.support.eventually import eventually
from webhook.certs.source import Source
from webhook.http.client_certificates import ClientCertificates
from webhook.http.server import WebhookServer
from webhook.process import RunningWebhook, WebhookOptions, in_turn

FAILURES = "muster_webhook_cert_reload_failures_total"


class Troubled:
    """A rotation that fails as told, then works."""

    interval = 0.005

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.checked = threading.Event()

    def first(self, now: float) -> KeyPair:
        raise AssertionError

    def check(self, now: float, use: Callable[[KeyPair], None]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.checked.set()


@pytest.fixture
def process() -> RunningWebhook:
    return RunningWebhook(
        WebhookOptions("127.0.0.1", 0, ("127.0.0.1", 0), Source(Path("unused"))), clock=lambda: 1.0
    )


class Server(WebhookServer):
    """Takes what it is given, and notes that the CAs of clients were looked at."""

    def __init__(self) -> None:
        self.reread = threading.Event()

    def use(self, pair: KeyPair) -> None:
        pass

    def reread_clients(self) -> None:
        self.reread.set()


def test_callers_are_known_where_they_must_show_a_certificate() -> None:
    options = WebhookOptions("127.0.0.1", 0, ("127.0.0.1", 0), Source(Path("unused")))
    assert not options.review_settings.known_callers
    asked = replace(options, clients=ClientCertificates(Path("ca.crt")))
    assert asked.review_settings.known_callers


def test_trouble_is_counted_and_tried_again(
    process: RunningWebhook, caplog: pytest.LogCaptureFixture
) -> None:
    troubled = Troubled(CertificateError("tls.crt", "is broken"), ZeroDivisionError("unforeseen"))
    thread = process.keep_certificates(troubled, Server())
    try:
        assert troubled.checked.wait(60)
    finally:
        process.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert process.metrics.registry.get_sample_value(FAILURES) == 2
    first, second = caplog.records
    assert first.getMessage() == "certificate rotation: tls.crt: is broken"
    assert (first.exc_info, bool(second.exc_info)) == (None, True)


def test_news_is_looked_at_at_once(process: RunningWebhook) -> None:
    patient = Troubled()
    patient.interval = 3600.0
    server = Server()
    thread = process.keep_certificates(patient, server)
    process.wake.set()
    assert patient.checked.wait(60)
    assert server.reread.wait(60)
    process.stop()
    eventually(lambda: not thread.is_alive())


def test_repair_that_is_refused_keeps_no_other_from_its_turn() -> None:
    done: list[str] = []

    def refused() -> None:
        done.append("refused")
        raise Forbidden(403, "Forbidden", "no")

    with pytest.raises(Forbidden):
        in_turn(refused, lambda: done.append("next"), refused)()
    assert done == ["refused", "next", "refused"]
