"""What each test file costs: kept in build/durations.json, and the dearest files told at the end of a run.

A cost is measured in seconds of a processor, in the worker, in the programs that a test started and saw
end, and in `LASTING` programs. It says the same on a busy machine; the time on the wall, kept beside it, does
not.

`python -m tests.support.durations` prints what is kept, by folder.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pytest

FILE: Final = Path(__file__).parents[2] / "build" / "durations.json"
SHOWN: Final = 10
DEAR_SECONDS: Final = 10.0
COST: Final = "processor_seconds"
COLLECTION: Final = "collection_seconds"
# Files that cost more than ten seconds of a processor, and why they may.
REASONS: Final[dict[str, str]] = {
    "tests/approved/test_transcripts.py": "three hundred commands, and most read a whole cluster",
    "tests/chart/live/test_chart_life.py": "Helm, and a day of a cluster under the chart",
    "tests/chart/live/test_stolen_tokens.py": "each right of each account is tried on a real API server",
    "tests/dashboards/test_alert_rules.py": "hours of series for every alert",
    "tests/e2e/demo/test_ends.py": "demos, each with a cluster of its own",
    "tests/e2e/demo/test_story.py": "the whole demo, chapter by chapter",
    "tests/e2e/documents/test_install.py": "an installation with all its commands, on a cluster of its own",
    "tests/e2e/documents/test_sandbox.py": "every command of four pages, and most start a kubectl",
    "tests/e2e/owners/test_job_disruptions.py": "real controllers, which start with the first of these files",
    "tests/e2e/owners/test_owner_gangs.py": "real controllers, which start with the first of these files",
    "tests/e2e/owners/test_owner_kinds.py": "real controllers, which start with the first of these files",
    "tests/e2e/owners/test_tour.py": "a control plane with all its controllers, for one chapter",
    "tests/e2e/sandbox/test_kubectl_conformance.py": "a kubectl for each line",
    "tests/e2e/sandbox/test_up_all.py": "two whole clusters, each started by its command",
    "tests/e2e/scheduler/test_out_of_memory.py": "each test starts a program that ends, with its imports",
    "tests/e2e/scheduler/test_outage.py": "a hundred pods pass by the webhook, and come back",
    "tests/e2e/test_kubectl_plugin.py": "each plugin starts by kubectl, with its imports",
    "tests/e2e/test_seed_manifests.py": "two whole installations, and a kubectl for each line",
    "tests/e2e/webhook/test_forged_charges.py": "a forger who never rests, and pods that work beside",
    "tests/e2e/webhook/test_webhook_robustness.py": "clients that never rest while replicas come and go",
    "tests/faults/test_backlog.py": "thousands of pods, on a server that goes away with them",
    "tests/faults/test_crashes.py": "a new scheduler after each crash",
    "tests/faults/test_hostile_objects.py": "megabytes for an API server, read twice",
    "tests/faults/test_leaders.py": "two schedulers for each way to lose a lease",
    "tests/faults/test_manners.py": "three schedulers and three webhooks, each started twice",
    "tests/faults/test_outages.py": "a kube-apiserver that starts four times",
    "tests/faults/test_request_faults.py": "twenty faults, each amid a burst of its own",
    "tests/faults/test_restored_etcd.py": "a control plane that starts twice, a scheduler and a webhook",
    "tests/faults/test_rolling_webhook.py": "two replicas that are replaced while pods race for a quota",
    "tests/faults/test_topology_outage.py": "five schedulers, and a kube-apiserver that starts twice",
    "tests/project/test_patterns.py": "every pattern of the product with texts of its own",
    "tests/property/test_fair_worlds.py": "thirty worlds with all their checks",
    "tests/property/test_loop_rests.py": "scenarios, of which each object goes with its time of rest",
    "tests/property/test_restart_equivalence.py": "random worlds, beside a fresh scheduler after every step",
    "tests/property/test_slow_worlds.py": "worlds with all their checks, in which pods take their time",
    "tests/property/test_what_if_comes_true.py": "worlds that are changed and played twice",
    "tests/scenarios/test_stories.py": "hundreds of scenarios, each with a report of every step",
    "tests/unit/answers/test_fixes_search.py": "a copy of a world for each fix that is named",
    "tests/unit/app/test_hostile_objects.py": "an object of each worst shape, and a hundred of some",
    "tests/unit/support/test_time_limits.py": "it starts pytest, and three workers, for seven hangs",
    "tests/unit/tools/test_mutants.py": "every fault of a small product, each with processes of its own",
    "tests/unit/webhook/http/test_cost.py": "the dearest review that is known of each kind",
    "tests/unit/webhook/test_few_descriptors.py": "strangers who open all that the process may",
    "tests/unit/webhook/test_memory.py": "large bodies of many clients at once",
}
# Process ids of programs that serve many tests: each test pays for its share, not the last one for all.
LASTING: Final[set[int]] = set()
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """Of one file: its tests, and their seconds of a processor and on the wall."""

    tests: int = 0
    processor: float = 0.0
    wall: float = 0.0


def processor_seconds() -> float:
    """Of this process, of its children that have ended, and of `LASTING` ones so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    lasting = sum(seconds_of(pid) for pid in LASTING)
    return time.process_time() + children.ru_utime + children.ru_stime + lasting


