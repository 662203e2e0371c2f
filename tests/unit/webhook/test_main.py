"""The command line without a server behind it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import get_args

import pytest
from click.testing import CliRunner

from scheduler_core.model.names import EXEMPT_NAMESPACES
from webhook.__main__ import SUM_MODES, cli, serving_hosts
from webhook.policy.elastic_quotas import SumMode

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
