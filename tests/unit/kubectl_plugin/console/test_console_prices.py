"""`--prices` of both consoles: the history page gets the prices, and a bad file ends the start."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from kubectl_plugin.cluster.quota_history import PriceList
from kubectl_plugin.console.pages.page import Services
from kubectl_plugin.console.web import cluster_console, local_console
from kubectl_plugin.console.web.app import create_app
from kubectl_plugin.console.web.cluster_console import ClusterConsole, ConsoleOptions
from kubectl_plugin.console.web.local_console import LocalConsole
from scheduler_core.errors import ConfigError
from scheduler_core.kube.connect import Overrides, connect
from tests.unit.kubectl_plugin.plugin_api import Command

GOOD = "currency: EUR\nprices: {cpu: 0.5}\n"
READ = PriceList({"cpu": Fraction(1, 2)}, "EUR")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Services]:
    """The services of the consoles that started; that of a user ends at once."""
    found: list[Services] = []

    def make(services: Services, *rest: Any) -> Flask:
        found.append(services)
        return create_app(services, *rest)

    for module in (local_console, cluster_console):
        monkeypatch.setattr(module, "create_app", make)
    monkeypatch.setattr(LocalConsole, "wait", lambda self, tell: None)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "prices.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_the_console_of_a_user(eq: Command, given: list[Services], file: Callable[[str], str]) -> None:
    assert eq("ui", "--no-open", "--prices", file(GOOD)).code == 0
    assert [services.prices for services in given] == [READ]
    done = eq("ui", "--no-open", "--prices", file("prices: {cpu: 010}"))
    assert done.code == 1
    assert "prices[cpu]: '010' must be a number" in done.err


def test_the_console_in_the_cluster(
    kubeconfig: Path, given: list[Services], file: Callable[[str], str]
) -> None:
    client, _ = connect(Overrides(kubeconfig=str(kubeconfig)))
    console = ClusterConsole(client, "muster-system", ConsoleOptions(port=0, prices=file(GOOD)))
    console.start()
    console.stop()
    assert [services.prices for services in given] == [READ]
    with pytest.raises(ConfigError, match=r"prices\[cpu\]"):
        ClusterConsole(client, "muster-system", ConsoleOptions(prices=file("prices: {cpu: x}")))