def seconds_of(pid: int) -> float:
    """What a running process and its ended children have used; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


class Meter:
    """The plugin of a process that runs tests: it writes the cost of each test into its last report."""

    def __init__(self) -> None:
        self._start = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._start = processor_seconds()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        outcome = yield
        if call.when == "teardown":
            cost = round(processor_seconds() - self._start, 4)
            outcome.get_result().user_properties.append((COST, cost))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[COLLECTION] = round(processor_seconds(), 2)


class DearFirst:
    """The plugin that puts dear files first, so that no worker is alone with one of them at the end.

    Dear are files with a reason, or with a long test. It is asked after pytest has brought together the tests
    that share a server. The order of the others stays.
    """

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        dear = {*REASONS, *(_file_of(item) for item in items if item.get_closest_marker("long"))}
        items.sort(key=lambda item: _file_of(item) not in dear)


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


class Durations:
    """The plugin of the process that starts the run: it adds up, keeps, and tells.

    A run that plays some files only leaves the others' costs as they are.
    """

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._costs: dict[str, Cost] = {}
        self._collections: dict[str, list[float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cost = self._costs.setdefault(report.nodeid.partition("::")[0], Cost())
        cost.wall += report.duration
        if report.when == "teardown":
            cost.tests += 1
            cost.processor += sum(float(str(value)) for name, value in report.user_properties if name == COST)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        seconds = getattr(node, "workeroutput", {}).get(COLLECTION)
        if seconds is not None:
            self._collections.setdefault(node.workerinput.get("pool") or "", []).append(seconds)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._costs:
            return
        self._keep()
        for line in [*self._lines_of_collection(), *lines_of(self._costs)]:
            terminalreporter.write_line(line)

    def _keep(self) -> None:
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        kept |= {name: asdict(cost) for name, cost in self._costs.items()}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(kept, indent=1, sort_keys=True))
        part.replace(self._file)

    def _lines_of_collection(self) -> list[str]:
        return [
            f"collection: {max(seconds):.1f} s of a processor in each of {len(seconds)} {pool} workers"
            for pool, seconds in sorted(self._collections.items())
        ]


def lines_of(costs: Mapping[str, Cost], reasons: Mapping[str, str] = REASONS) -> list[str]:
    """The dearest files, one line each, the dearest first; those above ten seconds with their reason."""
    dearest = sorted(costs.items(), key=lambda item: -item[1].processor)[:SHOWN]
    total = sum(cost.processor for cost in costs.values())
    return [
        f"the tests took {total:.0f} s of a processor; the dearest files:",
        *(f"{cost.processor:7.1f} s  {name}{_reason(name, cost, reasons)}" for name, cost in dearest),
    ]


def table(costs: Mapping[str, Cost]) -> str:
    """The costs by folder (of `tests/unit`, by part) as a table in Markdown."""
    sums: dict[str, Cost] = {}
    for name, cost in costs.items():
        parts = name.split("/")[:-1]
        folder = "/".join(parts[: 3 if parts[1:2] in (["unit"], ["e2e"]) else 2])
        total = sums.setdefault(folder, Cost())
        total.tests += cost.tests
        total.processor += cost.processor
        total.wall += cost.wall
    rows = sorted(sums.items(), key=lambda item: -item[1].processor)
    lines = [f"| `{folder}` | {c.tests:,} | {c.processor:.0f} | {c.wall:.0f} |" for folder, c in rows]
    return "\n".join(["| Folder | Tests | Processor s | Wall s |", "|---|---|---|---|", *lines])


def _reason(name: str, cost: Cost, reasons: Mapping[str, str]) -> str:
    if cost.processor < DEAR_SECONDS:
        return ""
    return f"  ({reasons.get(name, 'above 10 s: mend it, or say why in tests/support/durations.py')})"


if __name__ == "__main__":
    print(table({name: Cost(**cost) for name, cost in json.loads(FILE.read_text()).items()}))
