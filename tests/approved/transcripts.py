"""Transcripts of kubectl plugins: the commands of a file, and the whole output of each.

A line that begins with `$ ` is a command; below it stand its output and, after `! `, the lines of stderr and
the exit code. The first lines, `key: value`, say what the cluster lacks:

    namespace: research
    forbidden: pods, nodes

The cluster is the company; `$ cluster NAME` changes to a small one.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import yaml

from kubectl_plugin.cli.entry import run
from kubectl_plugin.cluster.doctor import examination
from kubectl_plugin.elasticquota import elasticquota
from kubectl_plugin.podgroup import podgroup
from tests.approved.company import NOW, company, company_events, objects_of
from tests.approved.installation import broken, installation, recorded
from tests.approved.small import small
from tests.unit.kubectl_plugin.plugin_api import Api, kubeconfig_of, refusal, serving

Raw = dict[str, Any]
PLUGINS: Final = {"elasticquota": elasticquota, "podgroup": podgroup}
# Kinds whose plural is not their name with an s.
_PLURALS: Final = {"NodeMetric": "nodemetrics", "PriorityClass": "priorityclasses", "Endpoints": "endpoints"}
_PROBE: Final = refusal(
    'admission webhook "elasticquotas.validate.muster.dev" denied the request: '
    "ElasticQuota default/muster-doctor-probe: spec.max[no resource]: is no resource"
)


@dataclass
class Transcript:
    """The head of a file, and its commands."""

    head: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """What is to be played; outputs are left out."""
        found = cls()
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("$ "):
                found.commands.append(line[2:])
            elif not found.commands and ": " in line:
                key, _, value = line.partition(": ")
                found.head[key] = value
        return found

    def play(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        """The file with the outputs of now."""
        lines = [f"{key}: {value}" for key, value in self.head.items()]
        with _cluster(self.head, folder, monkeypatch) as api:
            for command in self.commands:
                lines += ["", f"$ {command}"]
                word, _, rest = command.partition(" ")
                if word == "cluster":
                    _fill(api, objects_of(small(rest)))
                else:
                    lines += _played(command)
        return "\n".join(lines) + "\n"


@contextlib.contextmanager
def _cluster(head: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The cluster behind HTTP, and a clock that stands still."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    # A search ends by what it has tried, not by the time that a busy machine needs.
    timeless = SimpleNamespace(time=time.time, monotonic=lambda: 0.0)
    for module in ("why", "queue"):
        monkeypatch.setattr(f"kubectl_plugin.answers.{module}.time", timeless)
    monkeypatch.setattr(examination, "CONFIRM_SECONDS", 0.0)
    monkeypatch.chdir(FILES)
    with serving(_api(head)) as api:
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(api, head.get("namespace", "research"))))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield api


FILES: Final = Path(__file__).parent / "files"


def _api(head: dict[str, str]) -> Api:
    """The objects of the company; `broken: yes` adds those that cannot be read."""
    api = Api()
    extra = broken() if head.get("broken") else []
    _fill(api, [*objects_of(company()), *company_events(), *installation(), *recorded(), *extra])
    for entry in filter(None, head.get("forbidden", "").split(", ")):
        plural, _, namespace = entry.partition("/")
        api.forbidden.add((plural, namespace))
    api.unknown.update(filter(None, head.get("unknown", "").split(", ")))
    api.answers["POST"] = _PROBE
    return api


def _fill(api: Api, objects: Iterable[Raw]) -> None:
    """Have the server hold these objects alone."""
    for listed in api.objects.values():
        listed.clear()
    for obj in objects:
        plural = _PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s")
        meta = obj["metadata"]
        stamped = {"resourceVersion": "1", "uid": f"{obj['kind']}-{meta['name']}"}
        stamped["creationTimestamp"] = "2026-03-10T09:00:00Z"
        api.objects.setdefault(plural, []).append({**obj, "metadata": stamped | meta})


def _played(command: str) -> list[str]:
    plugin, *arguments = shlex.split(command)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(PLUGINS[plugin], plugin, arguments)
    told: list[Any] = [f"! {line}" for line in err.getvalue().splitlines()]
    if code:
        told.append(f"! exit code {code}")
    return [*out.getvalue().splitlines(), *told]
