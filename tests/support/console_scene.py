"""The pages of a console over objects in memory: no API server, no browser."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, SimpleNamespace
from typing import Any

import msgspec
from flask.testing import FlaskClient
from jinja2.bccache import Bucket, BytecodeCache

from kubectl_plugin.cluster.quota_history import HistoryRead, PriceList
from kubectl_plugin.cluster.reflectors import FeedEvent
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.advisor import Advisor
from kubectl_plugin.console.cluster.feeds import Feed, unread_limits, wanted_feeds
from kubectl_plugin.console.cluster.history_reader import Gap, PastRead
from kubectl_plugin.console.cluster.live_cluster import LiveCluster
from kubectl_plugin.console.cluster.questions import Questions
from kubectl_plugin.console.pages.all import all_pages
from kubectl_plugin.console.pages.page import Services
from kubectl_plugin.console.web.app import create_app
from scheduler_core.answers.history import Reclaim
from scheduler_core.answers.showback import Period
from scheduler_core.config.load import muster_config
from scheduler_core.errors import ModelError
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.quotas.quota_history import QuotaHistoryDay
from scheduler_core.simulate.kinds import full_name

Raw = dict[str, Any]
NOW = 1_800_000_000.0
CONFIG = muster_config()


class SceneWatch:
    """A watch that has read everything: `put` and `remove` are the events."""

    reclaims_in = ""
    history_namespace = "muster-system"

    def __init__(self, objects: Iterable[Raw] = ()) -> None:
        self.cluster = LiveCluster(CONFIG, NOW)
        self.ready = threading.Event()
        self.ready.set()
        self.blind: tuple[str, ...] = ()
        self.unread: tuple[str, ...] = ()
        self.whole_use = True
        self.told = self.uninstalled = ""
        self.malformed: list[ModelError] = []
        # Kinds that are watched in one namespace, or, if that is empty, nowhere.
        self.only: dict[str, str] = {}
        self.client = SimpleNamespace(session=SimpleNamespace(endpoint=SimpleNamespace(server="https://api")))
        self._feeds = list(wanted_feeds(composites=True))
        self._serial = 0
        self.cluster.apply([event for obj in objects for event in self.events(obj)], NOW)
        self.cluster.version += not self.cluster.version

    def lists(self, plural: str, *, everywhere: bool = False) -> bool:
        """Every kind is watched, but for those of `only`."""
        where = self.only.get(plural)
        return where is None or (bool(where) and not everywhere)

    def lists_in(self, plural: str, namespace: str) -> bool:
        """Every kind is watched, but for those of `only`."""
        return self.only.get(plural) in (None, namespace)

    def deny(self, plural: str, but: str = "") -> None:
        """No right to list a kind, or only in the namespace `but`."""
        self.only[plural] = but
        name = f"{plural} outside the namespace {but}" if but else plural
        self.unread = (*self.unread, name)
        view = self.cluster.view
        view.unread = unread_limits(self.lists)
        if plural in ("pods", "nodes", "elasticquotas", *view.hidden()):
            self.blind = (*self.blind, name)
        self.whole_use = self.whole_use and plural not in ("pods", "elasticquotas")

    @property
    def hindrance(self) -> str:
        """What was denied."""
        return f"you may not list {', '.join(self.blind)}" if self.blind else ""

    def unreadable(self) -> list[ModelError]:
        """What a test says."""
        return self.malformed

    def trouble(self) -> str:
        """What a test says."""
        return self.told

    def feeds(self, obj: Raw) -> Iterator[Feed]:
        """The feeds that have the object."""
        name = full_name(obj["kind"], obj["apiVersion"])
        labels = obj["metadata"].get("labels")
        for feed in self._feeds:
            if full_name(feed.resource.kind, feed.resource.api_version) != name:
                continue
            if not feed.scope.labels or (isinstance(labels, dict) and feed.scope.labels in labels):
                yield feed

    def events(self, obj: Raw, *, gone: bool = False) -> Iterator[FeedEvent]:
        """The events that tell of an object."""
        self._serial += 1
        namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        meta = {"uid": "-".join((obj["kind"], namespace, name)), "resourceVersion": str(self._serial)}
        # An API server sets these.
        meta["creationTimestamp"] = "2027-01-15T07:00:00Z"
        raw = msgspec.json.encode({"status": {}, **obj, "metadata": {**meta, **obj["metadata"]}})
        key = f"{namespace}/{name}" if namespace else name
        for feed in self.feeds(obj):
            seen = None if gone else feed.parse(msgspec.Raw(raw))
            uid = {**meta, **obj["metadata"]}["uid"]
            yield FeedEvent(
                feed.name, Event("DELETED" if gone else "MODIFIED", feed.resource, key, uid, seen)
            )

    def put(self, *objects: Raw) -> None:
        """Add or replace objects."""
        self.cluster.apply([event for obj in objects for event in self.events(obj)], NOW)

    def remove(self, *objects: Raw) -> None:
        """Delete objects."""
        self.cluster.apply([event for obj in objects for event in self.events(obj, gone=True)], NOW)


class SceneHistory:
    """A past that a test makes up."""

    def __init__(self) -> None:
        self.days: tuple[QuotaHistoryDay, ...] = ()
        self.reclaims: tuple[Reclaim, ...] = ()
        self.gaps: tuple[Gap, ...] = ()
        self.minute = 0.0

    def age(self) -> float:
        """The minute that a test says."""
        return self.minute

    def past(self, seconds: float) -> PastRead:
        """The same for all periods."""
        return PastRead(Period.back(NOW, seconds), HistoryRead(self.days), self.reclaims, self.gaps)


class SceneGate:
    """Everybody is the viewer that the test chose."""

    cookie = "scene"

    def __init__(self, viewer: Viewer, *, takes_tokens: bool = True) -> None:
        self.chosen = viewer
        self.takes_tokens = takes_tokens

    def open(self, token: str) -> str:
        """Nobody logs in."""
        raise AssertionError(token)

    def viewer(self, cookies: Mapping[str, str], environ: Mapping[str, Any]) -> Viewer:
        """The chosen one."""
        return self.chosen

    def close(self, session: str) -> None:
        """There are no sessions."""


class CompiledTemplates(BytecodeCache):
    """Templates are compiled once in a process, not once for each application."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """The code, if another application has compiled the same text."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code."""
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


