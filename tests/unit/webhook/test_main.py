"""The command line without a server behind it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner

from scheduler_core.kube.connect import Overrides
from scheduler_core.model.names import EXEMPT_NAMESPACES
from webhook.__main__ import SUM_MODES, cli, serving_hosts
from webhook.policy.elastic_quotas import SumMode
from webhook.process import WebhookOptions

LOCAL = ("localhost", "127.0.0.1", "::1")
HOSTS = [
    ("loopback", ("127.0.0.1", "", ("", "")), LOCAL),
    ("all addresses", ("0.0.0.0", "", ("", "")), LOCAL),
    ("another address", ("10.0.0.7", "", ("", "")), (*LOCAL, "10.0.0.7")),
    ("a URL", ("::", "https://hook.example.com:8443/x", ("", "")), (*LOCAL, "hook.example.com")),
    (
        "a Service",
        ("", "", ("muster-system", "hook")),
        (*LOCAL, "hook.muster-system.svc", "hook.muster-system.svc.cluster.local"),
    ),
]


@pytest.mark.parametrize(("args", "hosts"), [h[1:] for h in HOSTS], ids=[h[0] for h in HOSTS])
def test_certificate_hosts(args: tuple[str, str, tuple[str, str]], hosts: tuple[str, ...]) -> None:
    assert serving_hosts(*args) == hosts


def test_modes_are_those_of_the_rules() -> None:
    assert get_args(SumMode) == SUM_MODES


def test_help_of_serve_names_the_namespaces_that_are_always_exempt() -> None:
    # Lines are broken after hyphens, too.
    text = " ".join(CliRunner().invoke(cli, ["serve", "--help"]).output.split()).replace("- ", "-")
    assert ", ".join(EXEMPT_NAMESPACES) in text


def test_version_is_told_without_serving() -> None:
    done = CliRunner().invoke(cli, ["--version"])
    assert (done.exit_code, done.output) == (0, f"muster-webhook {version('muster')}\n")


def test_option_without_a_command_belongs_to_serve() -> None:
    done = CliRunner().invoke(cli, ["--sum-of-min", "maybe"])
    assert done.exit_code == 2
    assert "Usage: cli serve" in done.output


EXCLUSIVE = [
    ("two sources", ["--cert-dir", "a", "--certificate-secret", "b/c"], "exclude each other"),
    ("registration of a foreign CA", ["--register", "--certificate-dir", "a"], "there is none"),
    ("Secret without namespace", ["--certificate-secret", "c"], "is not NAMESPACE/NAME"),
    ("a name of clients nobody can verify", ["--client-name", "a"], "needs --client-ca"),
]


@pytest.mark.parametrize(("args", "words"), [e[1:] for e in EXCLUSIVE], ids=[e[0] for e in EXCLUSIVE])
def test_certificates_come_from_one_source(args: list[str], words: str) -> None:
    done = CliRunner().invoke(cli, ["serve", *args])
    assert done.exit_code == 2
    assert words in done.output


def test_help_imports_neither_flask_nor_cryptography_nor_numpy() -> None:
    code = (
        "import sys, webhook.__main__; "
        "print([m for m in ('flask', 'cryptography', 'numpy', 'kubernetes', 'msgspec') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "[]"


# What serve starts


class Started:
    """In place of the running webhook: notes its options, and runs until it is stopped."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.options: list[WebhookOptions] = []
        self._meanwhile = meanwhile
        self._stopped = threading.Event()

    def __call__(self, options: WebhookOptions) -> Started:
        self.options.append(options)
        return self

    def stop(self) -> None:
        self._stopped.set()

    def run(self, say: Callable[[str], object]) -> None:
        say("ready")
        self._meanwhile()
        assert self._stopped.wait(10), "nobody stopped it"


