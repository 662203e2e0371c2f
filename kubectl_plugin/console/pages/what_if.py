"""What if: the cluster before and after a changed quota or some new objects; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click
import msgspec

from kubectl_plugin.answers.what_if_text import bound_text
from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.console.access.viewer import Refused
from kubectl_plugin.console.drawing.colors import QuotaColors
from kubectl_plugin.console.pages.page import Content, PageRequest, Services
from kubectl_plugin.live.manifests import put_objects
from kubectl_plugin.live.suppositions import set_bound
from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.draft import Draft
from scheduler_core.answers.run_result import QuotaUseNow
from scheduler_core.answers.suppositions import note_sum_of_min
from scheduler_core.answers.what_if import Comparison, compare
from scheduler_core.answers.worlds import World
from scheduler_core.model.quantity import format_resource
from scheduler_core.simulate.scenario import load_documents

_WHOLE: Final = "nodes, and pods and quotas of all namespaces"
# What is said with a refusal of too long a text, which the answer does not repeat.
ON_THE_COMMAND_LINE: Final = "kubectl elasticquota what-if -f FILE takes longer ones"
MOST_SECONDS: Final = 30.0
_MOST_TEXT: Final = 200_000
_MOST_ROWS: Final = 100


class WhatIfPage:
    """The form, and the comparison."""

    name = "what-if"
    path = "/what-if"
    title = "What if"
    kinds: frozenset[str] = frozenset()
    posts = True

    def version(self, services: Services) -> object:
        """Always another one: the answer is asked for, and is not refreshed."""
        return object()

    def content(self, services: Services, request: PageRequest) -> Content:
        """The comparison for a posted form. Raises QuestionRefused for what cannot be supposed."""
        cluster = services.watch.cluster
        with cluster.lock:
            bounds = [
                {
                    "namespace": quota.namespace,
                    "resource": name,
                    "min": _text(quota.min, name),
                    "max": _text(quota.max, name),
                }
                for quota in sorted(cluster.quotas.values(), key=lambda quota: quota.key)
                if request.viewer.sees(quota.namespace)
                for name in sorted({*quota.min, *quota.max})
            ]
        unread, why = services.watch.blind, [services.watch.hindrance]
        if not request.viewer.whole:
            unread = (*unread, _WHOLE)
            why.append(f"you may not list {_WHOLE}")
        form = {
            key: request.form.get(key, request.params.get(key, ""))
            for key in ("set", "manifest", "namespace")
        }
        values: dict[str, Any] = {"bounds": bounds, "form": form, "found": None}
        if unread:
            lacks = (f"nothing can be tried: {'; '.join(filter(None, why))}",)
            return Content(lambda: {"unread": list(unread)}, values, lacks)
        if not (form["set"].strip() or form["manifest"].strip()):
            return Content(dict, values)
        if len(form["manifest"]) > _MOST_TEXT:
            raise Refused(413, f"the manifest is longer than {_MOST_TEXT} characters; {ON_THE_COMMAND_LINE}")
        found = services.questions.ask("what if", _question(form), Comparison, seconds=MOST_SECONDS)
        values |= {"found": found, "view": _view(found, request.colors(services))}
        return Content(lambda: msgspec.to_builtins(found), values)


def _text(amounts: Mapping[str, int], name: str) -> str:
    return format_resource(name, amounts[name]) if name in amounts else ""


def _question(form: Mapping[str, str]) -> Any:
    namespace = form["namespace"].strip() or "default"

    def question(world: World) -> Comparison:
        draft = Draft(world.base)
        if form["manifest"].strip():
            documents = load_documents(form["manifest"], "the manifest")
            put_objects(draft, [("the manifest", documents)], namespace, "the manifest")
        try:
            checks = [set_bound(draft, namespace, text) for text in form["set"].split()]
        except click.UsageError as error:
            raise CommandFailed(error.message.replace("--set ", "")) from None
        for check in checks:
            check()
        note_sum_of_min(draft)
        return compare(world, draft.changes(), NOTHING)

    return question


def _view(found: Comparison, colors: QuotaColors) -> dict[str, Any]:
    lists = {
        "starts": [f"{item.pod} on {item.node}" for item in found.starts],
        "moves": [f"{item.pod} to {item.node}" for item in found.moved],
        "waits": [f"{item.pod}: {item.message}" for item in found.waits],
        "evicted": [
            f"{item.pod}{f' for {item.preemptor}' if item.preemptor else ''}" for item in found.evicted
        ],
        "spared": [item.pod for item in found.spared],
        "gone": list(found.gone),
    }
    return {
        "lists": [
            (name, items[:_MOST_ROWS], max(0, len(items) - _MOST_ROWS))
            for name, items in lists.items()
            if items
        ],
        "quotas": list(_quotas(found, colors)),
        "waiting": (len(found.before.waiting), len(found.after.waiting)),
        "groups": list(_groups(found)),
    }


def _quotas(found: Comparison, colors: QuotaColors) -> Iterator[dict[str, str]]:
    """The quotas whose use or bounds differ, side by side."""
    was = {(item.namespace, item.name): item for item in found.before.quotas}
    for quota in found.after.quotas:
        old = was.get((quota.namespace, quota.name), QuotaUseNow(quota.namespace, quota.name, {}, {}, {}))
        for name in sorted({*quota.min, *quota.max, *old.min, *old.max}):
            before = _numbers(old, name)
            after = _numbers(quota, name)
            if before != after:
                yield {
                    "namespace": quota.namespace,
                    "resource": name,
                    "color": colors.of(quota.namespace),
                    "before": before,
                    "after": after,
                }


def _numbers(quota: QuotaUseNow, name: str) -> str:
    used = quota.used.get(name, 0)
    over = max(0, used - quota.min.get(name, 0))
    more = f", {format_resource(name, over)} borrowed" if over else ""
    low, high = bound_text(name, quota.min), bound_text(name, quota.max)
    return f"{format_resource(name, used)} used{more} (min {low}, max {high})"


def _groups(found: Comparison) -> Iterator[tuple[str, str, str]]:
    was = {item.group: item for item in found.before.groups}
    for item in found.after.groups:
        old = was.get(item.group)
        if old != item:
            before = f"{old.members} placed, hop cost {old.hop_cost}" if old is not None else "not placed"
            yield item.group, before, f"{item.members} placed, hop cost {item.hop_cost}"
