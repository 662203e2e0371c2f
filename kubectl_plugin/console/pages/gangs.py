"""Gangs: the groups of all kinds; and one of them, with its members, its places, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.group_ranks import RankedMember, ranked_members
from kubectl_plugin.cluster.group_status import GroupStatus, state_of, status_of
from kubectl_plugin.cluster.group_view import GroupView
from kubectl_plugin.cluster.reading import kind_name
from kubectl_plugin.cluster.topology_units import TopologyUnit, units_document, units_of
from kubectl_plugin.commands.podgroup_rank import document as rank_document
from kubectl_plugin.commands.podgroup_status import facts
from kubectl_plugin.console.access.rights import GROUP_RESOURCES
from kubectl_plugin.console.access.viewer import Refused, Viewer
from kubectl_plugin.console.cluster.cluster_watch import ClusterWatch
from kubectl_plugin.console.cluster.questions import QuestionRefused
from kubectl_plugin.console.cluster.recent_answers import RecentAnswers
from kubectl_plugin.console.drawing.heat_map import heat_map
from kubectl_plugin.console.pages.page import Content, LivePage, PageRequest, Services
from kubectl_plugin.console.pages.redaction import Redactor
from kubectl_plugin.console.pages.topology import deepest, group_blocks
from scheduler_core.answers.fixes.answer import WhyAnswer, answer_of
from scheduler_core.answers.fixes.trial import RunTrial
from scheduler_core.answers.why.answer import Waits, why
from scheduler_core.answers.why.ladder import Examination
from scheduler_core.answers.why.rung import Rung
from scheduler_core.answers.why.subject import POD_GROUP, subject_of
from scheduler_core.answers.worlds import World
from scheduler_core.decoding import decode
from scheduler_core.model.groups.gang import DIALECT_NAMES, Gang
from scheduler_core.model.timestamps import format_time
from scheduler_core.model.watched import COMPOSITES
from scheduler_core.printing.counts import names_text

GROUP_KINDS: Final = frozenset(
    {"pods", "podgroups", "configmaps", "nodes", "reservationledgers", "elasticquotas", "compositepodgroups"}
)
_GROUP_KIND_NAMES: Final = frozenset(map(kind_name, (*GROUP_RESOURCES.values(), COMPOSITES[0])))
_WITHOUT_PODS: Final = "phases and members are not known"
# Rows of the list, and members of a group that are listed one by one.
_MOST: Final = 200
# Phases in the order of the list: first what needs attention.
_PHASES: Final = ("Failed", "Unschedulable", "Pending", "Scheduling", "Running", "Finished", "Succeeded")
_WAITING: Final = frozenset({"Unschedulable", "Pending", "Scheduling"})
_WHY_SECONDS: Final = 20.0
# How old an answer may be; a search takes seconds.
_WHY_HOLDS: Final = 10.0
_SEARCH_HOLDS: Final = 60.0


class GangsPage(LivePage):
    """All groups, those that need attention first."""

    name = "gangs"
    path = "/gangs"
    title = "Gangs"
    kinds = GROUP_KINDS

    def content(self, services: Services, request: PageRequest) -> Content:
        """The groups of the viewer's namespaces."""
        watch, redactor = services.watch, request.redactor(services)
        colors = request.colors(services)
        wanted = request.params.get("q", "").strip().lower()
        with watch.cluster.lock:
            view = watch.cluster.groups(watch.unread)
            gangs = [gang for gang in view.groups() if request.viewer.sees_group(gang)]
            found = [_status(view, gang, watch, request.viewer) for gang in gangs]
        found = [msgspec.structs.replace(item, reason=redactor.text(item.reason)) for item in found]
        rows = [item for item in found if wanted in f"{item.gang.ref.namespace}/{item.gang.ref.name}".lower()]
        rows.sort(key=_attention)
        values = {
            "rows": [_row(item, colors.of(item.gang.ref.namespace)) for item in rows[:_MOST]],
            "more": max(0, len(rows) - _MOST),
            "count": len(rows),
            "params": {"q": wanted},
        }
        hidden = [name for name in watch.unread if name.partition(" ")[0] in _GROUP_KIND_NAMES]
        documents = None if hidden and not found else [item.document() for item in found]
        return Content(lambda: {"groups": documents}, values, tuple(_lacks(hidden, found)))


def _lacks(hidden: Sequence[str], found: Sequence[GroupStatus]) -> Iterator[str]:
    """The rights that are missing, and what is not known therefore."""
    if hidden:
        yield f"you may not list {', '.join(hidden)}: there may be groups that are not shown"
    blind = sorted({item.gang.ref.namespace for item in found if not item.counted})
    if blind:
        yield f"you may not list pods in {names_text(blind)}: {_WITHOUT_PODS}"


