"""Pages of the web view, without a browser, over a cluster that goes on from step to step.

The head of a transcript says who looks: `namespaces` and `groups` (`native: lab`) that they see, and `lacks`
(nodes, limits, reservations, load, trees). `deny` are kinds that the console may not list; with `tokens: no`
it is the console of one user.

    $ GET /now?fragment=1
    $ POST /what-if set=quota/research:max.cpu=99
    $ next                      the next step of the company
    $ search                    what helps is looked for; before, pages say that this is on its way
    $ remove Node cpu-0         an object is deleted
    $ replace Pod study/lost    another one of the same name takes its place, and runs
    $ trouble the server is away
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from flask.testing import FlaskClient

from kubectl_plugin.cluster.quota_history import HistoryRead, PriceList, price_list
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.history_reader import PastRead
from kubectl_plugin.console.pages.page import Services
from scheduler_core.answers.history import Reclaim
from scheduler_core.answers.showback import Period
from scheduler_core.errors import ModelError
from tests.approved.company import GPU, NOW, stages
from tests.approved.installation import days
from tests.approved.plugins import FILES
from tests.approved.transcript import Transcript, words_of
from tests.support.console_scene import Scene, SceneHistory

Raw = dict[str, Any]
# Headers that say what an answer is; the others are the same for all.
_TOLD: Final = ("Content-Type", "Location", "Refresh", "Retry-After", "X-Muster-Stale", "X-Muster-Searching")


class _History(SceneHistory):
    """The recorded days of the company."""

    def past(self, seconds: float) -> PastRead:
        period = Period.back(NOW, seconds)
        return PastRead(period, HistoryRead(self.days), self.reclaims, self.gaps)


def played(transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> str:
    """A transcript with the answers of now."""
    words_of(transcript.head, "namespaces", "groups", "lacks", "deny", "tokens")
    monkeypatch.setattr(time, "time", lambda: NOW)
    # A search ends by what it has tried, not by the time that a busy machine needs.
    timeless = SimpleNamespace(time=time.time, monotonic=lambda: 0.0)
    monkeypatch.setattr("kubectl_plugin.console.cluster.advisor.time", timeless)
    company = _Company()
    for entry in transcript.listed("deny"):
        plural, _, namespace = entry.partition("/")
        company.scene.watch.deny(plural, namespace)
    with company.scene.as_viewer(_viewer(transcript), takes_tokens="tokens" not in transcript.head) as client:
        return transcript.played(lambda command: company.output(client, command))


def _viewer(transcript: Transcript) -> Viewer:
    groups = (entry.partition(": ") for entry in transcript.listed("groups"))
    lacks = transcript.listed("lacks")
    return Viewer(
        "ada",
        frozenset(transcript.listed("namespaces")) if "namespaces" in transcript.head else None,
        tuple((dialect, frozenset({namespace})) for dialect, _, namespace in groups),
        nodes="nodes" not in lacks,
        limits=frozenset() if "limits" in lacks else None,
        reservations=frozenset() if "reservations" in lacks else None,
        load="load" not in lacks,
        trees="trees" not in lacks,
    )


class _Company:
    """A console over the company, from its first step on."""

    def __init__(self) -> None:
        self._stages = iter(stages())
        self._objects = {_key(obj): obj for obj in next(self._stages)}
        self.scene = Scene(self._objects.values())
        history: Any = _History()
        history.days = tuple(days())
        history.reclaims = (
            Reclaim(
                NOW - 1800, "reclaim", "study", "study/quota", "serving/treasure", "PodGroup serving/embed",
                {GPU: 2, "cpu": 4000}, ("notebook-1", "notebook-4"), 2,
            ),
            Reclaim(NOW - 5400, "preemption", "batch", "", "", "Pod batch/tight", {}, ("old",), 1),
        )  # fmt: skip
        services = self.scene.services
        prices: PriceList = price_list(str(FILES / "prices.yaml"))
        self.scene.services = Services(services.watch, services.questions, services.advisor, history, prices)

    def output(self, client: FlaskClient, command: str) -> Iterable[str]:
        """What a command gives."""
        word, _, rest = command.partition(" ")
        if word == "GET":
            return _told(client.get(rest))
        if word == "POST":
            path, *fields = rest.split(" ")
            form = dict(field.partition("=")[::2] for field in fields)
            body = urlencode({name: value.replace("+", " ") for name, value in form.items()})
            return _told(client.post(path, data=body, content_type="application/x-www-form-urlencoded"))
        if word == "search":
            self.scene.search()
            return []
        self._change(word, rest)
        # Answers of before the change are too old to be given again.
        self.scene.seconds += 60
        return []

    def _change(self, word: str, rest: str) -> None:
        """What a command does to the cluster, or to the console's view of it."""
        watch = self.scene.watch
        if word == "trouble":
            watch.told = rest
        elif word == "malformed":
            namespace, _, name = rest.rpartition("/")
            watch.malformed = [ModelError("spec", "is odd").within("ElasticQuota", namespace, name)]
        elif word == "remove":
            kind, _, name = rest.partition(" ")
            watch.remove(*(self._objects.pop(key) for key in list(self._objects) if _named(key, kind, name)))
        elif word == "replace":
            kind, _, name = rest.partition(" ")
            (key,) = (key for key in self._objects if _named(key, kind, name))
            old = self._objects[key]
            meta = {**old["metadata"], "uid": "another"}
            spec = {**old["spec"], "nodeName": "a100-1"}
            self._objects[key] = {**old, "metadata": meta, "spec": spec, "status": {"phase": "Running"}}
            watch.put(self._objects[key])
        else:
            assert word == "next", word
            self._next()

    def _next(self) -> None:
        """Tell the console what the next step of the company changes."""
        after = {_key(obj): obj for obj in next(self._stages)}
        self.scene.watch.remove(*(obj for key, obj in self._objects.items() if key not in after))
        self.scene.watch.put(*(obj for key, obj in after.items() if self._objects.get(key) != obj))
        self._objects = after


def _key(obj: Raw) -> tuple[str, ...]:
    meta = obj["metadata"]
    return obj.get("apiVersion", ""), obj["kind"], meta.get("namespace", ""), meta["name"]


def _named(key: tuple[str, ...], kind: str, name: str) -> bool:
    return key[1] == kind and "/".join(filter(None, key[2:])) == name


def _told(reply: Any) -> list[str]:
    headers = [f"{name}: {reply.headers[name]}" for name in _TOLD if name in reply.headers]
    # Half of the bytes of a document would be its indentation.
    text = json.dumps(reply.json, indent=1, ensure_ascii=False) if reply.is_json else reply.text
    return [f"{reply.status_code} {'; '.join(headers)}", *text.splitlines()]
