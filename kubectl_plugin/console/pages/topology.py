"""Topology: racks and nodes, how full they are, how busy, and for whom they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kubectl_plugin.cluster.topology_units import TopologyUnit, units_document, units_of
from kubectl_plugin.console.drawing.heat_map import HeatBlock, HeatCell, heat_map
from kubectl_plugin.console.pages.page import Content, LivePage, PageRequest, Services
from kubectl_plugin.render.quantity_text import human
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.names import CPU, MEMORY
from scheduler_core.model.node_metric import NodeMetric
from scheduler_core.simulate.world import Simulation

SHOWN: Final = ("use", "load", "kept")
TOPOLOGY_KINDS: Final = frozenset({"nodes", "pods", "configmaps", "podgroups", "nodemetrics"})
# Names of groups that the words of a node tell.
_KEEPERS: Final = 3


class TopologyPage(LivePage):
    """The heat map."""

    name = "topology"
    path = "/topology"
    title = "Topology"
    kinds = TOPOLOGY_KINDS

    def content(self, services: Services, request: PageRequest) -> Content:
        """The units of the topology; needs the right to list nodes."""
        watch, redactor = services.watch, request.redactor(services)
        if not request.viewer.nodes or not watch.lists("nodes", everywhere=True):
            missing = ("you may not list nodes: the topology is not known",)
            return Content(lambda: {"group": None, "units": None}, {"map": None}, missing)
        asked = request.params.get("show", "")
        show = asked if asked in SHOWN else "use"
        with watch.cluster.lock:
            view = watch.cluster.groups(watch.unread)
            counted = watch.lists("pods", everywhere=True)
            units = units_of(view, None, counted=counted)
            metrics = dict(watch.cluster.metrics) if request.viewer.load else {}
            kept = _kept(watch.cluster.simulation, redactor.text)
        values = {
            "map": heat_map(blocks(units, show, metrics, kept), f"Nodes by {show}")
            if len(units) > 1
            else None,
            "show": show,
            "totals": _totals(units[0]),
            "nodes": units[0].leaves,
            "units": sum(unit.depth == deepest(units) - 1 for unit in units) if deepest(units) > 1 else 0,
            "measured": len(metrics),
            "kept": len(kept) if counted else None,
        }
        measured = request.viewer.load and watch.lists("nodemetrics")
        lacks: tuple[str, ...] = () if measured else ("you may not list nodemetrics: the load is not known",)
        if not counted:
            lacks = ("you may not list all pods: what they use, and what is kept, is not known", *lacks)
        return Content(lambda: units_document(units, None), values, lacks)


def deepest(units: Sequence[TopologyUnit]) -> int:
    """The depth of the nodes."""
    return max(unit.depth for unit in units)


def blocks(
    units: Sequence[TopologyUnit],
    show: str,
    metrics: Mapping[str, NodeMetric],
    kept: Mapping[str, str],
    marks: Callable[[TopologyUnit], str] = lambda unit: "",
) -> list[HeatBlock]:
    """The nodes, in the units right above them. `marks` gives what is written in a node."""
    bottom = deepest(units)
    found: list[HeatBlock] = []
    head: TopologyUnit | None = None
    path: dict[int, TopologyUnit] = {}
    cells: list[HeatCell] = []
    for unit in units:
        path[unit.depth] = unit
        if unit.depth < bottom - 1:
            continue
        if unit.depth == bottom:
            cells.append(_cell(unit, show, metrics, kept, marks))
            continue
        if head is not None:
            found.append(_block(head, path, cells))
        head, cells = unit, []
    if head is not None:
        found.append(_block(head, path, cells))
    return found


def _block(unit: TopologyUnit, path: Mapping[int, TopologyUnit], cells: list[HeatCell]) -> HeatBlock:
    words = f"{unit.name}: {unit.leaves} nodes, {_amounts(unit)}"
    return HeatBlock(unit.name, words, tuple(cells), bool(unit.members))


def _cell(
    unit: TopologyUnit,
    show: str,
    metrics: Mapping[str, NodeMetric],
    kept: Mapping[str, str],
    marks: Callable[[TopologyUnit], str],
) -> HeatCell:
    words = f"{unit.name}: {_amounts(unit)}"
    metric = metrics.get(unit.name)
    load = _load(unit, metric)
    if load is not None:
        words += f"; measured load {load:.0%}"
    if unit.name in kept:
        words += f"; kept for {kept[unit.name]}"
    if unit.members:
        words += f"; {', '.join(unit.members)}"
    share = use_share(unit)
    if show == "load":
        share = load
    elif show == "kept":
        share = 1.0 if unit.name in kept else 0.0
    return HeatCell(share, marks(unit), words, bool(unit.members))


def use_share(unit: TopologyUnit) -> float | None:
    """The used share of the fullest resource; None for a node that has none."""
    shares = [used / unit.total[name] for name, used in unit.used.items() if unit.total[name]]
    return max(shares, default=None)


def _load(unit: TopologyUnit, metric: NodeMetric | None) -> float | None:
    """The measured use of the busiest resource, as a share of what the node has."""
    if metric is None:
        return None
    usage = metric.usage or {}
    shares = [usage[name] / total for name, total in unit.total.items() if total and name in usage]
    return max(shares, default=None)


def _amounts(unit: TopologyUnit) -> str:
    """What is used of each resource that the unit has; not every node has the GPUs of another one."""
    if not unit.used:
        return ", ".join(f"{human(name, total)} {name}, use not known" for name, total in unit.total.items())
    return ", ".join(
        f"{human(name, unit.used[name])} of {human(name, total)} {name} used"
        for name, total in unit.total.items()
        if total or unit.used[name] or name in (CPU, MEMORY)
    )


def _totals(root: TopologyUnit) -> list[dict[str, str]]:
    return [
        {
            "resource": name,
            "used": human(name, root.used[name]) if root.used else "",
            "free": human(name, max(0, total - root.used.get(name, 0))),
            "total": human(name, total),
        }
        for name, total in root.total.items()
    ]


def _kept(simulation: Simulation, hide: Callable[[str], str]) -> dict[str, str]:
    """The nodes that waiting pods are nominated to, and for whom."""
    names: dict[str, dict[str, None]] = {}
    for unit in simulation.scheduler.queue.units.values():
        for pod in unit.pods.values():
            if pod.nominated_node:
                ref = group_of(pod)
                words = str(ref) if ref is not None else f"Pod {pod.key}"
                names.setdefault(pod.nominated_node, {})[hide(words)] = None
    return {node: _some(words) for node, words in names.items()}


def _some(words: Iterable[str]) -> str:
    found = list(words)
    more = f" and {len(found) - _KEEPERS} more" if len(found) > _KEEPERS else ""
    return ", ".join(found[:_KEEPERS]) + more


def group_blocks(units: Sequence[TopologyUnit]) -> list[HeatBlock]:
    """The drawing of units with the members of a group: the ranks are written in the nodes."""

    def mark(unit: TopologyUnit) -> str:
        ranks = [name.rpartition("(")[2].removesuffix(")") for name in unit.members]
        return ranks[0] if len(ranks) == 1 else (f"{ranks[0]}+" if ranks else "")

    return blocks(units, "use", {}, {}, mark)
