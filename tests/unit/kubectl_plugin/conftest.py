"""A few objects behind real HTTP, so that commands run whole: flags, kubeconfig, client, output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from kubectl_plugin.cli.entry import run
from kubectl_plugin.elasticquota import elasticquota
from tests.unit.kubectl_plugin.plugin_api import Api, Command, Done, kubeconfig_of, serving


@pytest.fixture
def api() -> Iterator[Api]:
    """An API server on loopback that serves `api.objects`."""
    with serving(Api()) as state:
        yield state


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig of the server: a token, and team-a as the context's namespace."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig_of(api, "team-a")))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.fixture
def eq(kubeconfig: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `kubectl elasticquota ...` in this process."""
    monkeypatch.setattr("sys.argv", ["kubectl-elasticquota"])

    def command(*argv: str, plugin: click.Command = elasticquota) -> Done:
        code = run(plugin, plugin.name or "", argv)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return command
