"""A few objects behind real HTTP, so that commands run whole: flags, kubeconfig, client, output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kubectl_plugin.cli.entry import run
from kubectl_plugin.elasticquota import elasticquota
from tests.support.stand_in_server import StandInHandler, standing_in
from tests.unit.kubectl_plugin.plugin_api import Api, Command, Done


@pytest.fixture
def api() -> Iterator[Api]:
    """An API server on loopback that serves `api.objects`."""
    state = Api()

    class Handler(StandInHandler):
        def do_GET(self) -> None:
            state.headers.append(dict(self.headers.items()))
            self.respond(*state.answer(self.path))

        def other(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else None
            self.respond(*state.write(self.command, self.path, body))

        do_POST = do_PUT = do_PATCH = do_DELETE = other

        def respond(self, code: int, body: dict[str, Any]) -> None:
            self.answer(code, json.dumps(body).encode())

    with standing_in(Handler) as state.url:
        yield state


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig of the server: a token, and team-a as the context's namespace."""
    path = tmp_path / "config"
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(config))
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
