"""Where certificates come from, and what is watched for their sake, as the command line says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from scheduler_core.model.admission_webhooks import WebhookEndpoint
from webhook.certs.rotation import MountedCertificates, OwnCertificates
from webhook.certs.source import Source
from webhook.certs.store import FileStore, SecretStore
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import Settings
from webhook.process import RegistrationError, RunningWebhook, WebhookOptions

SECRET = ("muster-system", "certs")
SOURCES: list[tuple[str, Source, type | None, bool, list[str]]] = [
    ("a directory of its own", Source(Path("own")), FileStore, False, []),
    (
        "its own, patching",
        Source(Path("own"), patch=True),
        FileStore,
        True,
        ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    ),
    (
        "a secret that replicas share",
        Source(Path("own"), secret=SECRET),
        SecretStore,
        True,
        ["secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    ),
    ("what somebody else mounts", Source(Path("own"), mounted=Path("there"), patch=True), None, False, []),
    ("mounted, whatever else is said", Source(Path("own"), SECRET, Path("there")), None, False, []),
]


@pytest.mark.parametrize(
    ("source", "store", "patches", "watched"), [s[1:] for s in SOURCES], ids=[s[0] for s in SOURCES]
)
def test_sources(source: Source, store: type | None, patches: bool, watched: list[str]) -> None:
    client = cast(Any, object())
    made = source.rotation(client, ("host",), WebhookMetrics())
    if store is None:
        assert isinstance(made, MountedCertificates)
    else:
        assert isinstance(made, OwnCertificates)
        assert isinstance(made.store, store)
        assert (made.client is client) is patches
    found = list(source.watches(client, lambda: None, lambda error: None))
    assert [reflector.resource.plural for reflector in found] == watched


class Registered:
    """What `register` is called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[WebhookEndpoint, list[str]]] = []
        monkeypatch.setattr("webhook.process.register", self)

    def __call__(self, client: Any, endpoint: WebhookEndpoint, exempt: list[str]) -> None:
        self.calls.append((endpoint, exempt))


@pytest.mark.parametrize(
    ("options", "url", "service"),
    [
        pytest.param({}, "https://127.0.0.1:8443", ("", "", 443), id="its own address"),
        pytest.param({"host": "::1"}, "https://[::1]:8443", ("", "", 443), id="of six"),
        pytest.param({"url": "https://elsewhere"}, "https://elsewhere", ("", "", 443), id="a given one"),
        pytest.param(
            {"url": "https://elsewhere", "service": ("ns", "svc"), "service_port": 9443},
            "",
            ("ns", "svc", 9443),
            id="a service",
        ),
    ],
)
def test_it_is_registered_as_it_is_reached(
    options: dict[str, Any], url: str, service: tuple[str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = Registered(monkeypatch)
    settings = Settings("mine", exempt_namespaces=frozenset({"b", "a"}))
    given = {
        "host": "127.0.0.1",
        "port": 0,
        "metrics": ("127.0.0.1", 0),
        "certificates": Source(Path("own")),
        "settings": settings,
        "register": True,
        **options,
    }
    rotation = Source(Path("own")).rotation(cast(Any, None), ("host",), WebhookMetrics())
    assert isinstance(rotation, OwnCertificates)
    monkeypatch.setattr(type(rotation), "bundle", property(lambda self: b"CA"))
    RunningWebhook(WebhookOptions(**given)).register_itself(cast(Any, None), rotation, 8443)
    ((endpoint, exempt),) = registered.calls
    assert (endpoint.url, endpoint.ca) == (url, b"CA")
    assert (endpoint.namespace, endpoint.service, endpoint.port) == service
    assert exempt == ["a", "b"]


def test_certificates_of_others_need_no_bundle_and_registration_is_opt_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered = Registered(monkeypatch)
    mounted = MountedCertificates(Path("there"), ("host",), WebhookMetrics())
    for asked in (False, True):
        options = WebhookOptions("127.0.0.1", 0, ("127.0.0.1", 0), Source(Path("own")), register=asked)
        RunningWebhook(options).register_itself(cast(Any, None), mounted, 8443)
    assert [endpoint.ca for endpoint, _ in registered.calls] == [b""]
    assert WebhookEndpoint(b"").port == 443
    assert str(RegistrationError("no right")) == "the webhook could not be registered: no right"