def _status(view: GroupView, gang: Gang, watch: ClusterWatch, viewer: Viewer) -> GroupStatus:
    """The status of a group, without what is not known or what the viewer may not read."""
    status = status_of(view, gang)
    if not watch.lists_in("pods", gang.ref.namespace):
        status = status.without_pods()
    if viewer.sees_reservations(gang.ref.namespace):
        return status
    return msgspec.structs.replace(status, reserved=None)


def _attention(item: GroupStatus) -> tuple[int, str, str]:
    rank = _PHASES.index(item.phase) if item.phase in _PHASES else len(_PHASES)
    return rank, item.gang.ref.namespace, item.gang.ref.name


def _row(item: GroupStatus, color: str) -> dict[str, Any]:
    ref = item.gang.ref
    return {
        "namespace": ref.namespace,
        "name": ref.name,
        "link": name_in_links(item.gang),
        "dialect": DIALECT_NAMES[ref.dialect],
        "color": color,
        "phase": item.phase,
        "min": "" if item.gang.basic else item.gang.min_members,
        "census": item.census if item.counted else None,
        "topology": item.topology,
        "reason": item.reason,
    }


def name_in_links(gang: Gang) -> str:
    """`dialect.name`: names of several dialects may be equal."""
    return f"{DIALECT_NAMES[gang.ref.dialect]}.{gang.ref.name}"


class GangPage(LivePage):
    """One group."""

    name = "gang"
    path = "/gangs/<namespace>/<name>"
    title = "Gang"
    kinds = GROUP_KINDS | {"quotagroups", "quotaflavors", "nodemetrics"}

    def __init__(self) -> None:
        self._answers: RecentAnswers[WhyAnswer] = RecentAnswers()

    def content(self, services: Services, request: PageRequest) -> Content:
        """Status, ranks, places and, while it waits, the checks. Raises Refused for an unknown group."""
        watch, redactor = services.watch, request.redactor(services)
        namespace, name = request.path["namespace"], request.path["name"]
        with watch.cluster.lock:
            view = watch.cluster.groups(watch.unread)
            gang = _gang(view, request, namespace, name)
            status = _status(view, gang, watch, request.viewer)
            status = msgspec.structs.replace(status, reason=redactor.text(status.reason))
            ranks = _ranks(view, gang)
            if not request.viewer.nodes:
                ranks = [msgspec.structs.replace(item, units={}, hops=None) for item in ranks]
            ledgers = watch.lists_in("reservationledgers", namespace) and status.counted
            ledgers = ledgers and request.viewer.sees_reservations(namespace)
            told = [
                (title, redactor.text(words))
                for title, words in facts(view, status, known=ledgers)
                if request.viewer.nodes or title != "Placed on"
            ]
            may_map = request.viewer.nodes and watch.lists("nodes", everywhere=True)
            counted = watch.lists("pods", everywhere=True)
            units = units_of(view, gang, counted=counted) if may_map else []
            drawn = group_blocks(units) if units and ranks else []
        answer, lacks, current = self._why(services, request, status, redactor)
        if not status.counted:
            lacks = (f"you may not list pods in {namespace}: {_WITHOUT_PODS}", *lacks)
        values = {
            "status": status,
            "facts": [(title, words) for title, words in told if title not in ("Group", "Dialect", "Phase")],
            "gang": gang,
            "dialect": DIALECT_NAMES[gang.ref.dialect],
            "color": request.colors(services).of(namespace),
            "members": list(_members(status, ranks)),
            "levels": list(ranks[0].units if ranks else ()),
            "map": heat_map(_near(drawn), f"Places of {gang.ref}") if drawn and deepest(units) else None,
            "hops": _hops(gang),
            "answer": answer,
            "waits": status.phase in _WAITING,
        }
        document = partial(_document, gang, status, ranks, units, answer)
        return Content(document, values, lacks, f"{namespace}/{gang.ref.name}", current)

    def _why(
        self, services: Services, request: PageRequest, status: GroupStatus, redactor: Redactor
    ) -> tuple[WhyAnswer | None, tuple[str, ...], bool]:
        """The checks of a group that waits, what could not be asked, and whether the checks are of now.

        The steps that help are looked for on demand.
        """
        if status.phase not in _WAITING:
            return None, (), True
        unread = services.watch.blind
        if not request.viewer.whole:
            unread = (*unread, "nodes, and pods and quotas of all namespaces")
        searches = request.params.get("steps") == "1" and not unread
        ref = status.gang.ref

        def question(world: World) -> WhyAnswer:
            subject = subject_of(
                world.base, POD_GROUP, ref.namespace, f"{DIALECT_NAMES[ref.dialect]}/{ref.name}"
            )
            waits = why(world, subject, unread)
            return answer_of(world, waits) if searches else WhyAnswer(waits, complete=False)

        def ask() -> WhyAnswer:
            return services.questions.ask("why it waits", question, WhyAnswer, seconds=_WHY_SECONDS)

        version = services.watch.cluster.version_of(self.kinds)
        try:
            found, current = self._answers.get(
                (ref.key, unread, searches), version, ask, _SEARCH_HOLDS if searches else _WHY_HOLDS
            )
        except QuestionRefused as error:
            return None, (redactor.text(str(error)),), False
        return (found if request.viewer.whole else _redacted(found, redactor)), (), current


