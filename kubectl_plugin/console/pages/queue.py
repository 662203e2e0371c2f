"""Queue: what waits, in the scheduler's order, with the cause, when it starts, and the step that helps."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from kubectl_plugin.answers.queue import by_unit, document, losers_text
from kubectl_plugin.console.cluster.advisor import QUEUE_KINDS, Known
from kubectl_plugin.console.drawing.colors import QuotaColors
from kubectl_plugin.console.pages.page import Content, LivePage, PageRequest, Services
from kubectl_plugin.console.pages.redaction import Redactor
from scheduler_core.answers.queue.advice import Advice, QueueAdvice
from scheduler_core.answers.queue.waiting import WaitingUnit, told_queue
from scheduler_core.model.timestamps import format_time

# What depends on a run of the scheduler.
_BLIND: Final = "what waits, in which order and until when is not known, or only in part"
# The document before the first answer.
_UNANSWERED: Final = dict.fromkeys(("length", "startingPods", "evictedPods", "waiting"))
# Rows of the table.
MOST: Final = 200

CAUSES: Final = {
    "gates": "its pods have scheduling gates",
    "gang": "members are missing",
    "quota": "the quota does not admit it",
    "topology": "no place on the topology",
    "load": "the nodes are too busy",
    "nodes": "no node has room",
    "kept": "nodes are being freed for it",
    "unknown": "not known",
}


class QueuePage(LivePage):
    """What waits."""

    name = "queue"
    path = "/queue"
    title = "Queue"
    kinds = QUEUE_KINDS

    def version(self, services: Services) -> object:
        """The queue, and the advice that came meanwhile."""
        return super().version(services), services.advisor.serial

    def content(self, services: Services, request: PageRequest) -> Content:
        """The waiting work of the viewer's namespaces, with its positions in the whole queue."""
        watch, redactor = services.watch, request.redactor(services)
        colors = request.colors(services)
        if watch.blind:
            with watch.cluster.lock:
                known = Known(told_queue(watch.cluster.simulation))
        else:
            known = services.advisor.queue()
        units = [
            _told(unit, redactor, nodes=request.viewer.nodes)
            for unit in known.queue.units
            if request.viewer.sees(unit.namespace)
        ]
        advice = QueueAdvice(tuple(_shown(item, redactor) for item in known.advice.advice))
        told = by_unit(advice)
        wanted = request.params.get("cause", "")
        rows = [unit for unit in units if wanted in ("", unit.cause)]
        counts = {cause: sum(unit.cause == cause for unit in units) for cause in CAUSES}
        values = {
            "rows": [_row(unit, told.get(unit.key), colors) for unit in rows[:MOST]],
            "more": max(0, len(rows) - MOST),
            "length": len(known.queue.units),
            "known": watch.lists("pods"),
            "whole": watch.lists("pods", everywhere=True),
            "ordered": not watch.blind,
            "pods": sum(unit.pods for unit in units),
            "counts": {cause: count for cause, count in counts.items() if count},
            "causes": CAUSES,
            "cause": wanted,
            "searching": known.searching,
            "starting": known.queue.starting,
        }
        lacks = (redactor.text(known.problem),) if known.problem else ()
        if watch.blind:
            lacks = (f"{watch.hindrance}: {_BLIND}", *lacks)
        make = partial(document, known.queue, units, advice, watch.blind)
        return Content(
            (lambda: _UNANSWERED) if known.problem and not known.serial else make,
            values,
            lacks,
            current=known.current,
            stale=redactor.text(known.problem),
            searching="starts, step" if known.searching else "",
        )


def _told(unit: WaitingUnit, redactor: Redactor, *, nodes: bool) -> WaitingUnit:
    """The unit without names that the viewer may not see."""
    message = redactor.text(unit.message)
    return msgspec.structs.replace(unit, message=message, nodes=unit.nodes if nodes else ())


def _shown(advice: Advice, redactor: Redactor) -> Advice:
    """The advice without steps that name what the viewer may not see, and without the names of who loses."""
    hides = redactor.text(advice.step) != advice.step or redactor.text(advice.what_if) != advice.what_if
    never = redactor.text(advice.never)
    if hides:
        return msgspec.structs.replace(advice, step="", what_if="", never=never, evicts=(), delays=())
    evicts, delays = (tuple(map(redactor.text, pods)) for pods in (advice.evicts, advice.delays))
    return msgspec.structs.replace(advice, never=never, evicts=evicts, delays=delays)


def _row(unit: WaitingUnit, advice: Advice | None, colors: QuotaColors) -> dict[str, Any]:
    start = advice.start if advice is not None else None
    moments = [] if start is None else [start.earliest, start.median, start.latest]
    return {
        "unit": unit,
        "color": colors.of(unit.namespace),
        "since": format_time(unit.since),
        "words": CAUSES[unit.cause],
        "starts": [None if moment is None else format_time(moment) for moment in moments],
        "advice": advice,
        "losers": losers_text(advice) if advice is not None else "",
        "link": f"{unit.dialect}.{unit.name}" if unit.dialect else "",
    }