TEMPLATES = CompiledTemplates()


class HeldSearch(threading.Thread):
    """A search for advice that begins when a test asks: none outlives a test, and no answer is a race."""

    _held = True

    def start(self) -> None:
        """Not yet."""

    def is_alive(self) -> bool:
        """Until it has been finished."""
        return self._held

    def finish(self) -> None:
        """Search now, on the thread of the test."""
        self.run()
        self._held = False


class Scene:
    """A console over objects. `as_viewer` gives a client that sees with the eyes of somebody.

    `seconds` is the clock of the advisor: it stands still, as the search for advice does until `search`.
    """

    def __init__(self, objects: Iterable[Raw] = ()) -> None:
        self.watch = SceneWatch(objects)
        self.gates: list[SceneGate] = []
        self.history = SceneHistory()
        watch: Any = self.watch
        history: Any = self.history
        self.seconds = 0.0
        self._searches: list[HeldSearch] = []
        self.questions = Questions(self.watch.cluster)
        self.advisor = Advisor(self.watch.cluster, self.questions, lambda: self.seconds, self._held_search)
        self.services = Services(watch, self.questions, self.advisor, history, PriceList())

    @contextmanager
    def as_viewer(self, viewer: Viewer, *, takes_tokens: bool = True) -> Iterator[FlaskClient]:
        """A client of an application whose requests all come from this viewer."""
        gate = SceneGate(viewer, takes_tokens=takes_tokens)
        self.gates.append(gate)
        app = create_app(self.services, gate, all_pages(), frozenset())
        # What breaks a page must break the test.
        app.testing = True
        app.jinja_env.bytecode_cache = TEMPLATES
        with app.test_client() as client:
            yield client

    def search(self) -> None:
        """Finish the search for advice that the last looks at the queue have asked for."""
        while self._searches:
            self._searches.pop().finish()

    def _held_search(self, **given: Any) -> HeldSearch:
        self._searches.append(HeldSearch(**given))
        return self._searches[-1]