def _document(
    gang: Gang,
    status: GroupStatus,
    ranks: Sequence[RankedMember],
    units: Sequence[TopologyUnit],
    answer: WhyAnswer | None,
) -> dict[str, Any]:
    """The objects of `podgroup status`, `podgroup rank`, `podgroup topology` and `elasticquota why`."""
    return {
        "status": status.document(),
        "ranks": rank_document(gang, ranks),
        "topology": units_document(units, gang) if units else None,
        "why": msgspec.to_builtins(answer) if answer is not None else None,
    }


def _redacted(answer: WhyAnswer, redactor: Redactor) -> WhyAnswer:
    """The answer without names that the viewer may not see, made of the fields that tell of their own work.

    Fields that are not named here are empty: a new one is hidden until somebody thinks of it.
    """
    waits, examined = answer.waits, answer.waits.examined
    trial = RunTrial(
        examined.trial.starts,
        redactor.text(examined.trial.message),
        redactor.own(examined.trial.started),
        redactor.own(examined.trial.evicted),
        redactor.own(examined.trial.victims),
    )
    place = msgspec.structs.replace(examined.place, ahead=redactor.own(examined.place.ahead))
    rungs = tuple(Rung(rung.name, rung.state, redactor.text(rung.text)) for rung in examined.rungs)
    told = Waits(
        waits.subject,
        waits.verdict,
        redactor.text(waits.message),
        redactor.text(waits.told),
        Examination(trial, rungs, place, examined.quota),
        waits.unread,
    )
    return WhyAnswer(told, never=redactor.text(answer.never), complete=answer.complete)


def _gang(view: GroupView, request: PageRequest, namespace: str, name: str) -> Gang:
    """The group of a link. Groups that the viewer may not see do not exist. Raises Refused."""
    dialect, dot, plain = name.partition(".")
    wanted = f"{dialect}/{plain}" if dot and dialect in DIALECT_NAMES.values() else name
    for gang in view.of_name(namespace, wanted):
        if request.viewer.sees_group(gang):
            return gang
    raise Refused(404, f"there is no group {name} in namespace {namespace}, or you may not list it")


def _ranks(view: GroupView, gang: Gang) -> list[RankedMember]:
    try:
        return ranked_members(view, gang)
    except CommandFailed:
        return []


def _members(status: GroupStatus, ranks: list[RankedMember]) -> Iterator[Mapping[str, Any]]:
    """All pods, those with a rank first."""
    known = {item.pod: item for item in ranks}
    order = {item.pod: item.rank for item in ranks}
    for pod in sorted(status.members, key=lambda pod: (order.get(pod.name, len(order)), pod.name)):
        item = known.get(pod.name)
        yield {
            "name": pod.name,
            "node": pod.node_name,
            "state": state_of(pod),
            "created": format_time(pod.created),
            "rank": item.rank if item is not None else None,
            "hops": item.hops if item is not None else None,
            "units": list(item.units.values()) if item is not None else [],
        }


class _Results(msgspec.Struct, frozen=True, rename="camel"):
    hop_cost: str = ""
    best_hop_cost: str = ""


def _hops(gang: Gang) -> dict[str, str]:
    """The hop cost of the placement, and of the best one on an empty cluster, as the scheduler wrote them."""
    try:
        found = decode((gang.results or "{}").encode(), _Results)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return {"cost": found.hop_cost, "best": found.best_hop_cost} if found.hop_cost else {}


def _near(blocks: list[Any]) -> list[Any]:
    """The units with members, and their neighbours as far as they make a picture."""
    own = [block for block in blocks if block.own]
    others = [block for block in blocks if not block.own]
    return own + others[: max(0, 12 - len(own))] if len(blocks) > 24 else blocks
