"""What a page is given, and what it gives: a document, and the values of its template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubectl_plugin.cluster.quota_history import PriceList
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.advisor import Advisor
from kubectl_plugin.console.cluster.cluster_watch import ClusterWatch
from kubectl_plugin.console.cluster.history_reader import HistoryReader
from kubectl_plugin.console.cluster.questions import Questions
from kubectl_plugin.console.drawing.colors import QuotaColors
from kubectl_plugin.console.pages.redaction import Redactor


@dataclass(frozen=True)
class Services:
    """The cluster, those who answer questions about it, and prices where quotas have none of their own."""

    watch: ClusterWatch
    questions: Questions
    advisor: Advisor
    history: HistoryReader
    prices: PriceList


@dataclass(frozen=True)
class PageRequest:
    """Who asks, for what: `params` of the URL, `form` of a posted form, `path` with the names in it."""

    viewer: Viewer
    params: Mapping[str, str]
    path: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)

    def redactor(self, services: Services) -> Redactor:
        """Hides the names of namespaces that the viewer may not see."""
        return Redactor.of(self.viewer, services.watch.cluster)

    def colors(self, services: Services) -> QuotaColors:
        """The colours of the quotas that the viewer may see.

        They do not depend on others: a colour tells nothing of what is hidden, does not change with it, and
        is not shared with it.
        """
        cluster = services.watch.cluster
        with cluster.lock:
            names = {quota.namespace for quota in cluster.quotas.values()}
        return QuotaColors(name for name in names if self.viewer.sees(name))


@dataclass(frozen=True)
class Content:
    """The document of `?format=json`, made when it is asked for; values of the template; what it lacks."""

    document: Callable[[], Mapping[str, Any]]
    values: Mapping[str, Any]
    lacks: tuple[str, ...] = ()
    title: str = ""
    # Whether it stays true until an object changes; else it is made anew for the next request.
    current: bool = True
    # The text of `?format=csv`, for pages that have one.
    csv: Callable[[], str] | None = None
    # Why it is of an earlier cluster, and which fields of the document are still looked for.
    stale: str = ""
    searching: str = ""


class ConsolePage(Protocol):
    """One page. `path` is its URL, with names in angle brackets; `kinds` are those that it is made of.

    `posts`: it also takes a form, which changes nothing.
    """

    name: str
    path: str
    title: str
    kinds: frozenset[str]
    posts: bool

    def content(self, services: Services, request: PageRequest) -> Content:
        """The content. Raises Refused for what the viewer may not see, MusterError for bad input."""
        ...

    def version(self, services: Services) -> object:
        """A value that is equal as long as the content is."""
        ...


class LivePage:
    """A page that changes only with the objects of its kinds."""

    kinds: frozenset[str] = frozenset()
    posts: bool = False

    def version(self, services: Services) -> object:
        """The number of changes of the kinds."""
        return services.watch.cluster.version_of(self.kinds)