def served(monkeypatch: pytest.MonkeyPatch, *args: str) -> WebhookOptions:
    """The options of the webhook that a command line starts."""
    started = Started(lambda: started.stop())
    monkeypatch.setattr("webhook.process.RunningWebhook", started)
    done = CliRunner().invoke(cli, ["serve", *args])
    assert (done.exit_code, done.exception) == (0, None)
    (options,) = started.options
    return options


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_stops_it(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(lambda: signal.raise_signal(number))
    monkeypatch.setattr("webhook.process.RunningWebhook", started)
    done = CliRunner().invoke(cli, ["serve"])
    assert (done.exit_code, done.exception) == (0, None)


OPTIONS: list[tuple[str, list[str], Callable[[WebhookOptions], Any], Any]] = [
    ("the address", ["--listen", "10.0.0.7:8443"], lambda o: (o.host, o.port), ("10.0.0.7", 8443)),
    ("the address of metrics", ["--metrics-listen", "[::1]:0"], lambda o: o.metrics, ("::1", 0)),
    ("the scheduler", ["--scheduler-name", "m"], lambda o: o.settings.scheduler_name, "m"),
    (
        "other profiles",
        ["--other-scheduler", "b", "--other-scheduler", "c"],
        lambda o: o.settings.other_schedulers,
        {"b", "c"},
    ),
    ("topologies", [], lambda o: o.settings.topology_namespaces, {"default"}),
    (
        "topologies elsewhere",
        ["--topology-namespace", "t"],
        lambda o: o.settings.topology_namespaces,
        {"default", "t"},
    ),
    ("pods of others", ["--foreign-pods", "Warn"], lambda o: o.settings.foreign_pods, "Warn"),
    ("users", ["--exempt-user", "u"], lambda o: o.settings.exempt_users, {"u"}),
    ("the sum of min", ["--sum-of-min", "off"], lambda o: o.settings.sum_of_min, "off"),
    (
        "namespaces beside those that are always exempt",
        ["--exempt-namespace", "n"],
        lambda o: o.settings.exempt_namespaces,
        {*EXEMPT_NAMESPACES, "n"},
    ),
    ("adoption", ["--adoption", "Recreate"], lambda o: o.adoption, "Recreate"),
    ("no registration", [], lambda o: (o.register, o.certificates.patch), (False, False)),
    ("registration", ["--register"], lambda o: (o.register, o.certificates.patch), (True, True)),
    ("a URL", ["--url", "https://x/y"], lambda o: (o.url, "x" in o.hosts), ("https://x/y", True)),
    ("a Service", ["--service", "a/b"], lambda o: (o.service, "b.a.svc" in o.hosts), (("a", "b"), True)),
    ("the port of a Service", ["--service-port", "8443"], lambda o: o.service_port, 8443),
    ("a folder of certificates", ["--cert-dir", "c"], lambda o: o.certificates.own, Path("c")),
    ("a Secret", ["--certificate-secret", "a/b"], lambda o: o.certificates.secret, ("a", "b")),
    ("foreign certificates", ["--certificate-dir", "c"], lambda o: o.certificates.mounted, Path("c")),
    (
        "clients",
        ["--client-ca", "ca", "--client-name", "n"],
        lambda o: (o.clients.authority, o.clients.names),
        (Path("ca"), {"n"}),
    ),
    ("the time of a reservation", ["--hold-timeout", "7"], lambda o: o.times.timeout, 7.0),
    ("the time to drain", ["--drain", "0"], lambda o: o.drain, 0.0),
    (
        "a cluster",
        ["--kubeconfig", "k", "--context", "c"],
        lambda o: (o.overrides.kubeconfig, o.overrides.context),
        ("k", "c"),
    ),
]


@pytest.mark.parametrize(("args", "read", "value"), [o[1:] for o in OPTIONS], ids=[o[0] for o in OPTIONS])
def test_options_reach_the_webhook(
    args: list[str], read: Callable[[WebhookOptions], Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(served(monkeypatch, *args)) == value


@pytest.mark.parametrize(
    ("state", "folder"),
    [
        pytest.param("/state", "/state/muster/webhook", id="in the state directory"),
        pytest.param("", "/home/muster/.local/state/muster/webhook", id="at home"),
    ],
)
def test_certificates_of_a_single_process_are_kept(
    state: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.setenv("HOME", "/home/muster")
    assert served(monkeypatch).certificates.own == Path(folder)


WRONG = [
    ("registration at all addresses", ["--register", "--listen", "0.0.0.0:1"], "needs --url or --service"),
    ("a URL without TLS", ["--url", "http://x"], "is not an https URL"),
    ("a URL without a host", ["--url", "https://"], "is not an https URL"),
    ("a URL with a query", ["--url", "https://x/?a=b"], "is not an https URL"),
    ("a URL with a fragment", ["--url", "https://x/#a"], "is not an https URL"),
    ("a Service without a name", ["--service", "a/"], "is not NAMESPACE/NAME"),
    ("a Service without a namespace", ["--service", "/b"], "is not NAMESPACE/NAME"),
]


@pytest.mark.parametrize(("args", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_options_that_lead_nowhere_are_refused(args: list[str], words: str) -> None:
    done = CliRunner().invoke(cli, ["serve", *args])
    assert done.exit_code == 2
    assert words in done.output


def test_at_all_addresses_a_url_or_a_service_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for named in (["--url", "https://x"], ["--service", "a/b"]):
        assert served(monkeypatch, "--register", "--listen", "0.0.0.0:1", *named).register


def test_unregister_deletes_the_configurations_of_the_cluster_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def connected(overrides: object) -> tuple[str, None]:
        asked.append(overrides)
        return "client", None

    monkeypatch.setattr("scheduler_core.kube.connect.connect", connected)
    monkeypatch.setattr("webhook.certs.registration.unregister", asked.append)
    done = CliRunner().invoke(cli, ["unregister", "--kubeconfig", "some/file", "--context", "there"])
    assert (done.exit_code, done.output) == (0, "")
    assert asked == [Overrides(kubeconfig="some/file", context="there"), "client"]
