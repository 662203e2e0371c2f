"""Commands of the kubectl plugins, in this process, against a cluster behind HTTP.

The head of a transcript says what the cluster lacks: `namespace`, that of the context; `forbidden`, kinds
that may not be listed (`pods/study`: in that namespace); `unknown`, kinds that are not served; `broken: yes`:
with objects that cannot be read. The cluster is the company; `$ cluster NAME` changes to a small one. In the
output, lines of stderr and the exit code follow `! `.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import time
from collections.abc import Iterable, Iterator
from functools import partial
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
from tests.approved.transcript import Transcript, words_of
from tests.unit.kubectl_plugin.plugin_api import Api, kubeconfig_of, refusal, serving

Raw = dict[str, Any]
PLUGINS: Final = {"elasticquota": elasticquota, "podgroup": podgroup}
# The files that commands name.
FILES: Final = Path(__file__).parent / "files"
# Kinds whose plural is not their name with an s.
_PLURALS: Final = {"NodeMetric": "nodemetrics", "PriorityClass": "priorityclasses", "Endpoints": "endpoints"}
_PROBE: Final = refusal(
    'admission webhook "elasticquotas.validate.muster.dev" denied the request: '
    "ElasticQuota default/muster-doctor-probe: spec.max[no resource]: is no resource"
)


def played(transcript: Transcript, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A transcript with the outputs of now; `folder` is empty."""
    words_of(transcript.head, "namespace", "forbidden", "unknown", "broken")
    monkeypatch.setattr(time, "time", lambda: NOW)
    # A search ends by what it has tried, not by the time that a busy machine needs.
    timeless = SimpleNamespace(time=time.time, monotonic=lambda: 0.0)
    for module in ("why", "queue"):
        monkeypatch.setattr(f"kubectl_plugin.answers.{module}.time", timeless)
    monkeypatch.setattr(examination, "CONFIRM_SECONDS", 0.0)
    monkeypatch.chdir(FILES)
    with _serving(transcript) as api:
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(api, transcript.head["namespace"])))
        monkeypatch.setenv("KUBECONFIG", str(path))
        return transcript.played(partial(_output, api, monkeypatch))


@contextlib.contextmanager
def _serving(transcript: Transcript) -> Iterator[Api]:
    """The company behind HTTP."""
    api = Api()
    extra = broken() if transcript.head.get("broken") else []
    _fill(api, [*objects_of(company()), *company_events(), *installation(), *recorded(), *extra])
    for entry in transcript.listed("forbidden"):
        plural, _, namespace = entry.partition("/")
        api.forbidden.add((plural, namespace))
    api.unknown.update(transcript.listed("unknown"))
    api.answers["POST"] = _PROBE
    with serving(api):
        yield api


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


def _output(api: Api, monkeypatch: pytest.MonkeyPatch, command: str) -> list[str]:
    """What a command prints."""
    plugin, *arguments = shlex.split(command)
    if plugin == "cluster":
        _fill(api, objects_of(small(*arguments)))
        return []
    monkeypatch.setattr("sys.argv", [f"kubectl-{plugin}"])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(PLUGINS[plugin], plugin, arguments)
    told = [f"! {line}" for line in err.getvalue().splitlines()]
    if code:
        told.append(f"! exit code {code}")
    return [*out.getvalue().splitlines(), *told]
