"""A scheduler whose configuration has HTTP extenders, and answers that a test gives in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.config.schema import Extender, SchedulerConfiguration
from scheduler_core.engine.decisions import Asked
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.extending import NodeRefusal, NodesAnswer, VictimsAnswer
from scheduler_core.plugins.extenders import Extenders
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node
from tests.support.gang_scheduler import GangScheduler

FILTER = Extender(url_prefix="http://x", filter_verb="filter")


class Extended(GangScheduler):
    """`nodes` are the CPUs of the nodes n0, n1, ...; time is the test's."""

    def __init__(
        self, nodes: Iterable[int], *extenders: Extender, config: SchedulerConfiguration | None = None
    ) -> None:
        extenders = extenders or (FILTER,)
        config = structs.replace(config or muster_config(), extenders=extenders)
        profiles = build_profiles(config, FACTORIES, KNOWN_PLUGINS, Extenders(extenders))
        self.scheduler = Scheduler(ClusterState(), profiles)
        self.state = self.scheduler.state
        self.now = 1000.0
        for number, cpu in enumerate(nodes):
            self.scheduler.put(make_node(f"n{number}").allocatable(cpu=cpu, pods=99).obj(), self.now)

    def asked(self, later: float = 0.0) -> list[Any]:
        """The questions of a step in which nothing else is decided."""
        decisions = self.step(later)
        assert all(isinstance(item, Asked) for item in decisions), decisions
        return [item.question for item in decisions if isinstance(item, Asked)]

    def answer(
        self,
        question: Any,
        refused: Mapping[str, str] | None = None,
        scores: Mapping[str, int] | None = None,
        never: Mapping[str, str] | None = None,
        error: str = "",
    ) -> None:
        reasons = {name: NodeRefusal(text) for name, text in (refused or {}).items()}
        reasons |= {name: NodeRefusal(text, resolvable=False) for name, text in (never or {}).items()}
        nodes = frozenset(question.nodes)
        answer = NodesAnswer(question.number, nodes, reasons, scores or {}, error)
        self.scheduler.asking.answered(answer, self.now)

    def agree(self, question: Any, *uids: str, error: str = "") -> None:
        self.scheduler.asking.answered(VictimsAnswer(question.number, frozenset(uids), error), self.now)
